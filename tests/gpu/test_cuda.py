"""The CUDA clock and the whole pipeline on a card."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.timing.clocks import CudaEvents
from flashinfer_bench.data import Solution
from tests.flow.kernels import HONEST, dataset, solution

pytestmark = pytest.mark.gpu

SLOW_CYCLES = 20_000_000


def for_the_card(source: str) -> Solution:
    """A Python solution that targets CUDA devices."""
    made = solution(source)
    spec = made.spec.model_copy(update={"target_hardware": ["cuda"]})
    return made.model_copy(update={"spec": spec})


def spin(cycles: int) -> None:
    torch.cuda._sleep(cycles)


def test_twice_the_spin_takes_twice_the_time() -> None:
    clock = CudaEvents(torch.device("cuda"))
    clock.time_ns(spin, [(SLOW_CYCLES,)])

    once_ns, _ = clock.time_ns(spin, [(SLOW_CYCLES,)])
    twice_ns, _ = clock.time_ns(spin, [(2 * SLOW_CYCLES,)])

    assert twice_ns / once_ns == pytest.approx(2.0, rel=0.02)


def test_several_calls_are_timed_together() -> None:
    clock = CudaEvents(torch.device("cuda"))
    clock.time_ns(spin, [(SLOW_CYCLES,)])

    once_ns, _ = clock.time_ns(spin, [(SLOW_CYCLES,)])
    four_ns, results = clock.time_ns(spin, [(SLOW_CYCLES,)] * 4)

    assert four_ns / once_ns == pytest.approx(4.0, rel=0.02)
    assert len(results) == 4


@pytest.mark.parametrize(
    "mask", [None, "0", "", "-1", "0,0", "0,99", "99,0", "x", "uuid", "part", "twice"]
)
def test_the_cards_that_are_told_without_cuda_are_those_cuda_shows(mask: str | None) -> None:
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    by_uuid = {"uuid": uuid, "part": uuid[:20], "twice": f"{uuid},{uuid}"}
    environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if mask is not None:
        environment["CUDA_VISIBLE_DEVICES"] = by_uuid.get(mask, mask)
    code = (
        "import torch; from flashinfer_bench.tensors.machine import gpu_names\n"
        "cuda = torch.cuda\n"
        "print([cuda.get_device_name(n) for n in range(cuda.device_count())] == gpu_names())"
    )

    said = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)

    assert said == "True\n"


def test_a_job_runs_on_the_card_and_its_trace_says_so() -> None:
    config = BenchmarkConfig(iterations=20)
    with Benchmark(dataset(for_the_card(HONEST)), config, device="cuda:0") as benchmark:
        (trace,) = benchmark.run_all(dump_traces=False).traces["increment"]

    assert trace.evaluation.status == "PASSED", trace.evaluation.log
    assert trace.evaluation.environment.hardware == torch.cuda.get_device_name(0)
    assert trace.evaluation.performance.clock.name == "cuda_events"
    assert trace.evaluation.performance.latency_kind == "call"


def test_a_wrong_kernel_is_refused_on_the_card() -> None:
    wrong = for_the_card("def run(x):\n    return x + 1.5\n")
    with Benchmark(dataset(wrong), BenchmarkConfig(), device="cuda:0") as benchmark:
        (trace,) = benchmark.run_all(dump_traces=False).traces["increment"]

    assert trace.evaluation.status == "INCORRECT_NUMERICAL"
