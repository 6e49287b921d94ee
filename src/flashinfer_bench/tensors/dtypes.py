"""Names of element types ↔ torch dtypes."""

from __future__ import annotations

import functools

import torch

_TORCH_NAMES = {"float4_e2m1": "float4_e2m1fn_x2"}


@functools.cache
def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype a definition's dtype name stands for."""
    dtype = getattr(torch, _TORCH_NAMES.get(name, name), None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"torch {torch.__version__} has no dtype {name!r}")  # noqa: TRY004  # a value, not a type, is wrong
    return dtype


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name a definition uses for a torch dtype."""
    name = str(dtype).removeprefix("torch.")
    return next((ours for ours, theirs in _TORCH_NAMES.items() if theirs == name), name)


BITS_OF = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The integers that have the bits of a dtype, by its size in bytes."""
