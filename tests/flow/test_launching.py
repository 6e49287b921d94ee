"""Graphs, both caches, energy and locked clocks as a CPU knows them, in real processes."""

from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.data import Trace
from flashinfer_bench.errors import UsageError
from flashinfer_bench.tensors.energy import package_energy
from tests.flow.kernels import HONEST, QUICK, dataset, solution


def traced(**settings: Any) -> Trace:
    config = BenchmarkConfig(**(QUICK | settings))
    with Benchmark(dataset(solution(HONEST)), config, device="cpu") as benchmark:
        (trace,) = benchmark.run_all(dump_traces=False).traces["increment"]
    assert trace.evaluation is not None
    assert trace.evaluation.status == "PASSED", trace.evaluation.log
    return trace


def test_both_caches_are_timed_in_one_trace_and_the_hot_one_is_beside_the_cold() -> None:
    trace = traced(cache="both", iterations=6)

    performance = trace.evaluation and trace.evaluation.performance
    assert performance is not None
    assert performance.is_cold
    assert performance.hot is not None
    assert performance.hot.sample_count == performance.sample_count == 6
    assert performance.hot.speedup_factor is not None
    assert performance.hot.latency_interval_ms is not None


def test_a_trace_without_any_of_it_is_as_short_as_it_was() -> None:
    written = traced().model_dump(mode="json", exclude_unset=False)

    added = {"launch", "launches_per_call", "hot", "energy"}
    assert not added & written["evaluation"]["performance"].keys()
    assert "locked_clock_mhz" not in written["evaluation"]["environment"]


def test_energy_is_measured_where_there_is_a_counter_and_else_says_why() -> None:
    counter = package_energy()
    trace = traced(energy=True)

    found = (
        trace.evaluation and trace.evaluation.performance and trace.evaluation.performance.energy
    )
    assert found is not None
    assert (found.missing is not None) == (found.call_mj is None)
    assert not isinstance(counter, str) or found.missing == counter


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"launch": "graph"}, "--launch graph replays CUDA graphs, and the device is cpu"),
        ({"lock_clocks": True}, "--lock-clocks locks the clocks of an NVIDIA GPU"),
    ],
)
def test_what_a_processor_has_not_got_is_refused_with_the_reason(
    setting: dict[str, Any], reason: str
) -> None:
    config = BenchmarkConfig(**setting)

    with (
        Benchmark(dataset(solution(HONEST)), config, device="cpu") as benchmark,
        pytest.raises(UsageError, match=reason),
    ):
        benchmark.run_all(dump_traces=False)
