"""Which operations of the original each leaf stands for, found from the values that pass its borders.

A leaf call is given tensors and makes tensors. Those that the original's run made too are recognised by their
marks; the operations between them, walked from outputs back to inputs, are what the leaf does.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import classify
from flashinfer_bench.decompose.verify.findings import Coverage, Severity, Violation
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from flashinfer_bench.decompose.ir import Node, Op, OpTrace
    from flashinfer_bench.decompose.verify.layout import DecompositionFolder, TreeNode
    from flashinfer_bench.decompose.verify.values import Fingerprint

_MOST_NAMED = 12


@dataclass(frozen=True)
class Border:
    """What went into a leaf call and came out, as marks."""

    node: TreeNode
    path: str
    ins: tuple[tuple[str, Fingerprint], ...]
    outs: tuple[Fingerprint, ...]


@dataclass(frozen=True)
class Claim:
    """A leaf call and the operations it stands for."""

    node: TreeNode
    path: str
    ops: frozenset[int]


@dataclass(frozen=True)
class Flow:
    """A trace as values made and read, with what counts as work."""

    trace: OpTrace
    tree: Node | None = None
    """Its kernels, which say who made what where several steps make the same numbers, as products with one do."""

    @cached_property
    def kernels(self) -> frozenset[frozenset[int]]:
        """The work of each kernel of the original's tree."""
        leaves = () if self.tree is None else (each for each in self.tree.walk() if each.is_leaf)
        return frozenset(frozenset(leaf.ops) & self.work for leaf in leaves)

    @cached_property
    def makers(self) -> Mapping[str, Op]:
        """The operation that makes each value."""
        return {out: op for op in self.trace.ops for out in op.outs}

    @cached_property
    def ops(self) -> frozenset[int]:
        """Operations of the run."""
        return frozenset(op.id for op in self.trace.ops)

    @cached_property
    def work(self) -> frozenset[int]:
        """Operations that must be in a leaf: neither plumbing nor constants."""
        return frozenset(op.id for op in self.trace.ops if self._is_work(op))

    def _is_work(self, op: Op) -> bool:
        return op.id not in self._constant and classify(self.trace, op) not in ("VIEW", "GEN")

    @cached_property
    def _constant(self) -> frozenset[int]:
        """Factories, and what is computed from them only."""
        constant: set[int] = set()
        for op in self.trace.ops:
            makers = [self.makers.get(value) for value in op.ins]
            given = all(maker is not None and maker.id in constant for maker in makers)
            is_factory = classify(self.trace, op) == "GEN"  # of a tensor it takes the shape
            if (given or is_factory) and not op.is_stochastic:
                constant.add(op.id)
        return frozenset(constant)

    def seen_of(self, ops: frozenset[int]) -> frozenset[str]:
        """Values that operations make, and views of them."""
        seen: set[str] = set()
        for op in self.trace.ops:
            if op.id in ops or (op.id not in self.work and not seen.isdisjoint(op.ins)):
                seen.update(op.outs)
        return frozenset(seen)

    def between(
        self, out: str, borders: frozenset[str], *, is_closed: bool = False
    ) -> tuple[frozenset[int], str | None]:
        """Operations from a value back to the borders, and a value beyond them that is reached.

        `is_closed`: what is reached beyond them ends the search.
        """
        ops: set[int] = set()
        waiting, leak = [out], None
        while waiting:
            value = waiting.pop()
            if value in borders and value != out:
                continue
            op = self.makers.get(value)
            if op is None:
                leak = leak or value
                if is_closed:
                    break
            elif op.id not in ops:
                ops.add(op.id)
                waiting += [each for each in op.ins if each != out]
        return frozenset(ops), leak


