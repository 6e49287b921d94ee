"""Finding where a sequence of parts repeats itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.ir import OpTrace, Ref, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.decompose.grouping.parts import TracePart

MAX_PERIOD = 64
"""Parts in one round at most; looking further costs time and finds nothing people would call a step."""


def labels(trace: OpTrace, units: Sequence[TracePart]) -> list[int]:
    """Give equal parts equal numbers: the same operations on the same shapes with the same attributes."""
    known: dict[object, int] = {}
    return [known.setdefault(_shape_of(trace, unit.work()), len(known)) for unit in units]


def signature(trace: OpTrace, ops: Sequence[int]) -> object:
    """What makes two groups of operations equal, in a form that can be compared."""
    return _shape_of(trace, ops)


def _shape_of(trace: OpTrace, ops: Sequence[int]) -> object:
    names: dict[str, int] = {}
    return tuple(
        (
            trace.op(op).fn,
            trace.op(op).is_train,
            _plain(trace, trace.op(op).args, names),
            _plain(trace, dict(trace.op(op).kwargs), names),
            tuple(_named(trace, out, names) for out in trace.op(op).outs),
        )
        for op in ops
    )


def _named(trace: OpTrace, value: str, names: dict[str, int]) -> object:
    what = trace.values[value]
    kind = "activation" if what.kind in ("input", "inter") else what.kind
    return (names.setdefault(value, len(names)), what.shape, what.dtype, kind)


def _plain(trace: OpTrace, argument: object, names: dict[str, int]) -> object:
    match argument:
        case Ref():
            return _named(trace, argument.id, names)
        case Span():
            return tuple(
                _plain(trace, each, names)
                for each in (argument.start, argument.stop, argument.step)
            )
        case dict():
            return tuple((name, _plain(trace, each, names)) for name, each in argument.items())
        case tuple() | list():
            return tuple(_plain(trace, each, names) for each in argument)
        case _:
            return repr(argument)


def longest_repeat(marks: Sequence[int], sizes: Sequence[int]) -> tuple[int, int, int] | None:
    """Find start, period and number of rounds that cover most kernels; of equal ones the shortest period.

    >>> longest_repeat([9, 1, 2, 1, 2, 1, 2, 7], [1] * 8)
    (1, 2, 3)
    """
    best: tuple[int, int, int] | None = None
    covered = 0
    for period in range(1, min(MAX_PERIOD, len(marks) // 2) + 1):
        for start, rounds in _runs(marks, period):
            one = sum(sizes[start : start + period])
            is_worth_a_node = one > 1 and not _repeats_within(marks[start : start + period])
            if is_worth_a_node and one * rounds > covered:
                best, covered = (start, period, rounds), one * rounds
    return best


def _repeats_within(marks: Sequence[int]) -> bool:
    """Whether a round is one part, or a shorter sequence several times."""
    length = len(marks)
    shorter = (period for period in range(1, length) if length % period == 0)
    return length == 1 or any(
        all(marks[place] == marks[place % period] for place in range(length)) for period in shorter
    )


def _runs(marks: Sequence[int], period: int) -> list[tuple[int, int]]:
    """Where a sequence equals itself one period later, at least once."""
    found = []
    start = 0
    while start + 2 * period <= len(marks):
        end = start
        while end + period < len(marks) and marks[end] == marks[end + period]:
            end += 1
        rounds = (end - start) // period + 1
        if rounds > 1:
            found.append((start, rounds))
        start = max(end, start) + 1
    return found
