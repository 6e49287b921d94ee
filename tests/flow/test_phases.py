"""Solutions that name `prepare` and `plan`: run when they should, timed apart, checked like any other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import AxisVar, Definition, Evaluation, Solution, TensorSpec
from tests.flow.kernels import dataset, quick, solution

SCALED = Definition(
    name="scaled",
    op_type="elementwise",
    axes={"n": AxisVar()},
    inputs={
        "x": TensorSpec(shape=["n"], dtype="float32"),
        "weight": TensorSpec(shape=["n"], dtype="float32", role="static"),
        "order": TensorSpec(shape=["n"], dtype="int32", role="metadata"),
    },
    outputs={"y": TensorSpec(shape=["n"], dtype="float32")},
    reference="def run(x, weight, order):\n    return x * weight + order\n",
)
PREPARED = """
    calls = {"prepare": 0, "plan": 0}
    def pack(weight):
        calls["prepare"] += 1
        return {"weight": weight * 2}
    def lay_out(state, order):
        calls["plan"] += 1
        state["order"] = order.float()
    def run(state, x, weight, order):
        assert calls == {"prepare": 1, "plan": 1}, calls
        return x * (state["weight"] / 2) + state["order"]
"""


def phased(source: str, **phases: str) -> Solution:
    made = solution(source, definition="scaled")
    return made.model_copy(update={"spec": made.spec.model_copy(update=phases)})


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Benchmark]:
    settings = quick(num_trials=3, iterations=4)
    with Benchmark(dataset(definition=SCALED), settings, device="cpu") as running:
        yield running


def evaluate(benchmark: Benchmark, candidate: Solution) -> Evaluation:
    (trace,) = benchmark.run_solution(candidate, dump_traces=False)
    return trace.evaluation


def test_prepare_and_plan_run_once_a_trial_and_their_times_stand_apart() -> None:
    prepared = phased(PREPARED, prepare="pack", plan="lay_out")

    with Benchmark(dataset(definition=SCALED), quick(), device="cpu") as of_one_trial:
        found = evaluate(of_one_trial, prepared)

    assert found.status == "PASSED", found.log
    assert found.performance.prepare_ms > 0
    assert found.performance.plan_ms > 0


def test_without_phases_there_are_no_times_of_phases(benchmark: Benchmark) -> None:
    found = evaluate(
        benchmark, phased("def run(x, weight, order):\n    return x * weight + order\n")
    )

    assert found.status == "PASSED", found.log
    assert found.performance.prepare_ms is None
    assert "prepare_ms" not in found.performance.to_dict()


def test_what_was_prepared_for_an_earlier_trial_is_stale(benchmark: Benchmark) -> None:
    source = """
    packed = []
    def pack(weight):
        if not packed:
            packed.append(weight)
        return packed[0]
    def run(weight_of_first_trial, x, weight, order):
        return x * weight_of_first_trial + order
    """

    found = evaluate(benchmark, phased(source, prepare="pack"))

    assert found.status == "INCORRECT_NUMERICAL"
    assert "trial 1" in found.log


@pytest.mark.parametrize("phase", ["prepare", "plan"])
def test_a_phase_that_raises_is_the_solutions_fault(benchmark: Benchmark, phase: str) -> None:
    source = """
    def broken(*inputs):
        raise ValueError("cannot pack")
    def run(state, x, weight, order):
        return x
    """

    found = evaluate(benchmark, phased(source, **{phase: "broken"}))

    assert found.status == "RUNTIME_ERROR"
    assert "cannot pack" in found.log


def test_weights_packed_by_address_without_prepare_are_found_out(benchmark: Benchmark) -> None:
    source = """
    packed = {}
    def run(x, weight, order):
        key = weight.data_ptr()
        if key not in packed:
            packed[key] = weight.clone()
        return x * packed[key] + order
    """

    found = evaluate(benchmark, phased(source))

    assert found.status == "INCORRECT_NUMERICAL", found.log
