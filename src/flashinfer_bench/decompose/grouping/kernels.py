"""Kernels: every operation that does work belongs to exactly one, by the first rule that claims it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import key
from flashinfer_bench.decompose.grouping.composites import FrameTree, composites
from flashinfer_bench.decompose.grouping.facts import common
from flashinfer_bench.decompose.grouping.idioms import idioms, name_of
from flashinfer_bench.decompose.grouping.naming import kernel_name, small_name
from flashinfer_bench.decompose.grouping.parts import TracePart, in_order
from flashinfer_bench.decompose.scan_search import find_scans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from flashinfer_bench.decompose.grouping.facts import Facts, Frame
    from flashinfer_bench.decompose.grouping.overrides import Overrides
    from flashinfer_bench.decompose.scans import Scan


def kernels(tree: FrameTree, overrides: Overrides) -> tuple[TracePart, ...]:
    """Divide all work of a trace into kernels: decisions, scans, composites, idioms, then single operations."""
    facts = tree.facts
    found = list(decided(tree, overrides))
    found += scans(facts, overrides, _ops(found))
    found += (
        _by_idiom(facts, overrides, part) for part in composites(tree, overrides, _ops(found))
    )
    found += idioms(facts, overrides, _ops(found))
    return in_order(_with_singles(facts, found))


def scans(facts: Facts, overrides: Overrides, taken: frozenset[int]) -> Iterator[TracePart]:
    """Loops over a sequence: one kernel each."""
    if not overrides.is_on("scans"):
        return
    for scan in find_scans(facts.trace):
        is_long = len(scan.rounds) >= overrides.limit("scans", "min_rounds")
        if is_long and taken.isdisjoint(scan.ops):
            yield _scan(facts, scan)


def _scan(facts: Facts, scan: Scan) -> TracePart:
    home = common(facts.frames[op] for op in scan.ops)
    times = f"{len(scan.rounds)} rounds of {len(scan.rounds[0])} operations"
    return TracePart(
        level="kernel",
        name=small_name(home, ("scan",)),
        reason=f"scan: {times}, each on what the last one made",
        ops=tuple(sorted(scan.ops)),
        home=home,
        cls="OPAQUE",
        tags=("scan",),
    )


def _ops(parts: Iterable[TracePart]) -> frozenset[int]:
    return frozenset(op for part in parts for op in part.ops)


def decided(tree: FrameTree, overrides: Overrides) -> Iterator[TracePart]:
    """Scopes that a person wants as one kernel, the outermost first."""
    frames = [frame for frame in tree.under if overrides.treatment(frame) == "kernel"]
    for frame in sorted(frames, key=len):
        work = tree.work(frame)
        if any(frame[: len(other)] == other for other in frames if len(other) < len(frame)):
            continue
        if work:
            yield _whole(tree.facts, overrides, frame, work)


def _whole(facts: Facts, overrides: Overrides, frame: Frame, work: tuple[int, ...]) -> TracePart:
    names = [kernel_name(facts.trace.op(op)) for op in work]
    stochastic = any(facts.trace.op(op).is_stochastic for op in work)
    return TracePart(
        level="kernel",
        name=overrides.name(frame) or small_name(frame, names),
        reason=f"override: {frame[-1].path or frame[-1].cls} is one kernel of {len(work)} operations",
        ops=work,
        frame=frame,
        home=frame[:-1],
        cls="OPAQUE",
        opaque="kept whole by the overrides" if len(work) > 1 else None,
        tags=("stochastic",) if stochastic else (),
    )


def _by_idiom(facts: Facts, overrides: Overrides, part: TracePart) -> TracePart:
    """Name a composite that is exactly an idiom by the idiom, unless a person named it."""
    idiom = name_of(facts, part.ops, overrides)
    if idiom is None or (part.frame and overrides.name(part.frame)):
        return part
    reason = f"{part.reason}; idiom {idiom}"
    return replace(part, name=idiom, reason=reason, tags=(*part.tags, f"idiom:{idiom}"))


# -- one operation each ------------------------------------------------------------------------------------------


@dataclass
class _Absorbed:
    """Which kernel each operation belongs to, while constant preparations find their only user."""

    owner: dict[int, int]
    extra: dict[int, list[int]]


def _with_singles(facts: Facts, found: list[TracePart]) -> Iterator[TracePart]:
    """The kernels found, and one of each operation left; light work on constants joins its only user."""
    taken = _ops(found)
    left = [op for op in facts.compute if op not in taken]
    parts = dict(enumerate(found))
    for op in left:
        if op not in facts.steady:
            parts[len(parts)] = single(facts, op)
    state = _Absorbed({op: place for place, part in parts.items() for op in part.ops}, {})
    for op in reversed([op for op in left if op in facts.steady]):
        user = _only_user(facts, op, state.owner)
        if user is None or parts[user].cls == "OPAQUE":
            user = len(parts)
            parts[user] = single(facts, op)
        else:
            state.extra.setdefault(user, []).append(op)
        state.owner[op] = user
    for place, part in parts.items():
        yield _extended(part, state.extra.get(place, []))


def _extended(part: TracePart, extra: list[int]) -> TracePart:
    if not extra:
        return part
    reason = f"{part.reason}, with {len(extra)} operation(s) on constants that only it uses"
    return replace(part, ops=tuple(sorted({*part.ops, *extra})), reason=reason)


def _only_user(facts: Facts, op: int, owner: Mapping[int, int]) -> int | None:
    """The kernel that alone uses what an operation makes, directly or through views."""
    users: set[int] = set()
    waiting, seen = [op], {op}
    while waiting:
        each = waiting.pop()
        if facts.is_output(each):
            return None
        for reader in facts.readers(each):
            if reader in owner:
                users.add(owner[reader])
            elif reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return users.pop() if len(users) == 1 else None


def single(facts: Facts, op: int) -> TracePart:
    """A kernel of one operation."""
    what = facts.trace.op(op)
    cls = facts.classes[op]
    return TracePart(
        level="kernel",
        name=kernel_name(what),
        reason=f"operation {key(what.fn)} of class {cls}",
        ops=(op,),
        home=facts.frames[op],
        cls=cls,
        opaque=f"unknown operation {what.fn}" if cls == "OPAQUE" else None,
        tags=("stochastic",) if what.is_stochastic else (),
    )
