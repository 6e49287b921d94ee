"""A forward definition becomes two more: its gradients alone, and its outputs with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.definition import Definition
from flashinfer_bench.data.shapes import TensorSpec
from flashinfer_bench.data.workload import RandomInput, Workload, WorkloadTolerance, uuid_of
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.data.scaffolding.definitions import SeenGradients

MAX_PRECISION_RATIO = 8.0
"""Largest error of a gradient, in units of the reference's own error against float64."""

_SOURCE = '''\
{forward}

forward = run


def run({takes}):
    """{says}, by autograd."""
    import torch

    with torch.enable_grad():
{leaves}
        outputs = forward({inputs})
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    gradients = torch.autograd.grad([{of}], [{by}], [{given}])
    return ({gives})
'''


def backward_of(forward: Definition, seen: SeenGradients) -> Definition:
    """Define the gradients: forward's inputs and output gradients go in, `grad_<input>` come out."""
    return _derived(forward, seen, suffix="backward", with_outputs=False)


def forward_backward_of(forward: Definition, seen: SeenGradients) -> Definition:
    """Define forward's outputs and, behind them, its gradients, in one call."""
    return _derived(forward, seen, suffix="forward_backward", with_outputs=True)


def workload_of(forward: Workload, definition: Definition) -> Workload:
    """Give a forward workload its output gradients, drawn at random, and the bound on a gradient's error."""
    inputs = {name: forward.inputs.get(name, RandomInput()) for name in definition.inputs}
    return Workload(
        axes=forward.axes,
        inputs=inputs,
        uuid=uuid_of(definition.name, forward.axes, inputs),
        size_class=forward.size_class,
        tolerance=WorkloadTolerance(max_precision_ratio=MAX_PRECISION_RATIO),
    )


def _derived(
    forward: Definition, seen: SeenGradients, *, suffix: str, with_outputs: bool
) -> Definition:
    outputs = [list(forward.outputs)[number] for number in seen.outputs]
    arriving = {f"grad_{name}": _like(forward.outputs[name]) for name in outputs}
    leaving = {f"grad_{name}": _like(forward.inputs[name]) for name in seen.inputs}
    kept = forward.outputs if with_outputs else {}
    _require_free([*forward.inputs, *arriving, *kept, *leaving])
    what = "outputs and gradients" if with_outputs else "gradients"
    return Definition(
        name=f"{forward.name}_{suffix}",
        op_type=f"{forward.op_type}_{suffix}",
        axes=forward.axes,
        inputs={**forward.inputs, **arriving},
        outputs={**kept, **leaving},
        reference=_source(forward, seen, list(arriving), with_outputs=with_outputs),
        description=f"{what.capitalize()} of {forward.name}.",
    )


def _like(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(shape=spec.shape, dtype=spec.dtype)


def _require_free(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"--backward calls a gradient {name!r}, and there is a tensor of that name; rename it"
            )


def _source(
    forward: Definition, seen: SeenGradients, arriving: Sequence[str], *, with_outputs: bool
) -> str:
    inputs: Mapping[str, TensorSpec] = forward.inputs
    count = len(forward.outputs)
    kept = [f"outputs[{n}].detach()" for n in range(count)] if with_outputs else []
    gives = ", ".join([*kept, *(f"gradients[{n}]" for n in range(len(seen.inputs)))])
    says = (
        f"{'Outputs, and gradients' if with_outputs else 'Gradients'} by {', '.join(seen.inputs)}"
    )
    return _SOURCE.format(
        forward=forward.reference.rstrip() + "\n",
        takes=", ".join([*inputs, *arriving]),
        says=says,
        leaves="\n".join(
            f"        {name} = {name}.detach().requires_grad_()" for name in seen.inputs
        ),
        inputs=", ".join(inputs),
        of=", ".join(f"outputs[{number}]" for number in seen.outputs),
        by=", ".join(seen.inputs),
        given=", ".join(arriving),
        gives=gives if "," in gives else f"{gives},",
    )
