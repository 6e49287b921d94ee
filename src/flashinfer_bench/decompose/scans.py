"""Scans: loops over a sequence in which each round takes what the last one made, rolled up again from a trace.

A trace has each round's operations one after another. A scan has them once, with what differs from round to round:
values that the last round made, indices that grow by a step, and the parts of what was split before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from flashinfer_bench.decompose.ir import Along, Op, OpTrace, Ref, Span

Slot = tuple[int, int]
"""An operation's place in a round, and which of its results."""


@dataclass(frozen=True)
class Carried:
    """An argument that the last round made; the first round takes `first`."""

    slot: Slot
    first: str


@dataclass(frozen=True)
class Stepped:
    """An integer that grows by a step from round to round."""

    start: int | Along
    step: int


@dataclass(frozen=True)
class Element:
    """An argument that is one of the results of an operation before the scan, another one in each round."""

    of: str
    """The first of the results."""
    start: int
    step: int


@dataclass(frozen=True)
class Gathered:
    """The argument of an operation after the scan that is a list of one result of each round."""

    loop: int
    """Which of a part's loops made it."""
    slot: Slot


@dataclass(frozen=True)
class Scan:
    """A loop found in a trace."""

    rounds: tuple[tuple[int | None, ...], ...]
    """Operations by round and place; of the last round some may be missing, whose results nothing needs."""
    spread: tuple[int, ...]
    """Operations before it that split a tensor into what each round takes."""
    gathered: Mapping[int, Slot]
    """Operations after it that put the results of all rounds together, and which results."""

    @cached_property
    def ops(self) -> frozenset[int]:
        """All its operations."""
        inside = (op for each in self.rounds for op in each if op is not None)
        return frozenset((*inside, *self.spread, *self.gathered))


class UnevenError(Exception):
    """ScanRounds are not alike."""


@dataclass(frozen=True)
class ScanRounds:
    """Where values are made."""

    trace: OpTrace
    rounds: Sequence[Sequence[int | None]]

    @cached_property
    def places(self) -> dict[str, tuple[int, Slot]]:
        """The round and the slot that makes each value of the scan."""
        return {
            out: (number, (place, position))
            for number, ops in enumerate(self.rounds)
            for place, op in enumerate(ops)
            if op is not None
            for position, out in enumerate(self.trace.op(op).outs)
        }

    def laid(self, column: Sequence[tuple[int, Any]]) -> Any:
        """Lay an argument of all rounds over each other; raises where it does not go on evenly."""
        first = column[0][1]
        if any(type(each) is not type(first) for _, each in column):
            raise UnevenError
        match first:
            case Ref():
                return self._reference([(number, each.id) for number, each in column])
            case Span():
                ends = ("start", "stop", "step")
                return Span(*(self.laid([(n, getattr(e, end)) for n, e in column]) for end in ends))
            case tuple() | list():
                if any(len(each) != len(first) for _, each in column):
                    raise UnevenError
                parts = (self.laid([(n, e[at]) for n, e in column]) for at in range(len(first)))
                return type(first)(parts)
            case Mapping():
                if any(each.keys() != first.keys() for _, each in column):
                    raise UnevenError
                return {key: self.laid([(n, e[key]) for n, e in column]) for key in first}
            case Along():
                if len({(each.axis, each.factor) for _, each in column}) > 1:
                    raise UnevenError
                step = _step([(number, each.offset) for number, each in column])
                return Stepped(first, step) if step else first
            case int() if not isinstance(first, bool):
                step = _step(column)
                return Stepped(first, step) if step else first
            case _:
                if any(each != first for _, each in column):
                    raise UnevenError
                return first

    def _reference(self, column: Sequence[tuple[int, str]]) -> Any:
        first = column[0][1]
        made = [self.places.get(value) for _, value in column]
        if all(value == first for _, value in column):
            if made[0] is not None:
                raise UnevenError
            return Ref(first)
        if made[0] is not None:
            expected = [(number, made[0][1]) for number, _ in column]
            if made != expected:
                raise UnevenError
            return Ref(first)
        if len(made) > 1 and made[1] is not None:
            slot = made[1][1]
            if made[1:] != [(number - 1, slot) for number, _ in column[1:]]:
                raise UnevenError
            return Carried(slot, first)
        return self._element(column)

    def _element(self, column: Sequence[tuple[int, str]]) -> Element:
        makers = {self.trace.maker(value) for _, value in column}
        maker = makers.pop()
        if makers or maker is None:
            raise UnevenError
        outs = self.trace.op(maker).outs
        places = [(number, outs.index(value)) for number, value in column]
        return Element(outs[0], places[0][1], _step(places))


def _step(column: Sequence[tuple[int, int]]) -> int:
    (first, start), (last, end) = column[0], column[-1]
    step = (end - start) // max(1, last - first)
    if any(value != start + step * (number - first) for number, value in column):
        raise UnevenError
    return step


def rolled(trace: OpTrace, scan: Scan, ops: Mapping[int, Op] | None = None) -> list[Op] | None:
    """Write one round, with marks for what differs from round to round; none where rounds do not go on evenly.

    Results are called as in the first round. `ops`: what to take for the trace's operations.
    """
    try:
        return rolled_up(ScanRounds(trace, scan.rounds), ops or {})
    except UnevenError:
        return None


def rolled_up(rounds: ScanRounds, ops: Mapping[int, Op]) -> list[Op]:
    """Write one round as `rolled` does; raises where rounds do not go on evenly."""
    body = []
    for column in zip(*rounds.rounds, strict=True):
        found = [
            (number, ops.get(op) or rounds.trace.op(op))
            for number, op in enumerate(column)
            if op is not None
        ]
        body.append(
            replace(
                found[0][1],
                args=rounds.laid([(number, op.args) for number, op in found]),
                kwargs=rounds.laid([(number, dict(op.kwargs)) for number, op in found]),
            )
        )
    firsts = firsts_of(body)
    if any(isinstance(e, Carried) and e.first != firsts[e.slot] for e in marks_in(body)):
        raise UnevenError
    return body


def firsts_of(body: Iterable[Op]) -> dict[Slot, str]:
    """Give what the first round takes for each result of the last one."""
    return {each.slot: each.first for each in marks_in(body) if isinstance(each, Carried)}


def marks_in(body: Iterable[Op]) -> Iterator[Carried | Stepped | Element]:
    """Yield what differs from round to round."""
    for op in body:
        yield from _marks((op.args, dict(op.kwargs)))


def _marks(argument: Any) -> Iterator[Carried | Stepped | Element]:
    match argument:
        case Carried() | Stepped() | Element():
            yield argument
        case Span():
            yield from _marks((argument.start, argument.stop, argument.step))
        case tuple() | list():
            for each in argument:
                yield from _marks(each)
        case Mapping():
            yield from _marks(list(argument.values()))
        case _:
            return
