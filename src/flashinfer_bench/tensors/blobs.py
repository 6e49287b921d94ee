"""Tensors from a dataset's files, as tensors of torch."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.tensors.dtypes import torch_dtype
from flashinfer_bench.tensors.files import shared_files, starts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.tensors.planned import InputPlan


def load_files(plans: Sequence[InputPlan], roots: Sequence[str]) -> dict[str, torch.Tensor]:
    """Load the inputs that come from files, on the CPU, checked against their plan."""
    descriptor = shared_files(plans, roots)
    if descriptor is None:
        return {}
    try:
        return tensors_from_descriptor(descriptor, plans)
    finally:
        os.close(descriptor)


def tensors_from_descriptor(descriptor: int, plans: Iterable[InputPlan]) -> dict[str, torch.Tensor]:
    """Read what `shared_files` copied for the same plans."""
    stored = [plan.tensor for plan in plans if plan.source == "file"]
    size = os.fstat(descriptor).st_size
    if size:
        memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
        everything = torch.frombuffer(memory, dtype=torch.uint8)
    else:
        everything = torch.empty(0, dtype=torch.uint8)
    found = {}
    for tensor, start in zip(stored, starts(stored), strict=True):
        content = everything[start : start + tensor.size_bytes].clone()
        found[tensor.name] = content.view(torch_dtype(tensor.dtype)).view(tensor.torch_shape)
    return found
