"""Make, list and revoke the tokens of a server; it may run meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, CommandGroup, ManyOption
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.options import json_option, local_option, log_level_option
from flashinfer_bench.text.tables import Column, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.serve.tokens import Scope, Tokens

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")
_SCOPES = ("read", "submit", "worker", "admin")


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token, without what it is."""

    id: str
    tenant: str
    scopes: tuple[str, ...]
    is_revoked: bool
    most_queued: int
    most_per_minute: int
    device_seconds_per_day: float


@click.group(
    cls=CommandGroup,
    examples=[
        "flashinfer-bench tokens add alice --local dataset",
        "flashinfer-bench tokens add gpu-box --scopes worker --local dataset",
    ],
)
def tokens() -> None:
    """Make, list and revoke the tokens of a server; it may run meanwhile.

    From the first token on nobody does anything without one. The store keeps hashes only.
    """


def _store_options(command: Decorated) -> Decorated:
    store = click.option(
        "--store",
        metavar="FILE|DSN",
        help="The server's store.  [default: that of the dataset, as `serve`]",
    )
    output = click.option("-o", "--output", metavar="DIR", help="As given to `serve`.")
    return local_option(output(store(command)))


@tokens.command(
    cls=Command,
    document={"token": "str"},
    examples=["flashinfer-bench tokens add alice --local dataset"],
)
@click.argument("tenant", metavar="TENANT")
@click.option(
    "--scopes",
    cls=ManyOption,
    type=click.Choice(_SCOPES),
    default=("submit",),
    show_default=True,
    help="What it may be used for; submit includes read.",
)
@click.option(
    "--most-queued",
    type=click.IntRange(1),
    help="Tasks at a time.  [default: 1000 for a new tenant]",
)
@click.option(
    "--most-per-minute",
    type=click.IntRange(1),
    help="Submissions a minute.  [default: 600 for a new tenant]",
)
@click.option(
    "--device-seconds",
    type=click.FloatRange(1),
    help="Of devices a day.  [default: 86400 for a new tenant]",
)
@_store_options
@json_option
@log_level_option
def add(  # noqa: PLR0917  # click passes options by name
    tenant: str,
    scopes: tuple[Scope, ...],
    most_queued: int | None,
    most_per_minute: int | None,
    device_seconds: float | None,
    local: tuple[str, ...],
    output: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Make a token for a tenant and print it, this once; a tenant sees its own tasks, and is their author."""
    from flashinfer_bench.serve.tokens import Quotas  # noqa: PLC0415  # pydantic

    said = {
        "most_queued": most_queued,
        "most_per_minute": most_per_minute,
        "device_seconds_per_day": device_seconds,
    }
    given: dict[str, Any] = {key: value for key, value in said.items() if value is not None}
    quotas = Quotas(**given) if given else None
    token = _tokens(local, output, store).add(tenant, scopes, quotas)
    if as_json:
        screen.show_json({"schema_version": 1, "token": token})
    else:
        click.echo(token)


@tokens.command(
    "list",
    cls=Command,
    document={"tokens": "flashinfer_bench.serve.commands.tokens:list[ListedToken]"},
    examples=["flashinfer-bench tokens list --local dataset"],
)
@_store_options
@json_option
@log_level_option
def list_(local: tuple[str, ...], output: str | None, store: str | None, as_json: bool) -> None:
    """List tokens by id, with tenants, scopes and quotas."""
    found = [
        ListedToken(
            id=row["id"],
            tenant=row["tenant"],
            scopes=tuple(row["scopes"].split()),
            is_revoked=row["revoked_s"] is not None,
            most_queued=row["most_queued"],
            most_per_minute=row["most_per_minute"],
            device_seconds_per_day=row["device_seconds_per_day"],
        )
        for row in _tokens(local, output, store).all()
    ]
    if as_json:
        screen.show_json({"schema_version": 1, "tokens": found})
        return
    if not found:
        screen.show((paragraph("no tokens: whoever is on this machine may submit"),))
        return
    columns = [Column(name) for name in ("id", "tenant", "scopes")]
    columns += [
        Column(name, is_number=True) for name in ("at a time", "a minute", "device seconds a day")
    ]
    rows = [
        [
            each.id + (" (revoked)" if each.is_revoked else ""),
            each.tenant,
            ", ".join(each.scopes),
            str(each.most_queued),
            str(each.most_per_minute),
            f"{each.device_seconds_per_day:g}",
        ]
        for each in found
    ]
    screen.show((table(columns, rows),))


@tokens.command(
    cls=Command,
    document={"revoked": "str"},
    examples=["flashinfer-bench tokens revoke 5f0c2f8a --local dataset"],
)
@click.argument("token_id", metavar="ID")
@_store_options
@json_option
@log_level_option
def revoke(
    token_id: str, local: tuple[str, ...], output: str | None, store: str | None, as_json: bool
) -> None:
    """Let a token count no longer, at once."""
    _tokens(local, output, store).revoke(token_id)
    if as_json:
        screen.show_json({"schema_version": 1, "revoked": token_id})


def _tokens(local: tuple[str, ...], output: str | None, store: str | None) -> Tokens:
    from flashinfer_bench.serve.database import open_store  # noqa: PLC0415  # pydantic
    from flashinfer_bench.serve.running import default_store  # noqa: PLC0415
    from flashinfer_bench.serve.tokens import Tokens  # noqa: PLC0415

    path = store or default_store(load_dataset(local, output=output))
    return Tokens(open_store(path))