class Known:
    """Values of the original's run, found by their marks."""

    def __init__(self, marks: Mapping[str, Fingerprint]) -> None:
        self._ordered: dict[tuple[str, int, bytes], list[str]] = defaultdict(list)
        self._unordered: dict[tuple[str, int, int], list[str]] = defaultdict(list)
        for value, each in marks.items():
            self._ordered[each.dtype, each.count, each.ordered].append(value)
            self._unordered[each.dtype, each.count, each.unordered].append(value)
        self.near: dict[Fingerprint, str] = {}
        """Values that are not equal but within tolerance."""

    def values(self, each: Fingerprint) -> list[str]:
        """Values with these numbers; in the same order if there are such."""
        exact = self._ordered.get((each.dtype, each.count, each.ordered))
        if exact:
            return exact
        if each in self.near:
            return self.values_like(self.near[each])
        return self._unordered.get((each.dtype, each.count, each.unordered), [])

    def values_like(self, value: str) -> list[str]:
        """A value, and those with the same numbers."""
        for group in self._ordered.values():
            if value in group:
                return group
        return [value]


def claims_by_values(
    flow: Flow, known: Known, borders: Iterable[Border]
) -> tuple[list[Claim], list[Violation]]:
    """Find what each leaf call stands for."""
    claims: list[Claim] = []
    findings: list[Violation] = []
    claimed: set[int] = set()
    alternatives: list[tuple[frozenset[str], list[str]]] = []
    made: set[Fingerprint] = set()
    for each in borders:
        given: set[str] = set()
        for name, one in each.ins:
            values = known.values(one)
            given.update(values)
            if not values and one not in made and not findings:
                findings.append(_foreign(each, name))
        made.update(each.outs)
        ops: set[int] = set()
        for one in each.outs:
            chosen, leak = _best(flow, known.values(one), frozenset(given), claimed)
            ops |= chosen
            if leak is not None and not findings:
                findings.append(_leaking(flow, each, leak))
        work = frozenset(ops) & flow.work
        claimed |= work
        claims.append(Claim(each.node, each.path, work))
        alternatives.append((frozenset(given), [v for one in each.outs for v in known.values(one)]))
    return _extended(flow, claims, alternatives, claimed), findings


def _extended(
    flow: Flow,
    claims: Sequence[Claim],
    alternatives: Sequence[tuple[frozenset[str], Sequence[str]]],
    claimed: set[int],
) -> list[Claim]:
    """Give operations that are left to the leaf whose tensors they did not change: `triu` of a triangle."""
    extended = []
    left = flow.work - claimed
    free = flow.seen_of(left)
    for claim, (given, values) in zip(claims, alternatives, strict=True):
        ops = claim.ops
        for value, borders in itertools.product(values, (given, given - free) if left else ()):
            reached, leak = flow.between(value, borders, is_closed=True)
            more = (reached & flow.work) - ops
            extends = bool(reached & ops) or not ops
            if leak is None and more and extends and more <= left:
                left -= more
                ops |= more
        if ops != claim.ops:
            free = flow.seen_of(left)
        extended.append(Claim(claim.node, claim.path, ops))
    return extended


def _best(
    flow: Flow, candidates: Sequence[str], given: frozenset[str], claimed: set[int]
) -> tuple[frozenset[int], str | None]:
    """Of the values a leaf may have made, take the first whose operations are free and bordered by its inputs."""
    made = [value for value in candidates if value in flow.makers]
    bordered = [flow.between(value, given, is_closed=True) for value in made]
    reached = [each for each in bordered if each[1] is None] or [
        flow.between(value, given) for value in made
    ]
    if not reached:
        return frozenset(), None

    def rank(place: int) -> tuple[bool, int, bool, int]:
        work = reached[place][0] & flow.work
        return not work, len(work & claimed), work not in flow.kernels, place

    return reached[min(range(len(reached)), key=rank)]


def _foreign(border: Border, name: str) -> Violation:
    said = f"input {name} of {border.node.id} at {border.path} holds numbers that the original never has"
    return found("COVER-input", border.node.file, said, node=border.node.id, tensor=name)


