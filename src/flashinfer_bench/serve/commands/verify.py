"""Check that each trace line is as a worker of a service signed it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import UsageError
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Column, heading, paragraph, table

if TYPE_CHECKING:
    from flashinfer_bench.serve.verifying import SignatureReport
    from flashinfer_bench.text.tables import Block, Page


@click.command(
    "verify",
    cls=Command,
    document={"verify": "flashinfer_bench.serve.verifying:SignatureReport"},
    examples=[
        "flashinfer-bench report verify results",
        "flashinfer-bench report verify results --keys workers.keys --json",
    ],
)
@click.argument("dataset", metavar="DATASET")
@click.option(
    "--keys",
    metavar="FILE",
    help="Keys that count, one a line; after it, the worker it is of.  [default: any]",
)
@json_option
@log_level_option
def verify(dataset: str, keys: str | None, as_json: bool) -> None:
    """Check that each trace line is as a worker of a service signed it.

    A worker signs a line together with its samples. `worker` and `GET /health` tell its key. Named are lines without a
    signature, changed ones, those of a key that was not given, and signed ones that are gone: exit code 1.
    """
    from flashinfer_bench.serve import verifying  # noqa: PLC0415  # pydantic

    root = Path(dataset)
    if not root.is_dir():
        raise UsageError(f"{dataset}: no such folder")
    known = None if keys is None else verifying.read_keys(Path(keys))
    report = verifying.verify(root, known)
    exit_code = 1 if report.faults else 0
    if as_json:
        screen.show_json({"schema_version": 1, "verify": report}, exit_code)
    else:
        screen.show(_page(report))
    click.get_current_context().exit(exit_code)


def _page(report: SignatureReport) -> Page:
    blocks: list[Block] = []
    if report.workers:
        rows = [[each.worker, each.key, str(each.traces)] for each in report.workers]
        columns = [Column("worker"), Column("key"), Column("traces", is_number=True)]
        blocks.append(table(columns, rows))
    if report.faults:
        lines = [f"{each.file}:{each.line}: {each.reason}" for each in report.faults]
        blocks.append(paragraph(*lines))
    traces = count_text(report.traces, "trace")
    blocks.append(heading(f"{report.verified} of {traces} are as they were signed"))
    return tuple(blocks)
