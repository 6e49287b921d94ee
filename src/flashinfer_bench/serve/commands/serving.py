"""Options of commands that serve: where they listen, what works for them, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from flashinfer_bench.cli.options import SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.bench import BenchmarkConfig

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")
_MOST_PORT = 65_535
_SANDBOXED = {"sandbox": "required"}


def listening_options(command: Decorated) -> Decorated:
    """Add `--host`, `--port`, `--device`, `--no-worker`, `--grace` and `--lease`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        metavar="ADDRESS",
        help="Where it listens; an address that other machines reach needs tokens (`tokens add`).",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, _MOST_PORT),
        default=8000,
        show_default=True,
        help="0 takes a free one.",
    ),
    click.option(
        "--device",
        default="auto",
        show_default=True,
        metavar="NAMES",
        help="What the server's own worker runs on: cpu, cuda:0, or several as cuda:0,cuda:1.",
    ),
    click.option(
        "--no-worker", is_flag=True, help="Start no worker; others connect with `worker`."
    ),
    click.option(
        "--grace",
        type=SECONDS,
        default="30s",
        show_default=True,
        metavar="SECONDS",
        help="How long SIGTERM and Ctrl-C wait for what is worked at.",
    ),
    click.option(
        "--lease",
        type=SECONDS,
        default="30s",
        show_default=True,
        metavar="SECONDS",
        help="A worker that is silent for so long has lost its work to another.",
    ),
)


def chosen_devices(device: str, *, is_none: bool) -> tuple[str, ...]:
    """Name the devices of the server's own worker, and look whether they are there."""
    from flashinfer_bench.bench.parent.pool import device_names, hardware_of  # noqa: PLC0415  # pydantic
    from flashinfer_bench.serve.capabilities import require_torch  # noqa: PLC0415

    devices = () if is_none else device_names(device)
    for each in devices:
        require_torch()
        hardware_of(each)
    return tuple(devices)


def chosen_settings(config: str | None, settings: dict[str, Any]) -> BenchmarkConfig:
    """Read the operator's settings; a sandbox is required unless they say otherwise."""
    from flashinfer_bench.bench import BenchmarkConfig  # noqa: PLC0415  # pydantic

    if config is None:
        return BenchmarkConfig.default(**_SANDBOXED | settings)
    return BenchmarkConfig.from_yaml(config, beneath=_SANDBOXED, **settings)


def sandbox_help() -> dict[str, str]:
    """Say what holds where `--sandbox` is not given."""
    return {"sandbox": "How solutions are sandboxed (docs/sandbox.md).  [default: required]"}
