"""`flashinfer-bench schema`: the JSON schemas of what a dataset holds."""

from __future__ import annotations

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import log_level_option


@click.command(
    cls=Command,
    examples=["flashinfer-bench schema definition", "flashinfer-bench schema"],
)
@click.argument("entity", required=False)
@log_level_option
def schema(entity: str | None) -> None:
    """Print the JSON schema of one entity, or of all.

    ENTITY is definition, workload, solution, trace, evaluation or profile.
    """
    from flashinfer_bench.data import schema_of, schemas  # noqa: PLC0415  # pydantic

    screen.show_json(schemas() if entity is None else schema_of(entity))
