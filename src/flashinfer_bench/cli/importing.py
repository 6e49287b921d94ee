"""`flashinfer-bench import`: other people's problems and datasets become datasets here."""

from __future__ import annotations

from pathlib import Path

import click

from flashinfer_bench.cli.commands import Command, Group
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.cli.report_merge import write_merged

output_option = click.option(
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The dataset to write: a new or empty folder.",
)


@click.group(
    "import",
    cls=Group,
    examples=[
        "flashinfer-bench import flashinfer-trace old_dataset --output my_dataset",
    ],
)
def import_() -> None:
    """Make a dataset of what lies in another format."""


@import_.command(
    "flashinfer-trace",
    cls=Command,
    examples=["flashinfer-bench import flashinfer-trace old_dataset --output my_dataset"],
)
@click.argument(
    "folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@output_option
@json_option
@log_level_option
def flashinfer_trace(folder: Path, output: Path, as_json: bool) -> None:
    """Write a dataset of FlashInfer Trace, of any age, in today's layout.

    Workloads that lie among the traces, as they once did, go where they belong; definitions and solutions go
    to the folders of their op type and author; keys of definitions, solutions and workloads that are not known are
    left out, with a warning that counts them. Traces stay as they are, to the byte. Such a dataset can be used as
    it is, too: this only tidies it.
    """
    from flashinfer_bench.data.merging import plan_merge  # noqa: PLC0415  # pydantic

    write_merged(plan_merge([folder]), output, as_json=as_json)
