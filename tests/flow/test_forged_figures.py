"""Solutions that change what their process says about itself: each is its own failure, and no news of the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import Evaluation, Solution
from tests.commands import call
from tests.flow.kernels import HONEST, dataset, quick, solution, write_dataset
from tests.flow.test_phases import SCALED, phased
from tests.marks import mostly_full

PATCH = """
from flashinfer_bench.bench.candidate import harness
{patch}
def run(x):
    return x + 1
"""


def says(name: str, **figures: Any) -> str:
    """Source of a solution whose process sends one message with other figures in it."""
    patch = f"""
nan = float("nan")
genuine = harness.{name}
def forged(*said, **more):
    fields = dict(zip(genuine.__struct_fields__, said)) | more
    return genuine(**fields | {figures!r})
harness.{name} = forged
"""
    return PATCH.format(patch=patch)


def builds(answer: str) -> str:
    """Source of a solution whose build is answered like this, and which then mends what it changed."""
    patch = f"""
import msgspec
genuine = harness.Built
def forged(id_):
    harness.Built = genuine
    return {answer}
harness.Built = forged
"""
    return PATCH.format(patch=patch)


NAN = float("nan")
FORGED: dict[str, tuple[str, str, str]] = {
    # name: (source, expected status, words its log must hold)
    "negative_time": (says("Returned", elapsed_ns=-5), "RUNTIME_ERROR", "elapsed_ns"),
    "time_that_is_no_number": (says("Returned", elapsed_ns=NAN), "RUNTIME_ERROR", "elapsed_ns"),
    "time_of_a_century": (says("Returned", elapsed_ns=10**19), "RUNTIME_ERROR", "elapsed_ns"),
    "time_longer_than_was_seen": (
        says("Returned", elapsed_ns=10**14),
        "INCORRECT_NUMERICAL",
        "violation implausible: 1 calls are said to have taken 100000000000000 ns",
    ),
    "host_time_longer_than_was_seen": (
        says("Returned", host_ns=10**14),
        "INCORRECT_NUMERICAL",
        "violation implausible: 1 calls are said to have taken 100000000000000 ns",
    ),
    "host_time_where_no_clock_measures_it": (
        says("Returned", host_ns=7),
        "INCORRECT_NUMERICAL",
        "violation tampered_harness: calls are said to have kept the host",
    ),
    "negative_memory": (
        says("Kept", peak_memory_bytes=-1, tampering=None),
        "RUNTIME_ERROR",
        "peak_memory_bytes",
    ),
    "memory_that_is_not_there": (
        says("Kept", peak_memory_bytes=1 << 50, tampering=None),
        "INCORRECT_NUMERICAL",
        "1125899906842624 bytes are said to have been in use at most",
    ),
    "a_layout_that_takes_ages": (
        says("QuickChecked", is_clear=False)
        + "\nfrom flashinfer_bench.bench.protocol import Inspected\n"
        + "harness.Inspected = lambda id_, *rest: Inspected(id_, None, False, 1 << 40)\n",
        "INCORRECT_NUMERICAL",
        "1099511627776 of 1000 elements are said to be strided",
    ),
    "built_for_another_device": (
        builds("harness.BuiltElsewhere(id_, 'built for sm_90, no CUDA device')"),
        "COMPILE_ERROR",
        "the build says that it is for another device, and it is not: built for sm_90",
    ),
    "toolchain_missing": (
        builds("harness.BuildFailed(id_, 'no compiler here', '', True)"),
        "COMPILE_ERROR",
        "no compiler here",
    ),
}
LOOKS_LIKE_CUPTI = builds(
    "msgspec.defstruct('Forged', ['id', 'clock', 'clock_version', 'clock_overhead_ns', "
    "'latency_kind', 'is_cold', 'builder'], tag='Built')"
    "(id_, 'sundial', '9', float('nan'), 'device', True, 'triton')"
)


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    with Benchmark(dataset(), quick(iterations=2), device="cpu") as running:
        yield running


def evaluate(benchmark: Benchmark, candidate: Solution) -> Evaluation:
    (trace,) = benchmark.run_solution(candidate, dump_traces=False)
    return trace.evaluation


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_figure_is_its_jobs_failure_and_the_next_one_is_unaffected(
    benchmark: Benchmark, name: str
) -> None:
    source, status, words = FORGED[name]

    found = evaluate(benchmark, solution(source, name=name))
    after = evaluate(benchmark, solution(HONEST, name=f"after_{name}"))

    assert found.status == status, found.log
    assert words in found.log
    assert after.status == "PASSED", after.log


def test_what_a_trace_says_about_the_clock_comes_from_the_judge(benchmark: Benchmark) -> None:
    honest = evaluate(benchmark, solution(HONEST, name="honest")).performance
    found = evaluate(benchmark, solution(LOOKS_LIKE_CUPTI, name="looks_like_cupti"))

    assert found.status == "PASSED", found.log
    assert found.performance.clock.overhead_ns == found.environment.calibration["empty_call_ns"]
    assert found.performance.clock.version == honest.clock.version
    assert found.performance.clock.name == honest.clock.name == "wall"
    assert (found.performance.latency_kind, found.performance.is_cold) == ("wall", False)


@pytest.mark.parametrize("phase", mostly_full(["prepare", "plan"], "prepare"))
def test_a_phase_takes_as_long_as_the_judge_saw(phase: str) -> None:
    source = """
    import time
    def pack(*inputs):
        genuine = time.perf_counter, time.perf_counter_ns
        time.perf_counter = time.perf_counter_ns = lambda: 0
        time.sleep(0.05)
        time.perf_counter, time.perf_counter_ns = genuine
    def run(state, x, weight, order):
        return x * weight + order
    """
    candidate = phased(source, **{phase: "pack"})

    with Benchmark(dataset(definition=SCALED), quick(iterations=2), device="cpu") as benchmark:
        performance = evaluate(benchmark, candidate).performance

    taken = {"prepare": performance.prepare_ms, "plan": performance.plan_ms}
    assert taken.pop(phase) >= 50
    assert list(taken.values()) == [None]


@pytest.mark.full
def test_the_run_ends_with_the_solutions_failure_and_resumes_after_it(tmp_path: Path) -> None:
    names = ("negative_memory", "toolchain_missing")
    forged = [solution(FORGED[name][0], name=name) for name in names]
    root = write_dataset(tmp_path / "dataset", *forged, solution(HONEST, name="honest"))
    command = ["run", "--local", str(root)]
    command += ["--device", "cpu", "--warmup-runs", "1", "--iterations", "2", "--num-trials", "1"]

    first = call(*command)
    again = call(*command, "--resume")

    lines = [path.read_text().splitlines() for path in (root / "traces").rglob("*.jsonl")]
    statuses = sorted(json.loads(line)["evaluation"]["status"] for file in lines for line in file)
    assert first.returncode == 1, first.stderr
    assert statuses == ["COMPILE_ERROR", "PASSED", "RUNTIME_ERROR"]
    assert again.returncode == 1, again.stderr
    assert "0 of 0 jobs passed, 3 done before (2 of them failed)" in again.stdout
