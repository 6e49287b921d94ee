"""List the tasks submitted to a server, the newest first; with a token, those of its tenant."""

from __future__ import annotations

import time

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.serve.commands.connecting import server_options
from flashinfer_bench.serve.screens import listed_tasks, tasks_page
from flashinfer_bench.serve.states import STATES

_MOST = 1000


@click.command(
    cls=Command,
    document={"tasks": "flashinfer_bench.serve.screens:list[ListedTask]"},
    examples=[
        "flashinfer-bench tasks",
        "flashinfer-bench tasks --status running --server http://farm:8000 --token-file my.token --json",
    ],
)
@server_options
@click.option(
    "--status",
    type=click.Choice(STATES),
    help="Only tasks that are so.",
)
@click.option("--definition", metavar="NAME", help="Only tasks of this definition.")
@click.option(
    "--limit",
    type=click.IntRange(1, _MOST),
    default=20,
    show_default=True,
    help="How many, the newest first.",
)
@json_option
@log_level_option
def tasks(  # noqa: PLR0917  # click passes options by name
    server: str,
    token: str | None,
    status: str | None,
    definition: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the tasks submitted to a server, the newest first; with a token, those of its tenant."""
    from flashinfer_bench.serve.client import ServiceClient  # noqa: PLC0415  # pydantic

    with ServiceClient(server, token) as client:
        found = client.tasks(status=status, definition=definition, limit=limit).tasks
    listed = listed_tasks(found, time.time())
    if as_json:
        screen.show_json({"schema_version": 1, "tasks": listed})
    else:
        screen.show(tasks_page(listed))
