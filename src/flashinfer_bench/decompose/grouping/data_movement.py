"""Data movement: every view and factory gets one owner, and the children of a node an order in which they can run."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.grouping.parts import TracePart
from flashinfer_bench.decompose.ir import Node, OpTrace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.decompose.grouping.facts import Facts

_MOST_PREPARED = 4
"""Operations on constants that a kernel does itself, besides factories and views."""

Step = int | Node
"""What a parent does next: an operation of its own, or a child."""


def completed(facts: Facts, root: TracePart) -> Node:
    """Give all data movement to its nodes and order their children; a group that cannot run at once is dissolved."""
    held = set(root.work())
    pool = {op.id for op in facts.trace.ops} - held
    while True:
        try:
            return _placed(_Place(facts), root, set(pool))
        except _TangledError as tangle:
            root = _untangled(root, tangle.parts)


class _TangledError(Exception):
    """Some children each need what another makes."""

    def __init__(self, parts: tuple[TracePart, ...]) -> None:
        super().__init__()
        self.parts = parts


@dataclass(frozen=True)
class _Place:
    facts: Facts

    def claims(self, part: TracePart, pool: set[int]) -> set[int]:
        """Data movement of a parent's that belongs to a child."""
        work = part.work()
        found = self.facts.between(work) & pool
        for frame in part.frames():
            found |= {op for op in pool if self.facts.frames[op][: len(frame)] == frame}
        return found

    def sunk(self, pool: set[int], owners: Mapping[int, int]) -> dict[int, int]:
        """Data movement on weights and constants alone that one child alone uses, with that child."""
        found = dict(owners)
        for op in sorted(pool, reverse=True):
            if op in found or not self._is_steady(op):
                continue
            users = {found.get(reader) for reader in self.facts.readers(op)}
            user = users.pop() if len(users) == 1 else None
            if user is not None and not self.facts.is_output(op):
                found[op] = user
        return {op: user for op, user in found.items() if op in pool}

    def lengthy(self, part: TracePart, given: Mapping[int, int]) -> set[int]:
        """Long preparations of constants within a kernel: it is given what they make, and is timed without them."""
        found: set[int] = set()
        for index, child in enumerate(part.children):
            own = {op for op, user in given.items() if user == index and op in self.facts.prologue}
            computed = [op for op in own if self.facts.classes[op] not in ("GEN", "VIEW")]
            if child.is_leaf and len(computed) > _MOST_PREPARED:
                found |= own
        return found

    def uncut(self, part: TracePart, ops: set[int]) -> set[int]:
        """Leave out what would cut the preparation of a constant: a parent computes nothing on what it is given."""
        kept = set(ops)
        while cut := {op for op in kept & self.facts.prologue if self._is_cut(op, kept, part)}:
            kept -= cut
        return kept

    def _is_cut(self, op: int, kept: set[int], part: TracePart) -> bool:
        leading = self.facts.leading
        if any(reader in leading and reader not in kept for reader in self.facts.readers(op)):
            return True
        if part.is_leaf or op not in leading:
            return False
        return not _makers(self.facts.trace, (op,)) <= kept

    def _is_steady(self, op: int) -> bool:
        return op in self.facts.weighty or op in self.facts.prologue


def _placed(place: _Place, part: TracePart, pool: set[int]) -> Node:
    """Make a node of a part, with the data movement that was left to it and to what is below."""
    if part.is_leaf:
        return _node(part, tuple(sorted({*part.ops, *pool})), ())
    owners = {op: index for index, child in enumerate(part.children) for op in child.work()}
    given: dict[int, int] = {}
    sunk = place.sunk(pool, owners)
    lengthy = place.lengthy(part, sunk)
    for op, user in sunk.items():
        if op not in lengthy:
            given[op] = user
    rest = pool - set(given) - lengthy
    for index, child in enumerate(part.children):
        claimed = place.claims(child, rest)
        given.update(dict.fromkeys(claimed, index))
        rest -= claimed
    children = []
    left = set(pool)
    for index, child in enumerate(part.children):
        own = place.uncut(child, {op for op, user in given.items() if user == index})
        left -= own
        children.append(_placed(place, child, own))
    node = _node(part, tuple(sorted(left)), tuple(children))
    return replace(node, children=_ordered(place.facts.trace, node, part))


