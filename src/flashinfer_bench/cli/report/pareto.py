"""`flashinfer-bench report pareto`: who is beaten by nobody in latency, energy and memory at once."""

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
from flashinfer_bench.report.pareto import pareto_fronts, pareto_page
from flashinfer_bench.report.standing import standing


@click.command(
    "pareto",
    cls=Command,
    examples=[
        "flashinfer-bench report pareto --local examples/dataset",
        "flashinfer-bench report pareto --local examples/dataset --json",
    ],
)
@dataset_options
@mix_hardware_option
@include_weak_option
@json_option
@log_level_option
def pareto(local: tuple[str, ...], mix_hardware: bool, include_weak: bool, as_json: bool) -> None:
    """Weigh solutions by latency, energy and peak memory together.

    A solution is on the front of a workload when no other is surely better in one of the three, and worse in
    none. Energy is there after `run --energy`; without it latency and memory are weighed.
    """
    with collector_paused():
        trace_set = load_dataset(local)
        found = standing(
            trace_set.rows(),
            current_hashes(trace_set),
            mixes_hardware=mix_hardware,
            includes_weak=include_weak,
        )
        fronts = pareto_fronts(found)
    if as_json:
        screen.show_json({"schema_version": 1, "fronts": fronts, "left_out": found.left_out})
    else:
        screen.show(pareto_page(fronts, found.left_out))
