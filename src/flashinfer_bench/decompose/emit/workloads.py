"""The sizes at which a piece was seen, with inputs that are legal there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save

from flashinfer_bench.data.distributions import Normal
from flashinfer_bench.data.workload import (
    InputSpec,
    RandomInput,
    SafetensorsInput,
    SizeClass,
    Workload,
    uuid_of,
)
from flashinfer_bench.decompose.costs import node_cost
from flashinfer_bench.decompose.emit.legal import legal_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.decompose.pieces import Piece, PieceInstance, Pieces

_LAPTOP_FLOPS = 20e9
_LAPTOP_BYTES = 1e9
"""Above either a workload is not for a laptop's CPU."""


@dataclass(frozen=True)
class PieceWorkload:
    """A workload, the tensors it needs, and how often it occurs in the model."""

    workload: Workload
    count: int
    blobs: Mapping[str, bytes]


def workloads_of(pieces: Pieces, piece: Piece, folder: str) -> list[PieceWorkload]:
    """Make a workload for each set of sizes at which a piece occurs; blobs go into a folder."""
    by_sizes: dict[tuple[int, ...], list[PieceInstance]] = {}
    for instance in piece.instances:
        sizes = tuple(axis.size for axis in instance.form.axes)
        by_sizes.setdefault(sizes, []).append(instance)
    return [_seen(pieces, piece, same, folder) for same in by_sizes.values()]


def _seen(pieces: Pieces, piece: Piece, same: list[PieceInstance], folder: str) -> PieceWorkload:
    instance = same[0]
    ops = frozenset(op.id for op in instance.form.ops)
    stem = "_".join([piece.id, *(f"{axis.size}" for axis in instance.form.axes)])
    path = f"{folder}/{stem}.safetensors"
    inputs: dict[str, InputSpec] = {}
    stored: dict[str, torch.Tensor] = {}
    for name, value in zip(piece.parameters, instance.form.inputs, strict=True):
        chosen = legal_input(pieces.trace, value, ops)
        if chosen.count is not None:
            stored[name] = _counted(pieces.trace.values[value].shape, chosen.count)
            inputs[name] = SafetensorsInput(path=path, tensor_key=name)
        else:
            is_plain = chosen.distribution == Normal()
            declared = None if is_plain else chosen.distribution
            inputs[name] = RandomInput(type="random", distribution=declared)
    axes = {
        axis.name: found.size
        for axis, found in zip(piece.form.axes, instance.form.axes, strict=True)
    }
    workload = Workload(
        axes=axes,
        inputs=inputs,
        uuid=uuid_of(piece.id, axes, inputs),
        size_class=_size_class(pieces, instance),
    )
    return PieceWorkload(workload, len(same), {path: save(stored)} if stored else {})


def _size_class(pieces: Pieces, instance: PieceInstance) -> SizeClass | None:
    cost = node_cost(pieces.trace, instance.node)
    is_large = cost.flops > _LAPTOP_FLOPS or cost.bytes_moved > _LAPTOP_BYTES
    return "full" if is_large else None


def _counted(shape: tuple[int, ...], count: int) -> torch.Tensor:
    """A mask of which so many elements, drawn with a fixed seed, are true."""
    total = 1
    for size in shape:
        total *= size
    mask = torch.zeros(total, dtype=torch.bool)
    mask[torch.randperm(total, generator=torch.Generator().manual_seed(0))[:count]] = True
    return mask.reshape(shape)
