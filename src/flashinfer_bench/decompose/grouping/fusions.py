"""Fusions: chains of kernels that could be one launch, and the core of attention."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import Class, key
from flashinfer_bench.decompose.grouping.facts import Facts, common
from flashinfer_bench.decompose.grouping.naming import joined
from flashinfer_bench.decompose.grouping.parts import TracePart
from flashinfer_bench.decompose.published import ADD_NORM, RMS_NORM, is_sum_of_two

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from flashinfer_bench.decompose.grouping.overrides import Overrides

LINKS: frozenset[Class] = frozenset({"EW", "CAST", "NORM", "RED", "POOL", "RNG"})
"""What may continue a chain; dropout, the random operation that keeps the shape, among them."""
PRODUCTS = frozenset({"matmul", "bmm", "mm", "einsum", "baddbmm"})
GATES = frozenset({"relu", "sigmoid", "silu", "elu", "exp"})
"""What turns scores into weights where no softmax does; then a scale or mask must be there too."""
SCALES = frozenset({"mul", "div", "masked_fill", "where"})


@dataclass(frozen=True)
class ResultUsers:
    """Who uses the results of which kernel."""

    facts: Facts
    parts: tuple[TracePart, ...]

    @cached_property
    def owner(self) -> Mapping[int, TracePart]:
        """The kernel of each operation."""
        return {op: part for part in self.parts for op in part.ops}

    def consumers(self, part: TracePart) -> Mapping[TracePart | None, str]:
        """The kernels that use a kernel's results, and the value each reads; none stands for the model's caller."""
        found: dict[TracePart | None, str] = {}
        waiting = list(part.ops)
        while waiting:
            op = waiting.pop()
            if self.facts.is_output(op):
                found[None] = self.facts.trace.op(op).outs[0]
            for out in self.facts.trace.op(op).outs:
                for reader in self.facts.trace.readers(out):
                    consumer = self.owner.get(reader)
                    if consumer is None:
                        waiting.append(reader)
                    elif consumer is not part:
                        found[consumer] = out
        return found

    def only_consumer(self, part: TracePart) -> tuple[TracePart, str] | None:
        """The one kernel that uses a kernel's result, and the value it reads; none if several do or nothing."""
        found = self.consumers(part)
        ((consumer, value),) = found.items() if len(found) == 1 else ((None, ""),)
        return None if consumer is None else (consumer, value)

    def origin(self, value: str) -> TracePart | None:
        """The kernel a value comes from, through views; none for inputs and weights."""
        maker = self.facts.trace.maker(value)
        while maker is not None and maker not in self.owner:
            ins = self.facts.trace.op(maker).ins
            maker = self.facts.trace.maker(ins[0]) if ins else None
        return None if maker is None else self.owner[maker]

    def reads(self, part: TracePart) -> Iterator[str]:
        """Values a kernel reads from outside."""
        own = set(part.ops)
        for op in part.ops:
            for value in self.facts.trace.op(op).ins:
                if self.facts.trace.maker(value) not in own:
                    yield value


def chained(
    flow: ResultUsers, units: Sequence[TracePart], overrides: Overrides
) -> tuple[TracePart, ...]:
    """Put the kernels among some parts together that make chains; the rest stay as they are."""
    free = {unit: None for unit in units if unit.is_leaf and unit.cls != "OPAQUE"}
    fused: list[TracePart] = []
    if overrides.is_on("attention"):
        for unit in units:
            core = _attention(flow, unit, free, overrides.limit("attention", "max_kernels"))
            if core:
                fused.append(_fusion(core, "attention", _attention_reason(core)))
                _remove(free, core)
    if overrides.is_on("add_norm"):
        for unit in units:
            pair = _add_norm(flow, unit, free)
            if pair:
                reason = "residual addition and the norm of its sum"
                fused.append(_fusion(pair, ADD_NORM, reason, tags=(ADD_NORM,)))
                _remove(free, pair)
    if overrides.is_on("chains"):
        for unit in units:
            chain = _chain(flow, unit, free, overrides.limit("chains", "max_kernels"))
            if len(chain) > 1:
                words = " → ".join(part.name for part in chain)
                fused.append(_fusion(chain, joined(part.name for part in chain), f"chain: {words}"))
                _remove(free, chain)
    inside = {leaf for part in fused for leaf in part.children}
    return tuple(unit for unit in (*units, *fused) if unit not in inside)


def _remove(free: dict[TracePart, None], parts: Iterable[TracePart]) -> None:
    for part in parts:
        del free[part]


def _fusion(
    parts: Sequence[TracePart], name: str, reason: str, tags: tuple[str, ...] = ()
) -> TracePart:
    home = common(part.home for part in parts)
    return TracePart(
        level="fusion", name=name, reason=reason, children=tuple(parts), home=home, tags=tags
    )


