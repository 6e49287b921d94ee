"""Stopping rules in a real run: real workers, real clock."""

from __future__ import annotations

import time

import pytest

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.data import Performance, Trace
from tests.flow.kernels import HONEST, dataset, quick, solution

SLOW = "import time\n\ndef run(x):\n    time.sleep(0.05)\n    return x + 1\n"
FORGETFUL = """
calls = 0

def run(x):
    global calls
    calls += 1
    return x + (1 if calls < 40 else 2)
"""


def performance(source: str, config: BenchmarkConfig) -> Performance:
    (trace,) = traces(source, config)
    assert trace.evaluation.status == "PASSED", trace.evaluation.log
    return trace.evaluation.performance


def traces(source: str, config: BenchmarkConfig) -> list[Trace]:
    made = solution(source)
    with Benchmark(dataset(made, sizes=(20_000,)), config, device="cpu") as benchmark:
        return benchmark.run_solution(made, dump_traces=False)


def test_without_a_rule_the_samples_are_those_asked_for() -> None:
    found = performance(HONEST, quick(iterations=10, num_trials=2))

    assert found.sample_count == 20
    assert found.stopping.model_dump() == {"rule": "10 samples a trial", "reason": "iterations"}
    assert found.interval_scope == "one_process"


@pytest.mark.full
def test_an_interval_that_cannot_be_reached_ends_at_the_most_blocks() -> None:
    found = performance(HONEST, quick(iterations=10, until_interval=1e-9, timeout_seconds=200))

    assert found.stopping.reason == "most_blocks"
    assert found.block_count == 240


def test_a_wide_interval_is_reached_at_once() -> None:
    found = performance(HONEST, quick(iterations=24, until_interval=1.0))

    assert found.stopping.reason == "interval"
    assert 12 <= found.block_count <= 40
    assert found.stopping.rule == "until the interval is within 100%, at most 240 blocks"


def test_a_time_budget_bounds_a_slow_kernel_and_leaves_it_an_interval() -> None:
    settings = {"iterations": 1000, "time_budget_seconds": 2.0, "profile_baseline": False}
    began_s = time.monotonic()

    found = performance(SLOW, quick(**settings, timeout_seconds=60))

    assert time.monotonic() - began_s < 20
    assert found.stopping.reason == "time_budget"
    assert found.block_count >= 6
    assert found.latency_interval_ms is not None
    assert found.sample_count < 100


def test_what_ends_by_a_rule_is_still_checked_to_its_last_call() -> None:
    """The coin may spare every sample; the call after the last one is always looked at."""
    (trace,) = traces(FORGETFUL, quick(iterations=10, until_interval=1.0, audit=True))

    assert trace.evaluation.status == "INCORRECT_NUMERICAL"
    violations = trace.evaluation.correctness.extra["violations"]
    assert [each["code"] for each in violations] == ["failed_audit"]
