"""`flashinfer-bench report visualize`: recorded traces as charts of characters."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.datasets import (
    collector_paused,
    current_hashes,
    load_dataset,
    samples_reader,
)
from flashinfer_bench.cli.options import (
    dataset_options,
    include_weak_option,
    json_option,
    log_level_option,
    mix_hardware_option,
)
from flashinfer_bench.errors import UnknownNameError
from flashinfer_bench.report.standing import standing
from flashinfer_bench.report.visualize import charts, visualize_page

if TYPE_CHECKING:
    from flashinfer_bench.data import TraceSet


@click.command(
    "visualize",
    cls=Command,
    examples=[
        "flashinfer-bench report visualize --local examples/dataset",
        "flashinfer-bench report visualize --definitions 'rmsnorm*' --ascii",
    ],
)
@dataset_options
@click.option(
    "--definitions",
    cls=ManyOption,
    metavar="NAME...",
    help="Definitions to draw, names or globs.  [default: all]",
)
@click.option(
    "--width",
    type=click.IntRange(min=60),
    metavar="COLUMNS",
    help="How wide charts may be.  [default: as the terminal, 100 elsewhere]",
)
@click.option("--ascii", "is_ascii", is_flag=True, help="Draw with ASCII characters only.")
@mix_hardware_option
@include_weak_option
@json_option
@log_level_option
def visualize(  # noqa: PLR0917  # options arrive by name
    local: tuple[str, ...],
    definitions: tuple[str, ...],
    width: int | None,
    is_ascii: bool,
    mix_hardware: bool,
    include_weak: bool,
    as_json: bool,
) -> None:
    """Draw recorded traces as charts of characters.

    For each definition: the speedup of every solution over the reference with its 95% interval (the
    geometric mean over workloads), latency against size, and the raw samples of each solution's largest
    workload, where they were kept.
    """
    with collector_paused():
        trace_set = load_dataset(local)
        names = _named(trace_set, definitions)
        found = standing(
            (row for name in names for row in trace_set.rows(name)),
            current_hashes(trace_set),
            mixes_hardware=mix_hardware,
            includes_weak=include_weak,
        )
        groups = charts(found, samples_reader(trace_set))
    if as_json:
        screen.show_json({"schema_version": 1, "by_hardware": groups, "left_out": found.left_out})
    else:
        page = visualize_page(
            groups,
            found.left_out,
            width=width or screen.width(),
            is_ascii=is_ascii or screen.is_plain(),
        )
        screen.show(page)


def _named(trace_set: TraceSet, patterns: tuple[str, ...]) -> list[str]:
    """Keep the definitions that a pattern names; one that names nothing is a mistake."""
    known = list(trace_set.traces)
    if not patterns:
        return known
    kept: set[str] = set()
    for pattern in patterns:
        matched = fnmatch.filter({*known, *trace_set.definitions}, pattern)
        if not matched:
            raise UnknownNameError("definition", pattern, trace_set.definitions)
        kept |= set(matched)
    return [name for name in known if name in kept]
