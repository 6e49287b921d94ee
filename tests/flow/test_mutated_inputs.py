"""References and kernels that write into an input, inputs that are left out, and empty tensors: real workers."""

from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import Definition, Evaluation, Trace, TraceSet, Workload
from tests.flow.kernels import quick, solution

REFERENCE = """
def run(x, state=None):
    y = x * 2
    if state is not None:
        state[:] = state * 0.5 + x
        y = y + state
    return y
"""
UPDATES = """
def run(x, state):
    y = x * 2
    if state is not None:
        y += state.mul_(0.5).add_(x)
    return y
"""
FORGETS = UPDATES.replace("state.mul_(0.5).add_(x)", "state * 0.5 + x")
CHANGES_X = UPDATES.replace("y = x * 2", "y = x.mul_(2).clone()").replace("add_(x)", "add_(x / 2)")
INTO = """
import torch


def run(x, state, y):
    torch.mul(x, 2, out=y)
    if state is not None:
        y += state.mul_(0.5).add_(x)
"""


def definition(**spec: Any) -> Definition:
    tensor = {"shape": ["rows", "cols"], "dtype": "float32"}
    return Definition.model_validate(
        {
            "name": "update",
            "op_type": "update",
            "axes": {"rows": {"type": "var"}, "cols": {"type": "const", "value": 64}},
            "inputs": {"x": tensor, "state": tensor | spec},
            "outputs": {"y": tensor},
            "reference": REFERENCE,
        }
    )


def evaluated(
    source: str, made: Definition, *names: str, rows: int = 32, into: bool = False
) -> Evaluation:
    given = {"axes": {"rows": rows}, "inputs": {name: {"type": "random"} for name in names}}
    work = Workload.model_validate(given)
    traces = TraceSet(
        definitions={"update": made},
        solutions={"update": [solution(source, definition="update", into=into)]},
        workloads={"update": [Trace(definition="update", workload=work)]},
    )
    with Benchmark(traces, quick(num_trials=1, iterations=4), device="cpu") as benchmark:
        (found,) = benchmark.run_all(dump_traces=False).traces["update"]
    assert found.evaluation is not None
    return found.evaluation


@pytest.mark.parametrize(
    ("source", "into", "spec"),
    [(UPDATES, False, {"optional": True}), (INTO, True, {"mutated": True})],
)
def test_a_kernel_may_write_into_an_input_that_the_reference_writes_into(
    source: str, into: bool, spec: dict[str, bool]
) -> None:
    found = evaluated(source, definition(**spec), "x", "state", into=into)

    assert found.status == "PASSED"


def test_what_it_writes_there_is_judged() -> None:
    found = evaluated(FORGETS, definition(mutated=True), "x", "state")

    assert found.status == "INCORRECT_NUMERICAL"
    assert "output 'state'" in found.log


def test_other_inputs_still_have_to_stay_as_they_are() -> None:
    found = evaluated(CHANGES_X, definition(mutated=True), "x", "state")

    assert "inputs differ after the call" in found.log


def test_an_optional_input_that_is_left_out_is_none() -> None:
    assert evaluated(FORGETS, definition(optional=True), "x").status == "PASSED"


def test_an_axis_of_length_0_is_judged_for_correctness_only() -> None:
    right = evaluated(UPDATES, definition(optional=True), "x", rows=0)
    wrong = evaluated(
        "def run(x, state):\n    return x[:, :1]\n", definition(optional=True), "x", rows=0
    )

    assert (right.status, wrong.status) == ("PASSED", "INCORRECT_SHAPE")
    assert [note.code for note in right.task_notes] == ["empty_axis"]
