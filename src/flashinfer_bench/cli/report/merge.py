"""`flashinfer-bench report merge`: several datasets become one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import dataset_paths
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import UsageError
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Column, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data.exchange.merging import Merge, MergedDataset
    from flashinfer_bench.text.tables import Page

_REMEDY = (
    "rename one of each, or take the first dataset's with --on-conflict keep-first: "
    "what belongs to the others is left out too"
)


@click.command(
    "merge",
    cls=Command,
    examples=[
        "flashinfer-bench report merge laptop_results server_results --output all_results",
        "flashinfer-bench report merge mine theirs --output both --on-conflict keep-first --json",
    ],
)
@click.argument("datasets", metavar="DATASET...", nargs=-1)
@click.option(
    "--local",
    multiple=True,
    metavar="PATH",
    help="A dataset; the same as an argument, after those.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    help="The dataset to write: a new or empty folder.",
)
@click.option(
    "--on-conflict",
    type=click.Choice(["fail", "keep-first"]),
    default="fail",
    show_default=True,
    help="When two datasets say different things under one name.",
)
@json_option
@log_level_option
def merge(
    datasets: tuple[str, ...],
    local: tuple[str, ...],
    output: str,
    on_conflict: str,
    as_json: bool,
) -> None:
    """Write several datasets as one: definitions, solutions, workloads, traces, samples, blobs, profiles.

    Equal content is written once. Traces stay as they were recorded, to the byte. The same name with other
    content is a conflict: all are named with both files, and nothing is written. With `--on-conflict
    keep-first` the dataset named first counts; what belongs to the other version, such as its traces, is left
    out and counted. The folder is written whole or not at all.
    """
    from flashinfer_bench.data.appending import require_new  # noqa: PLC0415  # `--help` does without
    from flashinfer_bench.data.exchange.merging import plan_merge, require_kept  # noqa: PLC0415  # pydantic

    named = [*datasets, *local]
    if not named:
        raise UsageError("no dataset was named: report merge DATASET... --output DIR")
    require_new(Path(output))
    _require_datasets(named)
    planned = plan_merge(dataset_paths(named))
    if on_conflict == "fail":
        require_kept(planned.merged, _REMEDY)
    write_merged(planned, Path(output), as_json=as_json)


def _require_datasets(named: Sequence[str]) -> None:
    for each in named:
        if not Path(each).is_dir():
            raise UsageError(f"{each}: no such folder")


def write_merged(planned: Merge, output: Path, *, as_json: bool) -> None:
    """Write a dataset, and say what is in it and what is not."""
    planned.write(output)
    for each in planned.merged.conflicts:
        log.warn(f"{each.kind} {each.name!r}: kept {each.first}, not {each.second}")
    for name, reason in planned.merged.unwritable.items():
        log.warn(f"{name} was left out: {reason}")
    files_by_workload: dict[str, list[str]] = {}
    for file, workload in planned.merged.missing.items():
        files_by_workload.setdefault(workload, []).append(file)
    for workload, (file, *others) in files_by_workload.items():
        more = f", nor {count_text(len(others), 'more file')} that it names" if others else ""
        log.warn(f"{file} is not there, and {workload} names it{more}")
    if as_json:
        screen.show_json({"schema_version": 1, "output": str(output), "merge": planned.merged})
    else:
        screen.show(_page(output, planned.merged))


def _page(output: Path, merged: MergedDataset) -> Page:
    columns = [Column("what"), *(Column(head, is_number=True) for head in _HEADS)]
    conflicts = [each.kind for each in merged.conflicts]
    rows = [
        [
            kind,
            f"{merged.taken[kind]:,}",
            f"{merged.duplicates[kind]:,}",
            f"{conflicts.count(kind):,}",
            f"{merged.left_out[kind]:,}",
        ]
        for kind in merged.taken
        if merged.taken[kind] or merged.duplicates[kind] or kind in conflicts
    ]
    return (
        heading(str(output)),
        table(columns, rows) if rows else paragraph("there is nothing in it"),
    )


_HEADS = ("written", "duplicates", "not kept", "left out with it")