def _leaking(flow: Flow, border: Border, leak: str) -> Violation:
    name = flow.trace.values[leak].name if leak in flow.trace.values else leak
    said = f"{border.node.id} at {border.path} makes what the original makes from {name}, without being given it"
    return found("COVER-input", border.node.file, said, node=border.node.id, tensor=name)


def named_claims(layout: DecompositionFolder) -> list[Claim]:
    """Take the operations that the tree names for each instance of a leaf."""
    return [
        Claim(node, each.path, frozenset(each.operations or ()))
        for node in layout.tree.nodes
        if node.is_leaf
        for each in node.instances
    ]


def coverage(
    flow: Flow, claims: Sequence[Claim], root: TreeNode
) -> tuple[Coverage, list[Violation]]:
    """Count where each operation is; what is missing or repeated is a finding."""
    by_op: dict[int, list[Claim]] = defaultdict(list)
    for claim in claims:
        for op in claim.ops & flow.work:
            by_op[op].append(claim)
    missing = sorted(flow.work - by_op.keys())
    repeated = {op: who for op, who in sorted(by_op.items()) if len(who) > 1}
    trace = flow.trace
    counted = Coverage(
        operations=len(trace.ops) + len(trace.dropped),
        in_leaves=len(by_op),
        plumbing=len(trace.ops) - len(flow.work),
        dropped=len(trace.dropped),
        missing=tuple(describe(trace.op(op)) for op in missing),
        repeated=tuple(describe(trace.op(op)) for op in repeated),
    )
    return counted, [*_missing(trace, missing, root), *_repeated(trace, repeated)]


def _missing(trace: OpTrace, missing: Sequence[int], root: TreeNode) -> Iterator[Violation]:
    for op in missing[:_MOST_NAMED]:
        said = f"no kernel computes {describe(trace.op(op))}"
        yield found("COVER-missing", root.file, said, node=root.id)
    if len(missing) > _MOST_NAMED:
        said = f"{len(missing) - _MOST_NAMED} further operations are in no kernel"
        yield found("COVER-missing", root.file, said, node=root.id)


def _repeated(trace: OpTrace, repeated: Mapping[int, Sequence[Claim]]) -> Iterator[Violation]:
    for op, claims in list(repeated.items())[:_MOST_NAMED]:
        paths = ", ".join(claim.path for claim in claims)
        said = f"{describe(trace.op(op))} is computed by {paths}"
        yield found("COVER-twice", claims[-1].node.file, said, node=claims[-1].node.id)


def kernels_in(flow: Flow, tree: Node, claims: Iterable[Claim]) -> Iterator[Violation]:
    """Find leaves that stand for operations of more than one kernel; those that say why they are opaque may."""
    owner = {op: node.id for node in tree.walk() if node.is_leaf for op in node.ops}
    seen: set[str] = set()
    for claim in claims:
        owners = {owner.get(op, f"operation {op}") for op in claim.ops}
        if len(owners) > 1 and claim.node.id not in seen:
            seen.add(claim.node.id)
            known = sorted(op for op in claim.ops if op in flow.ops)
            ops = "; ".join(describe(flow.trace.op(op)) for op in known[:_MOST_NAMED])
            kept = (
                claim.node.opaque if claim.ops != flow.work else None
            )  # the whole is no piece of itself
            why = f", kept whole: {kept}" if kept else f": {ops}"
            said = f"{claim.node.id} is {len(owners)} kernels of the original{why}"
            rank: Severity = "warning" if kept else "error"
            yield found("GRAPH-kernel", claim.node.file, said, severity=rank, node=claim.node.id)


def describe(op: Op) -> str:
    """Name an operation and its place."""
    module = next((each.path for each in reversed(op.scope) if each.kind == "module"), "")
    place = " ".join(part for part in (f"in {module}" if module else "", op.source) if part)
    return f"{op.fn.removeprefix('torch.')} ({place})" if place else op.fn
