"""A solution of a gradient's definition is judged against float64; wrong gradients are refused."""

from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import Definition, Trace, Workload
from flashinfer_bench.data.scaffolding.definitions import SeenGradients
from flashinfer_bench.data.scaffolding.gradients import backward_of, workload_of
from tests.flow.kernels import dataset, quick, solution

FORWARD = Definition.model_validate(
    {
        "name": "rownorm",
        "op_type": "rownorm",
        "axes": {"rows": {"type": "var"}, "n": {"type": "const", "value": 64}},
        "inputs": {"x": {"shape": ["rows", "n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["rows", "n"], "dtype": "float32"}},
        "reference": "import torch\n\n\ndef run(x):\n"
        "    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)\n",
    }
)
RIGHT = """\
import torch

def run(x, grad_y):
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
    mean = (x * grad_y).mean(-1, keepdim=True)
    return scale * (grad_y - x * mean * scale * scale)
"""
KERNELS = {
    "by_hand": RIGHT,
    "forgets_a_term": RIGHT.replace(" - x * mean * scale * scale", ""),
    "one_in_a_thousand_off": RIGHT.replace("return scale", "return 1.001 * scale"),
}


def ends_on(device: str) -> dict[str, Any]:
    """Judge each kernel on a device; give evaluations by its name."""
    backward = backward_of(FORWARD, SeenGradients(inputs=["x"], outputs=[0]))
    made = [solution(text, name=name, definition=backward.name) for name, text in KERNELS.items()]
    anywhere = {"target_hardware": ["cpu", "cuda"]}
    made = [
        each.model_copy(update={"spec": each.spec.model_copy(update=anywhere)}) for each in made
    ]
    held = dataset(*made, definition=backward)
    forward = Workload.model_validate({"axes": {"rows": 8}, "inputs": {"x": {"type": "random"}}})
    workload = workload_of(forward, backward)
    held.workloads[backward.name] = [Trace(definition=backward.name, workload=workload)]
    with Benchmark(held, quick(), device=device) as benchmark:
        steps = list(benchmark.run(benchmark.plan(), dump_traces=False))
    return {step.job.solution.name: step.trace.evaluation for step in steps if step.trace}


@pytest.fixture(scope="module")
def ends() -> dict[str, Any]:
    return ends_on("cpu")


def test_a_gradient_by_hand_passes(ends: dict[str, Any]) -> None:
    assert ends["by_hand"].status == "PASSED", ends["by_hand"].log


def test_a_gradient_that_lacks_a_term_is_refused(ends: dict[str, Any]) -> None:
    assert ends["forgets_a_term"].status == "INCORRECT_NUMERICAL"


def test_a_gradient_within_tolerances_but_far_from_float64_is_refused(ends: dict[str, Any]) -> None:
    end = ends["one_in_a_thousand_off"]

    assert end.status == "INCORRECT_NUMERICAL"
    assert "times the reference's own; 8 is allowed" in end.log
