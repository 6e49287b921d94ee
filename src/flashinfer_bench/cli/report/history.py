"""`flashinfer-bench report history`: one solution's times over runs."""

from __future__ import annotations

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset, solution_names
from flashinfer_bench.cli.options import (
    SHARE,
    basis_option,
    dataset_options,
    json_option,
    log_level_option,
)
from flashinfer_bench.errors import UnknownNameError
from flashinfer_bench.report.compare.ratios import Basis
from flashinfer_bench.report.history import histories, history_page
from flashinfer_bench.stats.verdicts import THRESHOLD


@click.command(
    "history",
    cls=Command,
    examples=[
        "flashinfer-bench report history rmsnorm_h4096_cpp --local my_dataset",
        "flashinfer-bench report history rmsnorm_h4096_cpp --local my_dataset --by latency --json",
    ],
)
@click.argument("solution", metavar="SOLUTION")
@dataset_options
@basis_option(auto="by speedup where the reference was the same in all runs.")
@click.option(
    "--threshold",
    type=SHARE,
    default=THRESHOLD,
    metavar="SHARE",
    help="Treat changes up to this as none.  [default: 2%]",
)
@json_option
@log_level_option
def history(
    solution: str, local: tuple[str, ...], by: str, threshold: float, as_json: bool
) -> None:
    """Show one solution's latency over runs, and mark where it changed.

    The page shows runs by their label or id, with the commit they ran; code that has since been replaced is part
    of the history. A change is marked where the runs before and after it differ by their ranks, by more than the
    threshold. That takes eight runs, more where there are several workloads. docs/reports.md says
    how, and how often a mark is wrong.
    """
    trace_set = load_dataset(local)
    rows = [row for row in trace_set.rows() if row.solution == solution]
    if not rows and trace_set.get_solution(solution) is None:
        known = {*solution_names(trace_set), *(row.solution for row in trace_set.rows())}
        raise UnknownNameError("solution", solution, known)
    found = histories(rows, by=None if by == "auto" else Basis(by), threshold=threshold)
    if as_json:
        screen.show_json({"schema_version": 1, "solution": solution, "histories": found})
    else:
        screen.show(history_page(solution, found))
