"""`flashinfer-bench report`: look at recorded traces; each command has a file here."""

from __future__ import annotations

import click

from flashinfer_bench.cli.commands import CommandGroup
from flashinfer_bench.cli.report.best import best
from flashinfer_bench.cli.report.compare import compare
from flashinfer_bench.cli.report.history import history
from flashinfer_bench.cli.report.html import html
from flashinfer_bench.cli.report.merge import merge
from flashinfer_bench.cli.report.model import model
from flashinfer_bench.cli.report.pareto import pareto
from flashinfer_bench.cli.report.summary import summary
from flashinfer_bench.cli.report.visualize import visualize


@click.group(
    cls=CommandGroup,
    examples=[
        "flashinfer-bench report summary --local examples/dataset",
        "flashinfer-bench report best --local examples/dataset --json",
    ],
)
def report() -> None:
    """Look at recorded traces.

    Reports keep different hardware apart. Of a solution on a workload the newest run counts, passed
    or failed; traces of code that has since been replaced do not.
    """


for _command in (best, compare, history, html, merge, model, pareto, summary, visualize):
    report.add_command(_command)
