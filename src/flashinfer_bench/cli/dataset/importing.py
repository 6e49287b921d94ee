"""`flashinfer-bench import`: other people's problems and datasets become datasets here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli.commands import Command, CommandGroup
from flashinfer_bench.cli.options import json_option, log_level_option, new_folder_option
from flashinfer_bench.cli.report.merge import write_merged
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_SHOWN = 5

output_option = new_folder_option("The dataset to write: a new or empty folder.")


@click.group(
    "import",
    cls=CommandGroup,
    examples=[
        "flashinfer-bench import flashinfer-trace old_dataset --output my_dataset",
        "flashinfer-bench import kernelbench examples/kernelbench/level1 --output problems",
        "flashinfer-bench import sol-execbench sol_problems --output my_dataset",
    ],
)
def import_() -> None:
    """Make a dataset from another format."""


@import_.command(
    "flashinfer-trace",
    cls=Command,
    examples=["flashinfer-bench import flashinfer-trace old_dataset --output my_dataset"],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@output_option
@json_option
@log_level_option
def flashinfer_trace(folder: Path, output: Path, as_json: bool) -> None:
    """Write a dataset of FlashInfer Trace, of any age, in today's layout.

    Workloads among the traces, where old datasets have them, go to `workloads/`. Definitions and solutions go
    to the folders of their op type and author. Unknown keys of definitions, solutions and workloads are left
    out, with a warning that counts them. Traces stay as they are, to the byte. An old dataset can also be used
    as it is.
    """
    from flashinfer_bench.data.exchange.merging import plan_merge  # noqa: PLC0415  # pydantic

    write_merged(plan_merge([folder]), output, as_json=as_json)


def nothing_left(why: str, reasons: Sequence[str]) -> UsageError:
    """Say that nothing could be taken, and the first few reasons."""
    shown = [f"  {each}" for each in reasons[:_MOST_SHOWN]]
    if len(reasons) > len(shown):
        shown.append(f"  and {len(reasons) - len(shown)} more")
    return UsageError("\n".join([f"nothing was written: {why}", *shown]))
