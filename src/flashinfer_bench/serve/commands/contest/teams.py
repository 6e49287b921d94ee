"""Enter a contest, see how teams stand, and review an entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import DeviceError
from flashinfer_bench.serve.commands.connecting import server_options
from flashinfer_bench.serve.commands.kernels import submitted_options
from flashinfer_bench.serve.contest.screens import board_page, entry_page
from flashinfer_bench.serve.kernel_submissions import submitted_solution

if TYPE_CHECKING:
    from flashinfer_bench.serve.contest.messages import ReviewState


@click.command(
    "submit",
    cls=Command,
    document={"entry": "flashinfer_bench.serve.contest.messages:EntryState"},
    examples=[
        "flashinfer-bench contest submit kernel.py --definition gemm --server http://farm:8000 --token-file my.token",
        "flashinfer-bench contest submit solution.json --token-file my.token --json",
    ],
)
@click.argument("kernel", metavar="FILE")
@server_options
@submitted_options
@click.option("--no-wait", is_flag=True, help="Print the entry's id, and do not wait for its end.")
@json_option
@log_level_option
def submit(  # noqa: PLR0917  # click passes options by name
    kernel: str,
    server: str,
    token: str | None,
    definition: str | None,
    name: str | None,
    language: str | None,
    entry_point: str | None,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Enter a solution, wait for its end, and show its score.

    FILE is what `submit` takes. Exits with 1 when the entry did not pass, with 4 when it could not be evaluated.
    """
    from flashinfer_bench.serve.contest.client import ContestClient  # noqa: PLC0415  # pydantic

    with ContestClient(server, token) as client:
        solution = submitted_solution(client, kernel, definition, name, language, entry_point)
        state = client.enter(solution)
        log.inform(f"entry {state.entry} on {client.server}")
        if not no_wait:
            state = client.wait(state.entry)
    code = 1 if state.outcome == "failed" else 0
    if state.outcome == "not_evaluated":
        code = DeviceError.exit_code
    if as_json:
        screen.show_json({"schema_version": 1, "entry": state.to_dict()}, code)
    else:
        screen.show(entry_page(state))
    click.get_current_context().exit(code)


@click.command(
    "board",
    cls=Command,
    document={"board": "flashinfer_bench.serve.contest.messages:ContestBoard"},
    examples=["flashinfer-bench contest board --server http://farm:8000 --token-file my.token"],
)
@server_options
@json_option
@log_level_option
def board(server: str, token: str | None, as_json: bool) -> None:
    """Show how teams stand; an organiser sees which entries count, too."""
    from flashinfer_bench.serve.contest.client import ContestClient  # noqa: PLC0415  # pydantic

    with ContestClient(server, token) as client:
        found = client.board()
    if as_json:
        screen.show_json({"schema_version": 1, "board": found.to_dict()})
    else:
        screen.show(board_page(found))


@click.command(
    "review",
    cls=Command,
    document={"entry": "str", "review": "flashinfer_bench.serve.contest.messages:Review"},
    examples=[
        "flashinfer-bench contest review 5f0c2f8a accepted --token-file spring/tokens/organiser.token",
    ],
)
@click.argument("entry", metavar="ENTRY")
@click.argument("state", type=click.Choice(["accepted", "rejected", "automatic"]))
@click.option("--reason", default="", metavar="TEXT", help="Why; all teams see it.")
@server_options
@json_option
@log_level_option
def review(  # noqa: PLR0917  # click passes options by name
    entry: str, state: ReviewState, reason: str, server: str, token: str | None, as_json: bool
) -> None:
    """Accept or reject an entry, as its organiser; a rejected one is not ranked."""
    from flashinfer_bench.serve.contest import messages  # noqa: PLC0415  # pydantic
    from flashinfer_bench.serve.contest.client import ContestClient  # noqa: PLC0415

    given = messages.NewReview(entry=entry, state=state, reason=reason)
    with ContestClient(server, token) as client:
        found = client.review(given)
    if as_json:
        screen.show_json({"schema_version": 1, "entry": entry, "review": found.to_dict()})
    else:
        click.echo(f"entry {entry}: {found.state}")