def _add_norm(
    flow: ResultUsers, norm: TracePart, free: Mapping[TracePart, None]
) -> list[TracePart]:
    """Find the addition whose sum an RMSNorm takes, if both the sum and the norm are used further on."""
    is_norm = norm.name == RMS_NORM or f"idiom:{RMS_NORM}" in norm.tags
    read = {value for value in flow.reads(norm) if value in flow.facts.active}
    if norm not in free or not is_norm or len(read) != 1:
        return []
    (total,) = read
    maker = flow.facts.trace.maker(total)
    add = None if maker is None else flow.owner.get(maker)
    if add is None or add not in free or len(add.ops) != 1:
        return []
    op = flow.facts.trace.op(add.ops[0])
    is_residual = is_sum_of_two(flow.facts.trace, op) and len(flow.consumers(add)) > 1
    pair = [add, norm]
    return pair if is_residual and _is_closed(flow, pair) else []


def _chain(
    flow: ResultUsers, start: TracePart, free: Mapping[TracePart, None], limit: int
) -> list[TracePart]:
    """Extend from a kernel while its result has one user that may be in the same launch."""
    if start not in free:
        return []
    chain = [start]
    while len(chain) < limit:
        found = flow.only_consumer(chain[-1])
        if found is None or found[0] not in free or not _may_follow(flow, chain, *found):
            break
        chain.append(found[0])
    return chain


def _may_follow(
    flow: ResultUsers, chain: list[TracePart], following: TracePart, running: str
) -> bool:
    if following.cls not in LINKS or following in chain:
        return False
    if chain[-1].cls in ("POOL", "RED") and following.cls != "EW":
        return False
    return following.cls != "EW" or not _is_residual(flow, chain, following, running)


def _is_residual(
    flow: ResultUsers, chain: list[TracePart], following: TracePart, running: str
) -> bool:
    """Whether a kernel brings in another activation of the running value's shape."""
    values = flow.facts.trace.values
    return any(
        value in flow.facts.active
        and values[value].shape == values[running].shape
        and flow.origin(value) not in chain
        for value in flow.reads(following)
    )


# -- attention ---------------------------------------------------------------------------------------------------


def _attention(
    flow: ResultUsers, start: TracePart, free: Mapping[TracePart, None], limit: int
) -> list[TracePart]:
    """Product of two activations, scale and mask, softmax, product with a third activation."""
    if start not in free or not _is_product(flow, start):
        return []
    core = [start]
    while len(core) < limit:
        following = _towards_product(flow, core)
        if following is None or following not in free or following in core:
            return []
        core.append(following)
        if _is_product(flow, following):
            return core if _is_weighting(flow, core[1:-1]) and _is_closed(flow, core) else []
        if following.cls not in LINKS and not _joins_sink(flow, following):
            return []
    return []


def _towards_product(flow: ResultUsers, core: list[TracePart]) -> TracePart | None:
    """The kernel after a core's last: its one user, or the product if weights are also returned or averaged."""
    found = flow.only_consumer(core[-1])
    if found is not None:
        return found[0]
    users = flow.consumers(core[-1]) if _is_weighting(flow, core[1:]) else {}
    products = [user for user in users if user is not None and _is_product(flow, user)]
    return products[0] if len(products) == 1 else None


def _is_closed(flow: ResultUsers, core: list[TracePart]) -> bool:
    """Whether no other kernel lies on a way from one of these to another."""
    own = set(core)
    between = flow.facts.between(op for part in core for op in part.ops)
    return all(flow.owner.get(op) in {None, *own} for op in between)


def _is_product(flow: ResultUsers, part: TracePart) -> bool:
    """Whether a kernel multiplies two activations."""
    operation = flow.facts.trace.op(part.ops[-1])
    if part.cls != "HEAVY" or key(operation.fn) not in PRODUCTS:
        return False
    return sum(value in flow.facts.active for value in flow.reads(part)) > 1


def _is_weighting(flow: ResultUsers, between: list[TracePart]) -> bool:
    """Whether what lies between two products makes weights of scores."""
    names = [{key(flow.facts.trace.op(op).fn) for op in part.ops} for part in between]
    if any("softmax" in each for each in names):
        return True
    single = [name for each in names if len(each) == 1 for name in each]
    return not GATES.isdisjoint(single) and not SCALES.isdisjoint(single)


def _joins_sink(flow: ResultUsers, part: TracePart) -> bool:
    """Whether a kernel only puts learned sinks beside the scores."""
    return [key(flow.facts.trace.op(op).fn) for op in part.ops] == ["cat"] and any(
        value not in flow.facts.active for value in flow.reads(part)
    )


def _attention_reason(core: list[TracePart]) -> str:
    return "attention core: " + " → ".join(part.name for part in core)
