"""Whose memory an output lies in: its own, an input's, another output's, or that of another call."""

from __future__ import annotations

import itertools
import mmap
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.tensors.outputs import overlap, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from flashinfer_bench.tensors.planned import TensorPlan


_FEWEST_TWICE = 2


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


_MAPS, _PAGES = Path("/proc/self/maps"), Path("/proc/self/pagemap")
_PAGE_BYTES = 8
_MAPPED = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) ..(.)(.) ([0-9a-f]+) (\S+ [1-9]\d*)\b(?! */dev/(?!shm|zero))",
    re.MULTILINE,
)


def is_mapped_twice(tensors: Iterable[object], *, maps: Path = _MAPS, pages: Path = _PAGES) -> bool:
    """Tell whether memory of a CPU's tensors has a second address in this process: then addresses do not tell aliases.

    Only shared memory can have one. Where all pages are anonymous nothing else is looked at: that takes
    0.05 ms and not 4. `maps`: what this process has mapped, as Linux tells it; `pages`: as in `are_anonymous`.
    """
    there = [
        each for each in tensors if isinstance(each, torch.Tensor) and each.device.type == "cpu"
    ]
    if are_anonymous(map(span, there), pages=pages):
        return False
    told = maps.read_bytes()
    if told.count(b"-s ") + told.count(b"xs ") < _FEWEST_TWICE:
        return False
    mappings = [_Mapping.read(found) for found in _MAPPED.finditer(told)]
    shared = [each for each in mappings if each.is_shared]
    for extent in map(span, there):
        for one in shared:
            held = one.pages_of(extent)
            if held and any(other.holds(one, held) for other in mappings):
                return True
    return False


def are_anonymous(extents: Iterable[range], *, pages: Path = _PAGES) -> bool:
    """Tell whether each page of these addresses is there for sure, and belongs neither to a file nor to shared memory.

    `pages`: what Linux says of each page of this process, in eight bytes. The highest one says whether the page is in
    memory (0x80) or swapped (0x40), and whether it is of a file or shared (0x20); see its admin-guide/mm/pagemap.rst.
    """
    try:
        with pages.open("rb", buffering=0) as told:
            for extent in extents:
                if not extent:
                    continue
                first, last = extent[0] // mmap.PAGESIZE, extent[-1] // mmap.PAGESIZE
                told.seek(first * _PAGE_BYTES)
                found = told.read((last + 1 - first) * _PAGE_BYTES)
                if len(found) < (last + 1 - first) * _PAGE_BYTES:
                    return False
                if any(kind & 0x20 or not kind & 0xC0 for kind in set(found[7::_PAGE_BYTES])):
                    return False
    except OSError:  # a kernel without it, or one that does not show it
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Mapping:
    """A part of a file, or of shared memory, that has addresses."""

    addresses: range
    offset: int
    file: bytes
    """Device and inode."""
    is_shared: bool

    @classmethod
    def read(cls, found: re.Match[bytes]) -> _Mapping:
        start, stop, _, kind, offset, file = found.groups()
        addresses = range(int(start, 16), int(stop, 16))
        return cls(addresses, int(offset, 16), file, is_shared=kind == b"s")

    def pages_of(self, extent: range) -> range:
        """Give what of the file lies at these addresses."""
        start = max(extent.start, self.addresses.start)
        stop = min(extent.stop, self.addresses.stop)
        base = self.offset - self.addresses.start
        return range(start + base, max(start, stop) + base)

    def holds(self, one: _Mapping, pages: range) -> bool:
        """Tell whether this is another mapping than that one, and holds some of these pages of its file, too."""
        if self is one or self.file != one.file:
            return False
        return self.offset < pages.stop and pages.start < self.offset + len(self.addresses)


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
