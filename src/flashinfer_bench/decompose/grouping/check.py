"""One check of a whole tree: everything owned once, everything able to run, parents free of work."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.grouping.data_movement import run_order
from flashinfer_bench.decompose.grouping.facts import Facts
from flashinfer_bench.decompose.ir import LEVELS, Node, OpTrace

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_tree(trace: OpTrace, tree: Node) -> tuple[str, ...]:
    """List what is wrong with a tree over a trace, in sentences; empty when it holds."""
    return tuple(_faults(trace, tree))


def _faults(trace: OpTrace, tree: Node) -> Iterator[str]:
    yield from _owned_once(trace, tree)
    yield from _identified_once(tree)
    known = {op.id for op in trace.ops}
    if any(op not in known for op in tree.all_ops()):
        return  # what follows asks the trace about each operation
    facts = Facts(trace)
    for node in tree.walk():
        yield from _leveled(node)
        if not node.is_leaf:
            yield from _free_of_work(facts, node)
            yield from _runnable(trace, node)


def _owned_once(trace: OpTrace, tree: Node) -> Iterator[str]:
    owners = Counter(op for node in tree.walk() for op in node.ops)
    for op in trace.ops:
        if owners[op.id] != 1:
            yield f"operation {op.id} ({op.fn}) belongs to {owners[op.id]} nodes instead of one"
    known = {op.id for op in trace.ops}
    for number in sorted(set(owners) - known):
        yield f"operation {number} is in the tree and not in the trace"


def _identified_once(tree: Node) -> Iterator[str]:
    for name, times in Counter(node.id for node in tree.walk()).items():
        if times > 1:
            yield f"{times} nodes have the id {name!r}"


def _leveled(node: Node) -> Iterator[str]:
    if node.is_leaf != (node.level == "kernel"):
        has = "no children" if node.is_leaf else "children"
        yield f"{node.id}: a {node.level} with {has}"
    for child in node.children:
        if _is_too_big(node, child):
            yield f"{node.id}: a {node.level} holds the {child.level} {child.id}"


def _is_too_big(node: Node, child: Node) -> bool:
    is_nested_layer = node.level == child.level == "layer"
    return not is_nested_layer and LEVELS.index(child.level) >= LEVELS.index(node.level)


def _free_of_work(facts: Facts, node: Node) -> Iterator[str]:
    for op in node.ops:
        if op not in facts.data_movement:
            yield f"{node.id}: operation {op} ({facts.trace.op(op).fn}) does work in a parent"


def _runnable(trace: OpTrace, node: Node) -> Iterator[str]:
    stuck = run_order(trace, node)[1]
    for step in stuck:
        what = step.id if isinstance(step, Node) else f"operation {step}"
        yield f"{node.id}: {what} needs what only runs after it"
    if stuck:
        return
    yield from _listed_in_order(trace, node)


def _listed_in_order(trace: OpTrace, node: Node) -> Iterator[str]:
    """Each child's needs are made before the parent, its data movement done as early as it can be."""
    inside = set(node.all_ops())
    made: set[int] = set()
    own = list(node.ops)
    for child in node.children:
        own = _run_data_movement(trace, own, inside, made)
        ops = set(child.all_ops())
        late = {m for op in ops for m in _needs(trace, op) if m in inside} - ops - made
        if late:
            yield f"{node.id}: {child.id} is listed before what it needs (operation {min(late)})"
        made |= ops


def _run_data_movement(
    trace: OpTrace, own: list[int], inside: set[int], made: set[int]
) -> list[int]:
    left = []
    for op in own:
        if all(m in made or m not in inside for m in _needs(trace, op)):
            made.add(op)
        else:
            left.append(op)
    return left


def _needs(trace: OpTrace, op: int) -> list[int]:
    makers = (trace.maker(value) for value in trace.op(op).ins)
    return [maker for maker in makers if maker is not None]
