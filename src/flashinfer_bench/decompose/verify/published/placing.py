"""Where the files of a published decomposition stand in the original: which of its operations each one is.

A published file has a model of its own, with layers and weights that it makes itself. What that does is compared,
operation by operation, with what the original does. Where they agree, it is known which of the original's tensors
the file's inputs, outputs and weights are: by place, not by name. A file's trace may lack data movement that the
original has there, or have other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.identity import attributes
from flashinfer_bench.decompose.ir import refs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.decompose.ir import Op, OpTrace
    from flashinfer_bench.decompose.verify.cover import Flow
    from flashinfer_bench.decompose.verify.published.components import Component

_MOST_TRIED = 20_000
"""Pairs of operations that are compared before a file counts as standing nowhere."""
_COMMUTING = frozenset({"torch.add", "torch.mul", "torch.maximum", "torch.minimum"})
_MOST_PLACES = 4096
_RELABELLING = frozenset({
    "torch.Tensor.view", "torch.reshape", "torch.flatten", "torch.squeeze", "torch.unsqueeze",
    "torch.Tensor.contiguous", "torch.Tensor.view_as", "torch.Tensor.unflatten", "torch.unflatten",
    "torch.Tensor.reshape_as",
})  # fmt: skip
"""Data movement that keeps the order of the elements."""


@dataclass(frozen=True)
class Match:
    """How closely a file must agree with the original."""

    sizes: bool = True
    attributes: bool = True


EXACT, RESIZED, ALTERED = Match(), Match(sizes=False), Match(sizes=False, attributes=False)


@dataclass(frozen=True)
class FileOutput:
    """Where an output of a file comes from, and which of the original's values it can stand for."""

    file_value: str
    moved: tuple[Op, ...]
    """The file's data movement between its last operation and this output."""
    of: str | None
    """The original's value that this data movement is applied to; none where nothing says which."""
    stands_for: str | None = None
    """The original's value that is this output."""


@dataclass(frozen=True, eq=False)
class FilePlace:
    """A file and the operations of the original that it is."""

    component: Component
    ops: Mapping[int, int]
    """The file's operations, each with the original's."""
    inputs: Mapping[str, str | None]
    """The file's inputs, each with the original's value; none where nothing says which."""
    weights: Mapping[str, str]
    """The file's parameters and buffers by name, each with the original's value."""
    outputs: tuple[FileOutput, ...]
    match: Match = EXACT
    by_values: bool = False
    """Found by its numbers, since its operations are others."""
    region: frozenset[int] = field(default_factory=frozenset)

    @property
    def claimed(self) -> frozenset[int]:
        """The original's operations that it stands for."""
        return self.region or frozenset(self.ops.values())


