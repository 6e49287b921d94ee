"""`flashinfer-bench schema`: the JSON schemas of what a dataset holds, and of what commands print."""

from __future__ import annotations

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import UnknownNameError, UsageError


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench schema definition",
        "flashinfer-bench schema check",
        "flashinfer-bench schema",
        "flashinfer-bench schema --names --json",
    ],
)
@click.argument("entity", metavar="[NAME]", required=False)
@click.option("--names", is_flag=True, help="Print the names there are, not a schema.")
@json_option
@log_level_option
def schema(entity: str | None, names: bool, as_json: bool) -> None:
    """Print the JSON schema of one entity or one command's document, or of all entities.

    NAME is definition, workload, solution, trace, evaluation or profile; or the command whose `--json` it is, such as
    check, history, export, validate or hub-pull. `run --dry-run` has dry-run. error is the document of a command
    that could not do what it was asked. Schemas are JSON with and without --json; with it, errors and --names are too.
    """
    from flashinfer_bench.cli.document_schemas import document_names, document_schema  # noqa: PLC0415
    from flashinfer_bench.data import schema_of, schemas  # noqa: PLC0415  # pydantic

    entities = [name.lower() for name in schemas()]
    if names and entity is not None:
        raise UsageError(f"--names prints all names; leave out {entity!r}")
    if names and as_json:
        documents = document_names()
        screen.show_json({"schema_version": 1, "entities": entities, "documents": documents})
    elif names:
        click.echo("\n".join([*entities, *document_names()]))
    elif entity is None:
        screen.show_json(schemas())
    elif entity.lower() in entities:
        screen.show_json(schema_of(entity))
    elif entity in (documents := document_names()):
        screen.show_json(document_schema(entity))
    else:
        known = [*entities, *documents]
        unknown = UnknownNameError("entity or document", entity, known)
        raise UsageError(f"{unknown}; there are {', '.join(known)}")
