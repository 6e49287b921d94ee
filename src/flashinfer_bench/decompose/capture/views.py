"""How a view came about: one call on its parent that can be made again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.capture.objects import TensorObject, ViewLink, layout_of
from flashinfer_bench.decompose.ir import Op, Ref

if TYPE_CHECKING:
    import torch

_PIECES = {"torch.split", "torch.chunk", "torch.tensor_split", "torch.split_with_sizes"}


def link_of(
    op: Op, parent: TensorObject, base: torch.Tensor, outs: list[torch.Tensor], number: int
) -> ViewLink:
    """Say how output `number` of an operation is made from the object it is a view of."""
    if op.args and op.args[0] == Ref(parent.value):
        if op.structure is None:
            return ViewLink(parent, op.fn, op.args[1:], dict(op.kwargs))
        if op.fn == "torch.unbind":
            return ViewLink(parent, "torch.select", (_dim(op, 1), number), {})
        if op.fn in _PIECES:
            dim = _dim(op, 2)
            start = sum(each.shape[dim] for each in outs[:number])
            return ViewLink(parent, "torch.narrow", (dim, start, outs[number].shape[dim]), {})
    shape, strides, offset = layout_of(outs[number])
    return ViewLink(
        parent, "torch.as_strided", (shape, strides, offset - base.storage_offset()), {}
    )


def _dim(op: Op, place: int) -> int:
    dim: Any = op.args[place] if place < len(op.args) else op.kwargs.get("dim", 0)
    return int(dim)
