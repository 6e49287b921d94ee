"""What every rule asks of a trace: classes, what depends on the inputs, who leads to whom."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import Class, classify
from flashinfer_bench.decompose.ir import Op, OpTrace, Scope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

Frame = tuple[Scope, ...]
"""One entry into a module or function: the scopes from the root inwards, the root itself left out."""


@dataclass(frozen=True)
class Facts:
    """A trace with what follows from it, each computed once."""

    trace: OpTrace

    @cached_property
    def classes(self) -> Mapping[int, Class]:
        """Class of each operation."""
        return {op.id: classify(self.trace, op) for op in self.trace.ops}

    @cached_property
    def prologue(self) -> frozenset[int]:
        """Factories and what is computed only from them: the same in every call, so no kernel."""
        found: set[int] = set()
        for op in self.trace.ops:
            if op.is_stochastic or self.classes[op.id] in ("HEAVY", "RNG"):
                continue
            makers = [self.trace.maker(value) for value in op.ins]
            if self.classes[op.id] == "GEN" or (makers and all(m in found for m in makers)):
                found.add(op.id)
        return frozenset(found)

    @cached_property
    def leading(self) -> frozenset[int]:
        """Operations of the prologue that compute, and the views between them: `(torch.ones(2, 8) != 0).sum()`."""
        found: set[int] = set()
        for op in reversed(self.trace.ops):
            if op.id not in self.prologue or self.classes[op.id] == "GEN":
                continue
            if self.classes[op.id] != "VIEW" or any(each in found for each in self.readers(op.id)):
                found.add(op.id)
        return frozenset(found)

    @cached_property
    def steady(self) -> frozenset[int]:
        """Light operations computed only from factories, buffers and constants: `mask[:n, :n] == 0`."""
        return self._grown(frozenset({"buffer", "const"}), barred=("HEAVY", "RNG", "NORM", "POOL"))

    @cached_property
    def weighty(self) -> frozenset[int]:
        """Data movement on parameters, buffers, constants and factories alone: `bias.view(1, -1, 1, 1)`."""
        kinds = frozenset({"param", "buffer", "const"})
        return self._grown(kinds) & self.data_movement

    def _grown(self, kinds: frozenset[str], barred: Collection[str] = ()) -> frozenset[int]:
        found: set[int] = set()
        for op in self.trace.ops:
            if op.is_stochastic or self.classes[op.id] in barred:
                continue
            if barred == () and op.id not in self.data_movement:
                continue
            if all(self._is_from(value, kinds, found) for value in op.ins):
                found.add(op.id)
        return frozenset(found)

    def _is_from(self, value: str, kinds: frozenset[str], found: set[int]) -> bool:
        maker = self.trace.maker(value)
        return self.trace.values[value].kind in kinds if maker is None else maker in found

    @cached_property
    def data_movement(self) -> frozenset[int]:
        """Operations that are never a kernel: views, factories, constant prologues."""
        views = {op.id for op in self.trace.ops if self.classes[op.id] == "VIEW"}
        return frozenset(views | self.prologue)

    @cached_property
    def compute(self) -> tuple[int, ...]:
        """Operations that do work, in order."""
        return tuple(op.id for op in self.trace.ops if op.id not in self.data_movement)

    @cached_property
    def active(self) -> frozenset[str]:
        """Values that depend on what is given to forward or on random numbers: activations."""
        found = set(self.trace.inputs)
        for op in self.trace.ops:
            if op.id in self.prologue:
                continue
            if op.is_stochastic or any(value in found for value in op.ins):
                found.update(op.outs)
        return frozenset(found)

    @cached_property
    def frames(self) -> Mapping[int, Frame]:
        """Where each operation ran, the root module left out."""
        return {op.id: _below_root(op) for op in self.trace.ops}

    @cached_property
    def population(self) -> Mapping[Frame, int]:
        """How many operations ran in a frame or below it."""
        return Counter(
            frame[:length] for frame in self.frames.values() for length in range(len(frame) + 1)
        )

    @cached_property
    def _places(self) -> Mapping[int, int]:
        return {op.id: place for place, op in enumerate(self.trace.ops)}

    @cached_property
    def _above(self) -> Mapping[int, int]:
        """Ancestors of each operation as bits."""
        found: dict[int, int] = {}
        for op in self.trace.ops:
            bits = 0
            for value in op.ins:
                maker = self.trace.maker(value)
                if maker is not None:
                    bits |= found[maker] | 1 << self._places[maker]
            found[op.id] = bits
        return found

    @cached_property
    def _below(self) -> Mapping[int, int]:
        """Descendants of each operation as bits."""
        found: dict[int, int] = {}
        for op in reversed(self.trace.ops):
            bits = 0
            for reader in self.readers(op.id):
                bits |= found[reader] | 1 << self._places[reader]
            found[op.id] = bits
        return found

    def readers(self, op: int) -> Iterator[int]:
        """Operations that read what an operation makes."""
        for out in self.trace.op(op).outs:
            yield from self.trace.readers(out)

    def between(self, ops: Iterable[int]) -> set[int]:
        """Operations that lie on a way from one of these to another of these, themselves included."""
        chosen = tuple(ops)
        above = below = own = 0
        for op in chosen:
            above |= self._above[op]
            below |= self._below[op]
            own |= 1 << self._places[op]
        bits = above & below & ~own
        return {self.trace.ops[place].id for place in _bits(bits)} | set(chosen)

    def is_output(self, op: int) -> bool:
        """Whether the model returns something this operation makes."""
        return any(out in self._returned for out in self.trace.op(op).outs)

    @cached_property
    def _returned(self) -> frozenset[str]:
        return frozenset(self.trace.outputs)


def _below_root(op: Op) -> Frame:
    is_rooted = bool(op.scope) and op.scope[0].kind == "module" and op.scope[0].path == ""
    return op.scope[1:] if is_rooted else op.scope


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def common(frames: Iterable[Frame]) -> Frame:
    """The innermost frame that contains all of these."""
    found: Frame | None = None
    for frame in frames:
        if found is None:
            found = frame
            continue
        length = 0
        for one, other in zip(found, frame, strict=False):
            if one != other:
                break
            length += 1
        found = found[:length]
    return found or ()