def _node(part: TracePart, ops: tuple[int, ...], children: tuple[Node, ...]) -> Node:
    is_stochastic = any("stochastic" in child.tags for child in children)
    tags = dict.fromkeys((*part.tags, *(("stochastic",) if is_stochastic else ())))
    path = _path(part)
    return Node(
        id="",
        level=part.level,
        name=part.name,
        ops=ops,
        children=children,
        reason=part.reason,
        scope=path,
        opaque=part.opaque,
        tags=tuple(tags),
    )


def _path(part: TracePart) -> str:
    frame = part.home if part.frame is None else part.frame
    return next((scope.path for scope in reversed(frame) if scope.kind == "module"), "")


def _ordered(trace: OpTrace, node: Node, part: TracePart) -> tuple[Node, ...]:
    done, stuck = run_order(trace, node)
    if stuck:
        places = {id(child): index for index, child in enumerate(node.children)}
        raise _TangledError(
            tuple(part.children[places[id(s)]] for s in stuck if isinstance(s, Node))
        )
    return tuple(step for step in done if isinstance(step, Node))


def steps(trace: OpTrace, node: Node) -> tuple[Step, ...]:
    """What a parent does, in an order in which it can: its own operations and its children."""
    return run_order(trace, node)[0]


def run_order(trace: OpTrace, node: Node) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Order a parent's operations and children; what can never run is given second."""
    items: list[Step] = [*node.ops, *node.children]
    members = [item.all_ops() if isinstance(item, Node) else (item,) for item in items]
    owner = {op: index for index, ops in enumerate(members) for op in ops}
    needs: list[set[int]] = [
        {owner[m] for m in _makers(trace, ops) if m in owner} - {index}
        for index, ops in enumerate(members)
    ]
    needed_by: dict[int, list[int]] = {}
    for index, before in enumerate(needs):
        for each in before:
            needed_by.setdefault(each, []).append(index)
    ready = [
        (max(members[index], default=-1), index) for index, before in enumerate(needs) if not before
    ]
    heapq.heapify(ready)
    done: list[int] = []
    while ready:
        _, index = heapq.heappop(ready)
        done.append(index)
        for following in needed_by.get(index, ()):
            needs[following].discard(index)
            if not needs[following]:
                heapq.heappush(ready, (max(members[following], default=-1), following))
    finished = set(done)
    stuck = tuple(item for index, item in enumerate(items) if index not in finished)
    return tuple(items[index] for index in done), stuck


def _makers(trace: OpTrace, ops: Iterable[int]) -> set[int]:
    return {
        maker
        for op in ops
        for value in trace.op(op).ins
        if (maker := trace.maker(value)) is not None
    }


def _untangled(root: TracePart, tangled: tuple[TracePart, ...]) -> TracePart:
    """Dissolve the largest group of a tangle into its children; kernels that need each other become one."""
    groups = [part for part in tangled if not part.is_leaf]
    if groups:
        largest = max(groups, key=lambda part: len(part.work()))
        return _replaced(root, (largest,), largest.children)
    reason = "parts of it need each other's results"
    merged = TracePart(
        level="kernel",
        name=tangled[0].name,
        reason=f"opaque: {reason}",
        ops=tuple(sorted(op for part in tangled for op in part.ops)),
        home=tangled[0].home,
        cls="OPAQUE",
        opaque=reason,
    )
    return _replaced(root, tangled, (merged,))


def _replaced(part: TracePart, old: tuple[TracePart, ...], new: tuple[TracePart, ...]) -> TracePart:
    """Put other children in the place of some, wherever they are."""
    if part.is_leaf:
        return part
    kept = [child for child in part.children if child not in old]
    if len(kept) < len(part.children):
        return replace(part, children=(*kept, *new))
    return replace(part, children=tuple(_replaced(child, old, new) for child in part.children))
