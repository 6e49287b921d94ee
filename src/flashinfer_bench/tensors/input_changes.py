"""A call's inputs, changed in a known way: what a metamorphic property is looked at with.

Judge and candidates make the same change, each in its own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.tensors.planned import NOT_CHANGED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.tensors.planned import InputChange

SCALE = 2.0
"""A power of two: nothing is rounded."""


def apply_change(change: InputChange, arguments: Sequence[Any], others: Sequence[Any]) -> None:
    """Change arguments in place; `others` are those of the call with the change's seed, where it is spliced."""
    for number, (dim, argument) in enumerate(zip(change.dims, arguments, strict=True)):
        if dim == NOT_CHANGED or not isinstance(argument, torch.Tensor):
            continue
        match change.kind:
            case "permuted":
                argument.copy_(permuted(argument, dim, change.seed))
            case "spliced":
                argument.copy_(spliced(argument, others[number], dim))
            case "scaled":
                argument.mul_(SCALE)


def permuted(tensor: torch.Tensor, dim: int, seed: int) -> torch.Tensor:
    """Copy with the entries along a dimension in the order of a seed, never the one they had if there are two."""
    length = tensor.shape[dim]
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(length, generator=generator)
    if bool((order == torch.arange(length)).all()):
        order = order.roll(1)
    return _bytes(tensor).index_select(dim, order.to(tensor.device)).view(tensor.dtype)


def spliced(first: torch.Tensor, second: torch.Tensor, dim: int) -> torch.Tensor:
    """Join the first half of one along a dimension with the second half of the other."""
    length = first.shape[dim]
    kept = length // 2
    parts = [
        _bytes(first).narrow(dim, 0, kept),
        _bytes(second).narrow(dim, kept, length - kept),
    ]
    return torch.cat(parts, dim).view(first.dtype)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """View narrow dtypes, which torch hardly computes with, as integers of their size."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
