"""How a view came about: one call on its parent that can be made again."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING


from flashinfer_bench.decompose.capture.objects import Entry, Link, layout_of

if TYPE_CHECKING:
    from flashinfer_bench.decompose.capture.calls import Call
    import torch
    from flashinfer_bench.decompose.ir import Op

_PIECES = {"torch.split", "torch.chunk", "torch.tensor_split", "torch.split_with_sizes"}


def link_of(
    call: Call, op: Op, parent: Entry, base: torch.Tensor, outs: list[torch.Tensor], number: int
) -> Link:
    """Say how output `number` of an operation is made from the object it is a view of."""
    if call.args and call.args[0] is base:
        if op.structure is None:
            return Link(parent, op.fn, op.args[1:], dict(op.kwargs))
        if op.fn == "torch.unbind":
            return Link(parent, "torch.select", (_dim(call, 1), number), {})
        if op.fn in _PIECES:
            dim = _dim(call, 2)
            start = sum(each.shape[dim] for each in outs[:number])
            return Link(parent, "torch.narrow", (dim, start, outs[number].shape[dim]), {})
    shape, strides, offset = layout_of(outs[number])
    return Link(parent, "torch.as_strided", (shape, strides, offset - base.storage_offset()), {})


def _dim(call: Call, place: int) -> int:
    dim: Any = call.argument(place, "dim", 0)
    return int(dim)
