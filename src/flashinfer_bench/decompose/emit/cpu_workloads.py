"""A workload for a CPU beside one that is not: the same piece at smaller sizes, proved by a run on meta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flashinfer_bench.data.distributions import Normal, Uniform
from flashinfer_bench.data.workload import RandomInput, Workload, uuid_of
from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.costs import trace_cost
from flashinfer_bench.decompose.model_file import ModelObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.data import Definition
    from flashinfer_bench.decompose.ir import OpTrace

CPU_FLOPS = 20e9
CPU_BYTES = 1e9
"""Above either a workload is not for a laptop's CPU."""
_SMALLEST = 2


def cpu_workload(definition: Definition, full: Workload) -> Workload | None:
    """Halve the sizes of a workload until it is for a CPU; none where no smaller one does the same.

    Numbers that are stored, and integers, may mean a size: then only sizes that they do not have are halved.
    """
    whole = _run(definition, full.axes) if _keeps_meaning(full) else None
    if whole is None:
        return None
    axes = dict(full.axes)
    fixed = _fixed(definition, full)
    for name in full.axes:
        while name not in fixed and axes[name] >= 2 * _SMALLEST:
            tried = {**axes, name: axes[name] // 2}
            run = _run(definition, tried)
            if run is None or [op.fn for op in run.ops] != [op.fn for op in whole.ops]:
                break
            axes = tried
            if is_for_cpu(run):
                return Workload(
                    axes=axes,
                    inputs=full.inputs,
                    uuid=uuid_of(definition.name, axes, full.inputs),
                    size_class="small",
                    tolerance=full.tolerance,
                )
    return None


def is_for_cpu(trace: OpTrace) -> bool:
    """Whether a run is seconds on a laptop's CPU."""
    cost = trace_cost(trace)
    return cost.flops <= CPU_FLOPS and cost.bytes_moved <= CPU_BYTES


def _keeps_meaning(full: Workload) -> bool:
    """Whether all that is drawn is spread evenly, whatever the sizes: no index, offset or mask."""
    return all(
        each.distribution is None or isinstance(each.distribution, Normal | Uniform)
        for each in full.inputs.values()
        if isinstance(each, RandomInput)
    )


def _fixed(definition: Definition, full: Workload) -> set[str]:
    """Axes along which stored numbers lie."""
    stored = [name for name, each in full.inputs.items() if not isinstance(each, RandomInput)]
    return {
        axis for name in stored for axis in definition.inputs[name].shape or () if axis in full.axes
    }


class _Reference(nn.Module):
    """A definition's reference as a model."""

    def __init__(self, source: str) -> None:
        super().__init__()
        made: dict[str, Any] = {}
        exec(compile(source, "reference.py", "exec"), made)  # noqa: S102  # written by this program
        self._reference = made["run"]

    def forward(self, *inputs: Any) -> Any:
        """Run it."""
        return self._reference(*inputs)


def _run(definition: Definition, axes: Mapping[str, int]) -> OpTrace | None:
    """Follow a definition's reference on meta; none where it does not run, or makes other shapes than declared."""
    shapes, dtypes = definition.get_input_shapes(dict(axes)), definition.torch_input_dtypes
    inputs = tuple(
        torch.empty(shape or (), dtype=dtype, device="meta")
        for shape, dtype in zip(shapes, dtypes, strict=True)
    )
    try:
        model = _Reference(definition.reference)
        trace = capture(ModelObject(model, inputs, definition.name)).trace
        declared = [tuple(each or ()) for each in definition.get_output_shapes(dict(axes))]
    except Exception:  # noqa: BLE001  # sizes that it was not made for
        return None
    made = [trace.values[out].shape for out in trace.outputs]
    return trace if made == declared and trace.front_end == "meta" else None
