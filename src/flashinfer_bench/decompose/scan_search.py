"""Finding scans in a trace: runs of operations that look alike again and again, and go on evenly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flashinfer_bench.decompose.ir import Op, OpTrace, Ref, Span, interface, with_refs
from flashinfer_bench.decompose.scans import (
    Carried,
    Element,
    Scan,
    ScanRounds,
    Slot,
    Stepped,
    UnevenError,
    firsts_of,
    marks_in,
    rolled_up,
)

LEAST_ROUNDS = 4
_LONGEST_ROUND = 64
"""Operations; a longer round is a network and not a step of one."""


def find_scans(trace: OpTrace) -> tuple[Scan, ...]:
    """Find the loops of a trace, those with the shortest rounds first where several fit; in the order they run."""
    likes = _likes(trace)
    places = {op.id: at for at, op in enumerate(trace.ops)}
    taken: set[int] = set()
    found: list[Scan] = []
    for period in range(1, min(_LONGEST_ROUND, len(likes) // LEAST_ROUNDS) + 1):
        waiting = _alike_runs(likes, period)
        while waiting:
            start, end = waiting.pop()
            start = next((at for at in range(start, end) if at not in taken), end)
            end = next((at for at in range(start, end) if at in taken), end)
            scan = _scan(trace, likes, start, end, period)
            if scan is not None and taken.isdisjoint(places[op] for op in scan.ops):
                found.append(scan)
                covered = {places[op] for op in scan.ops}
                taken |= covered
                own = covered & set(range(start, end))
                waiting += [(start, min(own)), (max(own) + 1, end)]  # another loop like it
    return tuple(sorted(found, key=lambda scan: places[scan.rounds[0][0] or 0]))


def _likes(trace: OpTrace) -> list[int]:
    """Give operations equal numbers that may be one operation in two rounds."""
    known: dict[object, int] = {}
    return [known.setdefault(_like(trace, op), len(known)) for op in trace.ops]


def _like(trace: OpTrace, op: Op) -> object:
    outs = tuple((trace.values[out].shape, trace.values[out].dtype) for out in op.outs)
    given = _outline(trace, (op.args, dict(op.kwargs)))
    return (op.fn, given, outs, op.autocast, op.is_train, op.is_stochastic)


def _outline(trace: OpTrace, argument: Any) -> object:
    match argument:
        case Ref():
            value = trace.values[argument.id]
            is_held = value.kind in ("param", "buffer", "const")
            return (argument.id if is_held else "", value.shape, value.dtype)
        case None | bool() | float() | str():
            return argument
        case int():
            return int
        case Span():
            return tuple(_outline(trace, e) for e in (argument.start, argument.stop, argument.step))
        case Mapping():
            return tuple((key, _outline(trace, each)) for key, each in argument.items())
        case tuple() | list():
            return tuple(_outline(trace, each) for each in argument)
        case _:
            return repr(argument)


def _alike_runs(likes: Sequence[int], period: int) -> list[tuple[int, int]]:
    """Where a sequence equals itself one period later for rounds enough: starts and ends."""
    found = []
    start = 0
    while start + LEAST_ROUNDS * period <= len(likes):
        end = start
        while end + period < len(likes) and likes[end] == likes[end + period]:
            end += 1
        if end + period - start >= (LEAST_ROUNDS - 1) * period:  # the last round may be shorter
            found.append((start, end + period))
        start = max(end, start) + 1
    return found


def _scan(trace: OpTrace, likes: Sequence[int], start: int, end: int, period: int) -> Scan | None:
    """Make a scan of what looks alike, from where a round may begin: as much of it as can be, with few results."""
    alike = {each.id for each in trace.ops[start:end]}
    found: list[Scan] = []
    for first in range(start, min(start + period, end - (LEAST_ROUNDS - 1) * period + 1)):
        scan = _scan_from(trace, likes, first, (end - first) // period, period)
        if scan is not None:
            found.append(scan)
            if alike <= scan.ops:
                break

    def worth(scan: Scan) -> tuple[int, int]:
        return len(scan.ops & alike), -len(interface(trace, scan.ops).outputs)

    return max(found, key=worth, default=None)


def _scan_from(
    trace: OpTrace, likes: Sequence[int], first: int, count: int, period: int
) -> Scan | None:
    ops = [each.id for each in trace.ops[first : first + count * period]]
    rounds: list[tuple[int | None, ...]] = [
        tuple(ops[at * period : (at + 1) * period]) for at in range(count)
    ]
    if not _are_even(trace, rounds[:LEAST_ROUNDS]):
        return None
    rounds = rounds[: _even_rounds(trace, rounds)]
    body = rolled_up(ScanRounds(trace, rounds), {})
    if not _is_recurrent(trace, body):
        return None
    last = _last_round(trace, likes, rounds, first)
    found = None
    if last is not None and _may_run(body, last):
        found = _closed(trace, [*rounds, last])
    found = found or _closed(trace, rounds)
    return found if found is not None and len(found.rounds) >= LEAST_ROUNDS else None


def _may_run(body: Sequence[Op], last: Sequence[int | None]) -> bool:
    """Whether what is missing in the last round may run: what it takes by number might not be there."""
    missing = [op for op, place in zip(body, last, strict=True) if place is None]
    return not any(isinstance(each, Stepped | Element) for each in marks_in(missing))


def _are_even(trace: OpTrace, rounds: Sequence[tuple[int | None, ...]]) -> bool:
    try:
        rolled_up(ScanRounds(trace, rounds), {})
    except UnevenError:
        return False
    return True


def _even_rounds(trace: OpTrace, rounds: Sequence[tuple[int | None, ...]]) -> int:
    """Count the first rounds that go on evenly; another loop like it may follow."""
    if _are_even(trace, rounds):
        return len(rounds)
    least, most = LEAST_ROUNDS, len(rounds)
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if _are_even(trace, rounds[:middle]) else (least, middle)
    return least


def _is_recurrent(trace: OpTrace, body: Sequence[Op]) -> bool:
    """Whether rounds follow a sequence and need each other; those that have weights of their own are layers."""
    kinds: set[type] = {type(each) for each in marks_in(body)}
    is_drawn = any(op.is_stochastic for op in body)
    has_own_weights = any(_takes_own_weights(trace, op) for op in body)
    follows = bool(kinds & {Stepped, Element})
    return Carried in kinds and follows and not is_drawn and not has_own_weights


def _takes_own_weights(trace: OpTrace, op: Op) -> bool:
    """Whether an operation takes another part of a parameter in each round."""
    marks = [each for each in marks_in((op,)) if not isinstance(each, Carried)]
    split = [trace.maker(each.of) for each in marks if isinstance(each, Element)]
    read = {value for maker in split if maker is not None for value in trace.op(maker).ins}
    if op.ins and any(isinstance(each, Stepped) for each in marks):
        read.add(op.ins[0])  # what is indexed
    return not trace.weights.isdisjoint(read)


def _last_round(
    trace: OpTrace, likes: Sequence[int], rounds: Sequence[tuple[int | None, ...]], first: int
) -> tuple[int | None, ...] | None:
    """Find a last round, after full ones from a place on, of which what nothing needs was left out."""
    period = len(rounds[0])
    last: list[int | None] = []
    at = first + len(rounds) * period
    for like in likes[first : first + period]:
        last.append(None)
        if at < len(likes) and likes[at] == like:
            last[-1] = trace.ops[at].id
            if _goes_on(trace, rounds, last):
                at += 1
            else:
                last[-1] = None
    return tuple(last) if any(op is not None for op in last) else None


def _goes_on(
    trace: OpTrace, rounds: Sequence[tuple[int | None, ...]], last: Sequence[int | None]
) -> bool:
    """Whether the newest operation of a last round is what the rounds before lead to expect."""
    padded = (*last, *(None for _ in rounds[0][len(last) :]))
    known = ScanRounds(trace, [*rounds[-2:], padded])
    column = [ops[len(last) - 1] for ops in known.rounds]
    found = [(number, trace.op(op)) for number, op in enumerate(column) if op is not None]
    try:
        known.laid([(number, (op.args, dict(op.kwargs))) for number, op in found])
    except UnevenError:
        return False
    return True


def _closed(trace: OpTrace, rounds: Sequence[tuple[int | None, ...]]) -> Scan | None:
    """Make the scan if outside only its last round's results are used, or those of all rounds together."""
    known = ScanRounds(trace, rounds)
    try:
        body = rolled_up(known, {})
    except UnevenError:
        return None
    spread = _spread(trace, body)
    parts = {out for op in spread for out in trace.op(op).outs}
    if not parts.isdisjoint({*firsts_of(body).values()}.union(*(op.ins for op in body))):
        return None  # a part by a number of its own
    inside = {op for each in rounds for op in each if op is not None}
    if any(not set(trace.readers(out)) <= inside for op in spread for out in trace.op(op).outs):
        return None
    gathered: dict[int, Slot] = {}
    returned = set(trace.outputs)
    for value, (number, slot) in known.places.items():
        readers = [each for each in trace.readers(value) if each not in inside]
        gathering = [each for each in readers if _is_gathering(known, trace.op(each), slot)]
        is_last = number == len(rounds) - 1
        if not is_last and (len(gathering) < len(readers) or value in returned):
            return None
        gathered |= dict.fromkeys(gathering, slot)
    return Scan(tuple(rounds), spread, gathered)


