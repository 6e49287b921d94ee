"""Unseen sizes, edge sizes and strides on a card: bundled kernels hold, and one that knows its sizes does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.data import Evaluation
from tests.commands import call
from tests.flow.kernels import dataset, solution

pytestmark = pytest.mark.gpu

BUNDLED = "examples/dataset"
SIZES = (1 << 20, 1 << 22, 1 << 24)
SLOW_ELSEWHERE = f"""
    def run(x):
        for _ in range(1 if len(x) in {SIZES} else 20):
            y = x + 1
        return y
    """
WRONG_ELSEWHERE = f"def run(x):\n    return x + (1 if len(x) in {SIZES} else 2)\n"
FEW = {"warmup_runs": 2, "iterations": 20, "num_trials": 1}


def last_of(source: str) -> Evaluation:
    made = solution(source)
    spec = made.spec.model_copy(update={"target_hardware": ["cuda"]})
    held = dataset(made.model_copy(update={"spec": spec}), sizes=SIZES)
    with Benchmark(held, BenchmarkConfig(**FEW, unseen=2), device="cuda:0") as benchmark:
        traces = benchmark.run_all(dump_traces=False).traces["increment"]
    assert [trace.evaluation.status for trace in traces] == ["PASSED"] * 3
    return traces[-1].evaluation


def test_a_slow_path_for_other_sizes_is_found() -> None:
    unseen = last_of(SLOW_ELSEWHERE).unseen

    assert unseen.specialised
    assert {each.verdict for each in unseen.configurations} == {"slow"}


def test_wrong_answers_at_other_sizes_are_found() -> None:
    unseen = last_of(WRONG_ELSEWHERE).unseen

    assert unseen.specialised
    assert {each.verdict for each in unseen.configurations} == {"wrong"}


def test_an_honest_kernel_is_not_marked() -> None:
    unseen = last_of("def run(x):\n    return x + 1\n").unseen

    assert not unseen.specialised
    assert {each.verdict for each in unseen.configurations} == {"as_predicted"}


@pytest.mark.parametrize(
    "name", ["rmsnorm_h4096", "fused_add_rmsnorm_h4096", "silu_and_mul_i14336", "softmax_v128256"]
)
def test_bundled_triton_kernels_hold_at_edge_sizes_and_strides(name: str) -> None:
    (kernel,) = Path(BUNDLED).glob(f"solutions/triton/*/{name}/{name}_triton")

    done = call("check", str(kernel), "--local", BUNDLED, "--device", "cuda:0", "--edges", "--json")

    found = json.loads(done.stdout)["edges"]
    assert found["smallest_failing_size"] is None
    assert found["smallest_failing_stride"] is None
    assert found["accepted"]
