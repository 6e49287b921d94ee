"""`flashinfer-bench report best`: the best solution of each definition, or why there is none."""

from __future__ import annotations

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import collector_paused, current_hashes, load_dataset
from flashinfer_bench.cli.options import (
    dataset_options,
    include_weak_option,
    json_option,
    log_level_option,
    mix_hardware_option,
)
from flashinfer_bench.data.near_duplicates import near_duplicates_by_name
from flashinfer_bench.report.best import (
    Bounds,
    best_by_hardware,
    best_page,
    with_near_duplicates,
)
from flashinfer_bench.report.standing import standing


@click.command(
    "best",
    cls=Command,
    examples=[
        "flashinfer-bench report best --local examples/dataset",
        "flashinfer-bench report best --local examples/dataset --max-abs-error 1e-3",
    ],
)
@dataset_options
@click.option(
    "--max-abs-error", type=float, metavar="X", help="Leave out traces with a larger error."
)
@click.option(
    "--max-rel-error", type=float, metavar="X", help="Leave out traces with a larger error."
)
@mix_hardware_option
@include_weak_option
@json_option
@log_level_option
def best(  # noqa: PLR0917  # options arrive by name
    local: tuple[str, ...],
    max_abs_error: float | None,
    max_rel_error: float | None,
    mix_hardware: bool,
    include_weak: bool,
    as_json: bool,
) -> None:
    """Show the best solution of each definition, or why there is none.

    Every trace that passed qualifies: it was judged when it was recorded. Solutions that failed on
    no workload come first, then those with the higher speedup over the reference.
    """
    with collector_paused():
        trace_set = load_dataset(local)
        found = standing(
            trace_set.rows(),
            current_hashes(trace_set),
            mixes_hardware=mix_hardware,
            includes_weak=include_weak,
        )
        solutions = (each for group in trace_set.solutions.values() for each in group)
        groups = with_near_duplicates(
            best_by_hardware(found, Bounds(max_abs_error, max_rel_error)),
            near_duplicates_by_name(solutions),
        )
    measured = {name for by_definition in found.tallies.values() for name in by_definition}
    unmeasured = sorted(trace_set.definitions.keys() - measured)
    if as_json:
        screen.show_json(
            {
                "schema_version": 1,
                "by_hardware": groups,
                "not_measured": unmeasured,
                "left_out": found.left_out,
            }
        )
    else:
        screen.show(best_page(groups, unmeasured, found.left_out))
