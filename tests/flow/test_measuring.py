"""What a trace says about how it was measured: cache, ceilings, and a machine that was not quiet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import Evaluation
from tests.flow.kernels import HONEST, INCREMENT, dataset, quick, solution

LABOURED = """
def run(x):
    for _ in range(30):
        y = x + 1
    return y
"""


RESTS = """
import time
import numpy as np

def spent():
    a = np.ones((512, 512), np.float32)
    a @ a
    before = time.process_time()
    time.sleep(0.05)
    return time.process_time() - before

assert min(spent() for _ in range(5)) < 0.005, "threads that had nothing to do kept a core busy"

def run(x):
    return x + 1
"""


def measured(source: str = HONEST, *, size: int = 1000, **settings: object) -> Evaluation:
    minima = {name: settings.pop(name, None) for name in ("min_bytes", "min_flops")}
    definition = INCREMENT.model_copy(update=minima)
    store = dataset(solution(source), sizes=(size,), definition=definition)
    with Benchmark(store, quick(**settings), device="cpu") as benchmark:
        (trace,) = benchmark.run_all(dump_traces=False).traces["increment"]
    return trace.evaluation


def test_evicting_caches_is_recorded_and_another_setting_and_hot_is_none_on_a_cpu() -> None:
    found = [measured(cache=each) for each in ("auto", "hot", "cold")]

    hashes = [each.provenance.config_hash for each in found]
    assert [each.performance.is_cold for each in found] == [False, False, True]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_time_is_held_against_what_this_machine_was_measured_to_do() -> None:
    performance = measured(min_bytes="8 * n", min_flops="n").performance

    assert (performance.bytes_moved, performance.flops) == (8000, 1000)
    assert performance.sol_fraction > 0
    assert performance.ceilings["memory_gb_per_s"] > 0.1


def test_a_time_that_no_machine_can_reach_is_not_believed() -> None:
    found = measured(min_flops="10 ** 18")

    assert found.status == "INCORRECT_NUMERICAL"
    (violation,) = found.correctness.extra["violations"]
    assert violation["code"] == "implausible"
    assert "the definition's min_flops, 1e+18" in violation["evidence"]


def test_what_is_only_inferred_is_never_held_against_anyone() -> None:
    assert measured(min_flops="10 ** 18", audit=False).status == "PASSED"
    assert measured().status == "PASSED"


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Every processor has something else to do."""
    burn = [sys.executable, "-S", "-c", "while True: pass"]
    burning = [subprocess.Popen(burn) for _ in range(2 * (os.cpu_count() or 1))]
    yield
    for process in burning:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("busy_machine")
def test_blocks_on_a_busy_machine_are_repeated_within_a_bound_and_then_told_of() -> None:
    performance = measured(LABOURED, size=200_000, disturbed_repeats=2, iterations=1000).performance

    assert performance.blocks_discarded == 2
    assert performance.block_count == 10
    assert sum(performance.blocks_disturbed.values()) > 0
    assert performance.conditions.keys() == {"load_average"}


def test_threads_of_a_blas_do_not_spin_when_they_have_nothing_to_do() -> None:
    found = measured(RESTS, threads=2)

    assert found.status == "PASSED", found.log


@pytest.mark.full  # builds in every language; tests/unit looks at each by itself
def test_the_doctor_finds_that_kernels_can_be_run_here() -> None:
    command = [sys.executable, "-m", "flashinfer_bench", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)["doctor"]

    assert done.returncode == 0, told["advice"]
    assert {each["name"] for each in told["devices"]} >= {"cpu"}
    assert {"language": "python", "binding": None, "missing": None, "remark": None} in told[
        "languages"
    ]
    assert told["noise"]["ratio"] == pytest.approx(1.0, abs=0.5)
    assert told["clock"]["overhead_ns"] > 0
