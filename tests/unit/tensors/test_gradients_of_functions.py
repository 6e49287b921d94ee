"""Definitions of gradients, made of functions of torch and transformers, give what autograd gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from flashinfer_bench.data.scaffolding.definitions import SeenGradients, Wishes, draft
from flashinfer_bench.data.scaffolding.gradients import (
    MAX_PRECISION_RATIO,
    backward_of,
    forward_backward_of,
    workload_of,
)
from flashinfer_bench.errors import UsageError
from flashinfer_bench.tensors.observe import ObservationError, observe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flashinfer_bench.data import Definition

LAYERS = {
    "layer_norm": ("x, w, b", "F.layer_norm(x, (16,), w, b)", [(4, 16), (16,), (16,)]),
    "gelu": ("x", "F.gelu(x)", [(4, 16)]),
    "softmax": ("x", "F.softmax(x, -1)", [(4, 16)]),
    "attention": ("q, k, v", "F.scaled_dot_product_attention(q, k, v)", [(1, 2, 8, 16)] * 3),
    "cross_entropy": ("x", "F.cross_entropy(x, torch.arange(4))[None]", [(4, 16)]),
    "rms_norm": ("x", "LlamaRMSNorm(16)(x)", [(4, 16)]),
    "rope": (
        "q, k, c, s",
        "apply_rotary_pos_emb(q, k, c, s)",
        [(1, 2, 8, 16)] * 2 + [(1, 8, 16)] * 2,
    ),
}
TOP = """\
import torch
import torch.nn.functional as F
"""
LLAMA = "from transformers.models.llama.modeling_llama import LlamaRMSNorm, apply_rotary_pos_emb\n"


def made(
    folder: Path, takes: str, computes: str, shapes: Sequence[tuple[int, ...]]
) -> tuple[Definition, SeenGradients]:
    examples = ", ".join(f"torch.randn{shape}" for shape in shapes)
    needs = TOP + (LLAMA if "LlamaRMSNorm" in computes or "rotary" in computes else "")
    source = f"{needs}\ndef run({takes}):\n    return {computes}\n"
    path = folder / "layer.py"
    path.write_text(f"{source}\ndef example_inputs():\n    return [{examples}]\n")
    seen = observe(path, "run", None, folder, with_gradients=True)
    assert seen.gradients is not None
    return draft(seen, Wishes(function="layer", reference=source)).definition, seen.gradients


def reference(definition: Definition) -> Any:
    names: dict[str, Any] = {}
    exec(definition.reference, names)
    return names["run"]


@pytest.mark.parametrize("layer", LAYERS)
def test_the_gradients_of_a_published_layer_are_those_of_finite_differences(
    layer: str, tmp_path: Path
) -> None:
    takes, computes, shapes = LAYERS[layer]
    forward, seen = made(tmp_path, takes, computes, shapes)
    both = reference(forward_backward_of(forward, seen))
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in shapes]
    steps = [torch.randn(shape) for shape in shapes]
    run = reference(forward)
    ahead, behind = (
        run(*(x + sign * 1e-2 * step for x, step in zip(inputs, steps, strict=True)))
        for sign in (1, -1)
    )
    pairs = list(zip(_tuple(ahead), _tuple(behind), strict=True))
    arriving = [torch.randn_like(a) for a, _ in pairs]

    gradients = both(*inputs, *arriving)[len(pairs) :]

    slope = sum(((a - b) / 2e-2 * g).sum() for (a, b), g in zip(pairs, arriving, strict=True))
    told = sum((grad * step).sum() for grad, step in zip(gradients, steps, strict=True))
    torch.testing.assert_close(told, slope, rtol=2e-2, atol=2e-2)


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_a_backward_definition_takes_inputs_and_output_gradients(tmp_path: Path) -> None:
    forward, seen = made(tmp_path, *LAYERS["layer_norm"])

    backward = backward_of(forward, seen)

    assert backward.name == f"{forward.name}_backward"
    assert list(backward.inputs) == ["x", "w", "b", "grad_output"]
    assert list(backward.outputs) == ["grad_x", "grad_w", "grad_b"]
    assert backward.outputs["grad_w"].shape == forward.inputs["w"].shape


def test_a_workload_of_gradients_bounds_their_error_against_float64(tmp_path: Path) -> None:
    path = tmp_path / "layer.py"
    source = "import torch\n\ndef run(x):\n    return x.sin()\n"
    path.write_text(f"{source}\ndef example_inputs():\n    return torch.randn(4, 16)\n")
    seen = observe(path, "run", None, tmp_path, with_gradients=True)
    drafted = draft(seen, Wishes(function="sine", reference=source))
    assert seen.gradients is not None
    backward = backward_of(drafted.definition, seen.gradients)

    workload = workload_of(drafted.workloads[0], backward)

    assert workload.tolerance is not None
    assert workload.tolerance.max_precision_ratio == MAX_PRECISION_RATIO
    assert list(workload.inputs) == ["x", "grad_output"]
    backward.require_workload(workload)


def test_a_function_without_a_gradient_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match="no output of 'run' has a gradient"):
        made(tmp_path, "x", "x.argmax(-1)", [(4, 16)])


def test_a_gradient_whose_name_is_taken_is_refused(tmp_path: Path) -> None:
    forward, seen = made(tmp_path, "x, grad_output", "x * grad_output", [(4, 16), (4, 16)])

    with pytest.raises(UsageError, match="'grad_output', and there is a tensor of that name"):
        backward_of(forward, seen)
