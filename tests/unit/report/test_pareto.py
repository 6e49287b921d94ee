"""Fronts of latency, energy and memory, on rows made of numbers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.pareto import dominates, pareto_fronts
from flashinfer_bench.report.standing import Standing, standing

ROW = TraceRow(
    definition="gemm",
    solution="one",
    author="me",
    language="cuda",
    workload_uuid="w1",
    axes={"n": 8},
    status="PASSED",
    hardware="H200",
    timestamp="2026-01-01T00:00:00+00:00",
    latency_ms=1.0,
    reference_latency_ms=2.0,
    speedup=2.0,
    speedup_interval=None,
    latency_kind="call",
    max_relative_error=0.0,
    max_absolute_error=0.0,
    violation_count=0,
    note_count=0,
    solution_hash=None,
    config_hash=None,
    trace_id=None,
    run_id="run",
    run_label=None,
    interpreted=False,
    peak_memory_bytes=1000,
    energy_mj=50.0,
)
ALL = ("latency", "energy", "memory")


def row(solution: str, **figures: Any) -> TraceRow:
    return msgspec.structs.replace(ROW, solution=solution, **figures)


def sorted_out(*rows: TraceRow) -> Standing:
    return standing(rows, lambda _: None)


def on_front(*rows: TraceRow) -> dict[str, int]:
    (front,) = pareto_fronts(sorted_out(*rows))
    return {line.solution: line.on_front for line in front.lines}


def test_who_is_slower_but_takes_less_energy_is_on_the_front() -> None:
    thrifty = row("thrifty", latency_ms=2.0, energy_mj=20.0)
    greedy = row("greedy", latency_ms=2.0, energy_mj=90.0)

    assert on_front(row("one"), thrifty, greedy) == {"one": 1, "thrifty": 1, "greedy": 0}


@pytest.mark.parametrize("figure", ["latency_ms", "energy_mj", "peak_memory_bytes"])
def test_who_is_worse_in_one_figure_and_better_in_none_is_dominated(figure: str) -> None:
    assert dominates(row("one"), row("two", **{figure: 1e6}), ALL)
    assert not dominates(row("two", **{figure: 1e6}), row("one"), ALL)


def test_a_difference_within_the_intervals_decides_nothing() -> None:
    one = row("one", latency_interval_ms=(0.9, 1.1))
    two = row("two", latency_ms=1.05, latency_interval_ms=(0.95, 1.15))

    assert not dominates(one, two, ALL)


def test_equals_are_both_on_the_front() -> None:
    assert on_front(row("one"), row("two")) == {"one": 1, "two": 1}


def test_a_figure_that_one_lacks_is_not_weighed_and_is_named() -> None:
    (front,) = pareto_fronts(
        sorted_out(row("one", energy_mj=None), row("two", latency_ms=2.0, energy_mj=1.0))
    )

    assert front.without == ("energy",)
    assert {line.solution: line.on_front for line in front.lines} == {"one": 1, "two": 0}


def test_each_workload_has_its_own_front() -> None:
    fast_when_small = row("one")
    fast_when_large = row("two", workload_uuid="w2", energy_mj=10.0)
    others = (row("one", workload_uuid="w2", latency_ms=9.0), row("two", latency_ms=9.0))

    assert on_front(fast_when_small, fast_when_large, *others) == {"one": 1, "two": 1}