def _spread(trace: OpTrace, body: Sequence[Op]) -> tuple[int, ...]:
    """Find the operations whose results rounds take one after another."""
    makers = (trace.maker(each.of) for each in marks_in(body) if isinstance(each, Element))
    return tuple(dict.fromkeys(maker for maker in makers if maker is not None))


def _is_gathering(known: ScanRounds, op: Op, slot: Slot) -> bool:
    """Whether an operation takes a list of one result of every round, in order, and nothing else of theirs."""
    place, position = slot
    ops = [each[place] for each in known.rounds]
    if any(each is None for each in ops) or not op.args or not isinstance(op.args[0], list | tuple):
        return False
    wanted = [known.trace.op(each).outs[position] for each in ops if each is not None]
    given = [each.id if isinstance(each, Ref) else None for each in op.args[0]]
    makers = [known.trace.maker(value) for value in set(op.ins) - set(wanted)]
    begin = known.rounds[0][0] or 0
    return given == wanted and all(maker is None or maker < begin for maker in makers)


def with_rounds_of(scans: Sequence[Scan], other: OpTrace) -> tuple[OpTrace, tuple[int, ...]] | None:
    """Leave out of a run the rounds that another run's scans have not, and count; none if it has fewer."""
    twins = find_scans(other) if scans else ()
    if len(twins) != len(scans):
        return None
    for scan, twin in zip(scans, twins, strict=True):
        if len(scan.rounds) > len(twin.rounds) or len(scan.rounds[0]) != len(twin.rounds[0]):
            return None
        other = _shortened(other, twin, scan)
    return other, tuple(len(twin.rounds) for twin in twins)