class Origins:
    """Where a flow's values come from, up to data movement."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.trace = flow, flow.trace

    def back(self, value: str) -> list[str]:
        """Give a value and what it was before data movement, up to where it was made."""
        chain = [value]
        while (op := self.flow.makers.get(chain[-1])) is not None:
            if op.id in self.flow.work or self.is_constant(op) or not op.ins:
                break
            chain.append(op.ins[0])
        return chain

    def moves(self, value: str) -> list[Op]:
        """Give the data movement that a value went through, first things first."""
        return [self.flow.makers[each] for each in reversed(self.back(value)[:-1])]

    def root(self, value: str) -> str:
        """Find where a value was made."""
        return self.back(value)[-1]

    def maker(self, root: str) -> int | None:
        """Find the operation that makes a root by computing."""
        op = self.flow.makers.get(root)
        return op.id if op is not None and op.id in self.flow.work else None

    def is_constant(self, op: Op) -> bool:
        """Whether an operation makes numbers of none, or of such."""
        return op.id in self.flow._constant

    def is_input(self, root: str) -> bool:
        """Whether a root is given to forward."""
        return self.trace.values[root].kind == "input"

    @cached_property
    def readers(self) -> Mapping[str, list[int]]:
        """By root, the operations that read it through data movement."""
        found: dict[str, list[int]] = defaultdict(list)
        for op in self.trace.ops:
            if op.id in self.flow.work:
                for each in op.ins:
                    found[self.root(each)].append(op.id)
        return found

    @cached_property
    def by_name(self) -> Mapping[str, list[int]]:
        """By function, the operations that compute."""
        found: dict[str, list[int]] = defaultdict(list)
        for op in self.trace.ops:
            if op.id in self.flow.work:
                found[op.fn].append(op.id)
        return found


@dataclass
class Placing:
    """Finds places of files in one original."""

    flow: Flow

    def __post_init__(self) -> None:
        """Follow the original's values."""
        self.origins = Origins(self.flow)

    def place(
        self, component: Component, taken: frozenset[int] | set[int], match: Match
    ) -> FilePlace | None:
        """Find the first place of a file among the operations that are not taken."""
        if not component.work:
            return None
        ops = _Search(self.origins, Origins(component.flow), component.work, taken, match).run()
        return self._bordered(component, ops, match) if ops is not None else None

    def _bordered(self, component: Component, ops: Mapping[int, int], match: Match) -> FilePlace:
        """Say which of the original's values pass a file's borders."""
        own = Origins(component.flow)
        inputs: dict[str, str | None] = dict.fromkeys(component.trace.inputs)
        weights: dict[str, str] = {}
        for cop in component.work:
            mine, theirs = component.trace.op(cop), self.flow.trace.op(ops[cop])
            for one, other in _paired(own, self.origins, mine, theirs, ops):
                root = own.root(one)
                value = component.trace.values[root]
                wanted = value.shape
                moved = root != one
                if value.kind == "input" and inputs.get(root) is None:
                    inputs[root] = self._like(other, wanted) if moved else other
                elif value.kind in ("param", "buffer"):
                    weights.setdefault(value.name, self._like(other, wanted) if moved else other)
        outputs = tuple(
            self._output(own, component.trace, out, ops, inputs) for out in component.trace.outputs
        )
        return FilePlace(component, ops, inputs, weights, outputs, match)

    def _like(self, value: str, shape: tuple[int, ...]) -> str:
        """Of a value and what it was before, take the nearest of a shape, else of a rank."""
        chain = self.origins.back(value)
        shapes = [self.flow.trace.values[each].shape for each in chain]
        for fits in (lambda each: each == shape, lambda each: len(each) == len(shape)):
            for each, size in zip(chain, shapes, strict=True):
                if fits(size):
                    return each
        return value

    def _output(
        self,
        own: Origins,
        trace: OpTrace,
        out: str,
        ops: Mapping[int, int],
        inputs: Mapping[str, str | None],
    ) -> FileOutput:
        root, moved = own.root(out), tuple(own.moves(out))
        maker = own.maker(root)
        if maker is None:
            return FileOutput(out, moved, inputs.get(root))
        of = self.flow.trace.op(ops[maker]).outs[trace.op(maker).outs.index(root)]
        return FileOutput(out, moved, of, self._stands_for(of, moved))

    def _stands_for(self, of: str, moved: Sequence[Op]) -> str | None:
        """Find the original's value that went through the same data movement."""
        if all(each.fn in _RELABELLING for each in moved):
            return of
        value = of
        for each in moved:
            same = (
                self.flow.trace.op(reader).outs[0]
                for reader in self.flow.trace.readers(value)
                if _alike(self.flow.trace.op(reader), each)
            )
            following = next(same, None)
            if following is None:
                return None
            value = following
        return value


def _alike(one: Op, other: Op) -> bool:
    return one.fn == other.fn and attributes(one) == attributes(other)


def _paired(
    own: Origins, origins: Origins, mine: Op, theirs: Op, ops: Mapping[int, int]
) -> list[tuple[str, str]]:
    """Pair what two operations read, in an order in which they agree."""
    ours, others = (
        list(refs((mine.args, dict(mine.kwargs)))),
        list(refs((theirs.args, dict(theirs.kwargs)))),
    )
    for order in _orders(mine, others):
        pairs = list(zip(ours, order, strict=False))
        if all(_agree(own, origins, one, other, ops) for one, other in pairs):
            return pairs
    return list(zip(ours, others, strict=False))


def _orders(op: Op, values: list[str]) -> Iterator[list[str]]:
    yield values
    if op.fn in _COMMUTING and len(values) == 2:  # noqa: PLR2004  # two operands
        yield values[::-1]


def _agree(own: Origins, origins: Origins, one: str, other: str, ops: Mapping[int, int]) -> bool:
    """Whether a file's value and the original's come from the same place."""
    root, theirs = own.root(one), origins.root(other)
    maker, their_maker = own.maker(root), origins.maker(theirs)
    if maker is not None:
        if their_maker is None or ops.get(maker) != their_maker:
            return False
        index = own.trace.op(maker).outs.index(root)
        return origins.trace.op(their_maker).outs.index(theirs) == index
    if own.is_input(root):
        return True
    return their_maker is None and not origins.is_input(theirs)  # weights and constants


