"""Whose memory an output lies in: its own, an input's, another output's, or that of another call."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.tensors.outputs import overlap, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.tensors.planned import TensorPlan


@dataclass(frozen=True, slots=True)
class Aliases:
    """What was found about the outputs of the calls of a sample."""

    fault: str | None = None
    """An output that lies in an input, of any call, or in another output of its own call."""
    are_shared: bool = False
    """Whether outputs of different calls lie in the same memory."""


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    stop: int
    tensor: torch.Tensor
    call: int
    name: str | None
    """Of an output; None for an input."""


def aliases(
    outputs: Sequence[Sequence[object]],
    inputs: Sequence[Sequence[object]],
    plans: Sequence[TensorPlan],
) -> Aliases:
    """Look at all outputs of a sample beside all inputs the harness holds, call by call.

    Addresses are compared in one sweep, and only where they meet are strides looked at.
    """
    if lie_apart(outputs, inputs):
        return Aliases()
    names = [plan.name for plan in plans]
    pieces = [*_pieces(outputs, names), *_pieces(inputs, None)]
    pieces.sort(key=lambda piece: piece.start)
    are_shared = False
    open_pieces: list[_Piece] = []
    for piece in pieces:
        open_pieces = [each for each in open_pieces if each.stop > piece.start]
        for other in open_pieces:
            if other.name is None and piece.name is None:
                continue
            is_between_calls = None not in (other.name, piece.name) and other.call != piece.call
            if (is_between_calls and are_shared) or not overlap(other.tensor, piece.tensor):
                continue
            if not is_between_calls:
                return Aliases(_told(other, piece), are_shared)
            are_shared = True
        open_pieces.append(piece)
    return Aliases(None, are_shared)


def lie_apart(outputs: Sequence[Sequence[object]], inputs: Sequence[Sequence[object]]) -> bool:
    """Tell quickly that all tensors are contiguous and no two meet; that is how it mostly is."""
    held = {id(value): value for values in inputs for value in values}  # calls may share inputs
    extents: list[tuple[int, int]] = []
    for value in itertools.chain(held.values(), *outputs):
        if not isinstance(value, torch.Tensor):
            continue
        if not value.is_contiguous():
            return False
        extents.append((value.data_ptr(), value.nbytes))
    extents.sort()
    pairs = itertools.pairwise(extents)
    return all(start + size <= following for (start, size), (following, _) in pairs)


def _pieces(calls: Sequence[Sequence[object]], names: Sequence[str] | None) -> Iterator[_Piece]:
    seen: set[int] = set()
    for call, tensors in enumerate(calls):
        for number, tensor in enumerate(tensors):
            if not isinstance(tensor, torch.Tensor) or not tensor.numel():
                continue
            if names is None and id(tensor) in seen:
                continue  # an input that all calls share
            seen.add(id(tensor))
            extent = span(tensor)
            name = None if names is None else names[number] if number < len(names) else str(number)
            yield _Piece(extent.start, extent.stop, tensor, call, name)


def _told(first: _Piece, second: _Piece) -> str:
    output, other = (first, second) if first.name is not None else (second, first)
    where = f"output {other.name!r}" if other.name is not None else "an input"
    if other.call != output.call:
        where = f"{where} of another call"
    return f"output {output.name!r} shares memory with {where}"
