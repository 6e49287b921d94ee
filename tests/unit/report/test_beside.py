"""Figures beside a latency, as values and in words."""

from __future__ import annotations

from flashinfer_bench.data import EnergyInfo, HotTiming, Performance
from flashinfer_bench.report.beside import (
    BesideLatency,
    beside_facts,
    beside_latency,
    beside_legend,
    summed_up,
)

WHY = "no RAPL here"


def test_a_trace_without_such_figures_has_nothing_beside_its_latency() -> None:
    assert beside_latency(Performance(latency_ms=1.0)) is None
    assert beside_facts(None) == {}


def test_everything_that_was_measured_is_written_with_its_unit() -> None:
    performance = Performance(
        latency_ms=1.0,
        launch="graph",
        launches_per_call=5.0,
        host_overhead_ms=0.006,
        hot=HotTiming(latency_ms=0.0044, sample_count=50, block_count=10, calls_per_sample=6),
        energy=EnergyInfo(source="nvml", call_mj=0.35, call_interval_mj=(0.33, 0.37)),
    )

    assert beside_facts(beside_latency(performance)) == {
        "launched": "as a CUDA graph",
        "hot caches": "4.40 µs",
        "host time": "6.00 µs",
        "launches": "5",
        "energy": "350 µJ (330, 370)",
    }


def test_energy_that_is_not_measurable_says_why_in_a_trace_and_once_below_a_table() -> None:
    found = beside_latency(Performance(latency_ms=1.0, energy=EnergyInfo(missing=WHY)))

    assert beside_facts(found) == {"energy": f"not measurable here: {WHY}"}
    assert beside_legend([found, found]) == [f"energy: not measurable here: {WHY}"]


def test_several_workloads_are_summed_up_by_medians() -> None:
    jobs = [BesideLatency(energy_mj=energy, host_ms=0.1) for energy in (1.0, 2.0, 9.0)]

    summed = summed_up([*jobs, None])

    assert summed == BesideLatency(energy_mj=2.0, host_ms=0.1)