def _shortened(trace: OpTrace, scan: Scan, like: Scan) -> OpTrace:
    """Keep the first rounds; who read the last round reads the last that is kept."""
    count = len(like.rounds)
    gone = {op for each in scan.rounds[count:] for op in each if op is not None}
    pairs = zip(like.rounds[-1], scan.rounds[count - 1], strict=True)
    gone |= {op for kept, op in pairs if kept is None and op is not None}
    renamed: dict[str, str] = {}
    for kept, last in zip(scan.rounds[count - 1], scan.rounds[-1], strict=True):
        if kept is not None and last is not None:
            renamed |= dict(zip(trace.op(last).outs, trace.op(kept).outs, strict=True))

    def kept_of(op: Op) -> Op:
        if op.id in scan.gathered:
            return replace(op, args=(op.args[0][:count], *op.args[1:]))
        if op.id in scan.spread:
            return _first_outs(op, count)
        if op.id in scan.ops:
            return op
        kwargs = with_refs(dict(op.kwargs), renamed)
        return replace(op, args=with_refs(op.args, renamed), kwargs=kwargs)

    ops = [kept_of(op) for op in trace.ops if op.id not in gone]
    outputs = tuple(renamed.get(value, value) for value in trace.outputs)
    return replace(trace, ops=tuple(ops), outputs=outputs)


def _first_outs(op: Op, count: int) -> Op:
    structure = op.structure
    if isinstance(structure, list | tuple):
        structure = type(structure)(structure[:count])
    return replace(op, outs=op.outs[:count], structure=structure)
