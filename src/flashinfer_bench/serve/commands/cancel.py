"""End a submitted task, at whatever stage it is; one that has ended stays as it is."""

from __future__ import annotations

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.serve.commands.connecting import server_options


@click.command(
    cls=Command,
    document={"task": "str", "status": "str", "outcome": "str | None"},
    examples=["flashinfer-bench cancel 5f0c2f8a4d5e4e0f9d1b2a3c4d5e6f70"],
)
@click.argument("task", metavar="TASK")
@server_options
@json_option
@log_level_option
def cancel(task: str, server: str, token: str | None, as_json: bool) -> None:
    """End a submitted task, at whatever stage it is; one that has ended stays as it is."""
    from flashinfer_bench.serve.client import ServiceClient  # noqa: PLC0415  # pydantic

    with ServiceClient(server, token) as client:
        state = client.cancel(task)
    if as_json:
        screen.show_json(
            {
                "schema_version": 1,
                "task": state.task_id,
                "status": state.status,
                "outcome": state.outcome,
            }
        )
    else:
        click.echo(f"task {state.task_id}: {state.outcome or state.status}")