class _Search:
    """Looks for a file's operations in the original, each with its inputs from the same places."""

    def __init__(
        self,
        origins: Origins,
        own: Origins,
        work: Sequence[int],
        taken: frozenset[int] | set[int],
        match: Match,
    ) -> None:
        self.origins, self.own, self.work, self.taken, self.match = (
            origins, own, work, taken, match
        )  # fmt: skip
        self.found: dict[int, int] = {}
        self.bound: list[dict[str, str]] = [{}]
        """What the file's inputs and weights are bound to, after each operation."""

    def run(self) -> dict[int, int] | None:
        """Try operation by operation, the first candidate first; go back where none is left."""
        waiting = [self._candidates(0)]
        for _ in range(_MOST_TRIED):
            place = len(waiting) - 1
            candidate = next(waiting[-1], None)
            if candidate is None:
                waiting.pop()
                if not waiting:
                    return None
                self.found.pop(self.work[place - 1], None)
                self.bound.pop()
                continue
            bound = self._bound(self.work[place], candidate)
            if bound is None:
                continue
            self.found[self.work[place]] = candidate
            if place + 1 == len(self.work):
                return self.found
            self.bound.append(bound)
            waiting.append(self._candidates(place + 1))
        return None

    def _candidates(self, place: int) -> Iterator[int]:
        """Operations of the same name, those that read what the file's reads first."""
        op = self.own.trace.op(self.work[place])
        named = self.origins.by_name.get(op.fn, ())
        for each in op.ins:
            root = self.own.root(each)
            maker = self.own.maker(root)
            if maker is not None:
                index = self.own.trace.op(maker).outs.index(root)
                made = self.origins.trace.op(self.found[maker]).outs
                reading = self.origins.readers.get(made[index], ()) if index < len(made) else ()
                named = [each for each in dict.fromkeys(reading) if each in set(named)]
                break
        used = set(self.found.values())
        return (each for each in named if each not in self.taken and each not in used)

    def _bound(self, mine: int, theirs: int) -> dict[str, str] | None:
        """Bind the file's inputs and weights as these two operations say; none where they disagree."""
        one, other = self.own.trace.op(mine), self.origins.trace.op(theirs)
        if self.match.attributes and not _alike(one, other):
            return None
        if len(one.outs) != len(other.outs) or not self._outs_fit(one, other):
            return None
        ours = list(refs((one.args, dict(one.kwargs))))
        others = list(refs((other.args, dict(other.kwargs))))
        if len(ours) != len(others):
            return None
        for order in _orders(one, others):
            bound = self._bound_in(ours, order)
            if bound is not None:
                return bound
        return None

    def _outs_fit(self, one: Op, other: Op) -> bool:
        mine, theirs = self.own.trace.values, self.origins.trace.values
        pairs = [(mine[a], theirs[b]) for a, b in zip(one.outs, other.outs, strict=True)
                 if a in mine and b in theirs]  # fmt: skip
        if self.match.sizes:
            return all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in pairs)
        return all((len(a.shape), a.dtype) == (len(b.shape), b.dtype) for a, b in pairs)

    def _bound_in(self, ours: Sequence[str], others: Sequence[str]) -> dict[str, str] | None:
        bound = dict(self.bound[-1])
        for one, other in zip(ours, others, strict=True):
            if not _agree(self.own, self.origins, one, other, self.found):
                return None
            root = self.own.root(one)
            if self.own.maker(root) is not None:
                continue
            theirs = self.origins.root(other)
            if bound.setdefault(root, theirs) != theirs:
                return None
            if self.match.sizes and not self._is_sized(root, other):
                return None
        return bound

    def _is_sized(self, root: str, other: str) -> bool:
        """Whether what is bound has the file's size, in one of its forms."""
        wanted = self.own.trace.values[root].shape
        shapes = {self.origins.trace.values[each].shape for each in self.origins.back(other)}
        kind = self.own.trace.values[root].kind
        return kind not in ("input", "param", "buffer") or wanted in shapes


def place_level(
    placing: Placing, components: Sequence[Component], taken: set[int]
) -> tuple[list[FilePlace], list[Component]]:
    """Place the files of one level, each once, the largest first; returns those without a place too.

    What agrees in all but its sizes or its attributes comes after what agrees.
    """
    places: list[FilePlace] = []
    left = sorted(components, key=lambda each: -len(each.work))
    for match in (EXACT, RESIZED, ALTERED):
        unplaced: list[Component] = []
        for component in left:
            place = placing.place(component, taken, match)
            if place is None:
                unplaced.append(component)
                continue
            taken |= place.claimed
            places.append(place)
        left = unplaced
    return places, left


def place_again(
    placing: Placing, components: Sequence[Component], taken: set[int]
) -> Iterator[FilePlace]:
    """Place files a second time, and more often, where the original runs their operations again."""
    for component in sorted(components, key=lambda each: -len(each.work)):
        for _ in range(_MOST_PLACES):
            if not placing.flow.work - taken:
                return
            place = placing.place(component, taken, EXACT)
            if place is None:
                break
            taken |= place.claimed
            yield place
