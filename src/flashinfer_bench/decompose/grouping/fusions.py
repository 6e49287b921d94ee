"""Fusions: chains of kernels that could be one launch, the core of attention, and what stands before it."""

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
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from flashinfer_bench.decompose.grouping.facts import Frame
    from flashinfer_bench.decompose.grouping.overrides import Overrides

LINKS: frozenset[Class] = frozenset({"EW", "CAST", "NORM", "RED", "POOL", "RNG"})
"""What may continue a chain; dropout, the random operation that keeps the shape, among them."""
PRODUCTS = frozenset({"matmul", "bmm", "mm", "einsum", "baddbmm"})
GATES = frozenset({"relu", "sigmoid", "silu", "elu", "exp"})
"""What turns scores into weights where no softmax does; then a scale or mask must be there too."""
SCALES = frozenset({"mul", "div", "masked_fill", "where"})
QKV_ROPE, QKV_ROPE_CACHE = "qkv_rope", "qkv_rope_cache"
_ROTATIONS = ("apply_rotary", "apply_multimodal_rotary", "rotary_pos")
_PROJECTIONS = frozenset({"linear", "addmm", "matmul", "mm"})
_CACHE_UPDATE = "cache_update"
_LIGHT: frozenset[Class] = frozenset({"MOVE", "EW", "CAST"})
"""What may lie between projections, rotation and cache, as what joins the rotated half and the other."""


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
    for rule, find in _FUSIONS.items():
        for unit in units if overrides.is_on(rule) else ():
            found = find(flow, unit, free, overrides)
            if found is not None:
                fused.append(found)
                for part in found.children:
                    del free[part]
    inside = {leaf for part in fused for leaf in part.children}
    return tuple(unit for unit in (*units, *fused) if unit not in inside)


def _fusion(
    parts: Sequence[TracePart], name: str, reason: str, tags: tuple[str, ...] = ()
) -> TracePart:
    home = common(part.home for part in parts)
    return TracePart(
        level="fusion", name=name, reason=reason, children=tuple(parts), home=home, tags=tags
    )


def _add_norm(
    flow: ResultUsers, norm: TracePart, free: Mapping[TracePart, None], _: Overrides
) -> TracePart | None:
    """Find the addition whose sum an RMSNorm takes, if both the sum and the norm are used further on."""
    is_norm = norm.name == RMS_NORM or f"idiom:{RMS_NORM}" in norm.tags
    read = {value for value in flow.reads(norm) if value in flow.facts.active}
    if norm not in free or not is_norm or len(read) != 1:
        return None
    (total,) = read
    maker = flow.facts.trace.maker(total)
    add = None if maker is None else flow.owner.get(maker)
    if add is None or add not in free or len(add.ops) != 1:
        return None
    op = flow.facts.trace.op(add.ops[0])
    is_residual = is_sum_of_two(flow.facts.trace, op) and len(flow.consumers(add)) > 1
    pair = [add, norm]
    if not is_residual or not _is_closed(flow, pair):
        return None
    return _fusion(pair, ADD_NORM, "residual addition and the norm of its sum", tags=(ADD_NORM,))


def _chain(
    flow: ResultUsers, start: TracePart, free: Mapping[TracePart, None], overrides: Overrides
) -> TracePart | None:
    """Extend from a kernel while its result has one user that may be in the same launch."""
    if start not in free:
        return None
    limit = overrides.limit("chains", "max_kernels")
    chain = [start]
    while len(chain) < limit:
        found = flow.only_consumer(chain[-1])
        if found is None or found[0] not in free or not _may_follow(flow, chain, *found):
            break
        chain.append(found[0])
    words = " → ".join(part.name for part in chain)
    name = joined(part.name for part in chain)
    return _fusion(chain, name, f"chain: {words}") if len(chain) > 1 else None


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


# -- projections, rotation, cache ---------------------------------------------------------------------------------


def _qkv_rope(
    flow: ResultUsers, rotation: TracePart, free: Mapping[TracePart, None], _: Overrides
) -> TracePart | None:
    """Projections of one input to queries, keys and values, their rotation, and what keeps them in a cache."""
    if rotation not in free or not _is_rotation(rotation):
        return None
    attention = _innermost_module(rotation.home)
    projections = _rotated_projections(flow, rotation, free)[1]
    given = {
        value for part in projections for value in flow.reads(part) if value in flow.facts.active
    }
    if not projections or not attention or len(given) != 1:
        return None
    projections += [
        part
        for part in free
        if part not in projections
        and _is_projection(flow, part)
        and part.home[: len(attention)] == attention
        and given <= set(flow.reads(part))
        and _is_attended(flow, part)
    ]
    if len(projections) < 2:  # noqa: PLR2004  # a packed one is there twice: for queries and for keys
        return None
    made = dict.fromkeys(projections)
    normed: dict[TracePart, None] = {}
    for part in filter(_is_rotation, free):
        norms, rotated = _rotated_projections(flow, part, free)
        is_here = _innermost_module(part.home) == attention
        if rotated and is_here and set(rotated) <= set(projections):
            made[part] = None
            normed |= dict.fromkeys(norms)
    caches = {
        user: None
        for part in made
        for user in flow.consumers(part)
        if user is not None and user in free and _is_of_cache(user)
    }
    core = made | normed
    group = _with_between(flow, core | caches, free) or _with_between(flow, core, free)
    name = QKV_ROPE_CACHE if any(_is_of_cache(part) for part in group) else QKV_ROPE
    words = " → ".join(dict.fromkeys(part.name for part in group))
    return _fusion(group, name, f"projections of one input, rotated: {words}") if group else None


def _with_between(
    flow: ResultUsers, parts: Collection[TracePart], free: Mapping[TracePart, None]
) -> list[TracePart]:
    """Add to kernels the light ones that lie on a way from one to another; nothing where another lies there."""
    between = flow.facts.between(op for part in parts for op in part.ops)
    owners = {flow.owner[op] for op in between if op in flow.owner}
    is_light = all(part in parts or (part in free and part.cls in _LIGHT) for part in owners)
    return sorted(owners, key=TracePart.last) if is_light else []


def _rotated_projections(
    flow: ResultUsers, rotation: TracePart, free: Mapping[TracePart, None]
) -> tuple[list[TracePart], list[TracePart]]:
    """Find what makes the values that are rotated: norms of heads, and projections."""
    norms, projections = [], []
    for value in flow.reads(rotation):
        maker = flow.origin(value) if value in flow.facts.active else None
        if maker is not None and maker.cls == "NORM" and maker in free:
            before = {flow.origin(each) for each in flow.reads(maker) if each in flow.facts.active}
            first = before.pop() if len(before) == 1 else None
            if first is not None and _is_projection(flow, first):
                norms.append(maker)
                maker = first
        if maker is not None and maker in free and _is_projection(flow, maker):
            projections.append(maker)
    return norms, projections


def _is_rotation(part: TracePart) -> bool:
    return part.name == "rope" or part.name.startswith(_ROTATIONS)


def _is_projection(flow: ResultUsers, part: TracePart) -> bool:
    """Whether a kernel multiplies an activation by a weight."""
    return part.cls == "HEAVY" and key(flow.facts.trace.op(part.ops[-1]).fn) in _PROJECTIONS


def _is_attended(flow: ResultUsers, projection: TracePart) -> bool:
    """Whether what uses a projection, apart from moves, is a rotation, the cache or a product of activations."""
    waiting: list[TracePart | None] = list(flow.consumers(projection))
    is_used = bool(waiting)
    while waiting:
        user = waiting.pop()
        if user is None or _is_projection_of(flow, user):
            return False
        if user.cls == "MOVE" and not _is_of_cache(user):
            waiting += flow.consumers(user)
        elif user.cls != "HEAVY" and not _is_of_cache(user) and not _is_rotation(user):
            return False
    return is_used


def _is_projection_of(flow: ResultUsers, part: TracePart) -> bool:
    """Whether a kernel multiplies by a weight."""
    given = list(flow.reads(part))
    return part.cls == "HEAVY" and sum(value in flow.facts.active for value in given) == 1


def _is_of_cache(part: TracePart) -> bool:
    return part.name == _CACHE_UPDATE


def _innermost_module(frame: Frame) -> Frame:
    """The part of a frame that ends with a module."""
    for length in range(len(frame), 0, -1):
        if frame[length - 1].kind == "module":
            return frame[:length]
    return ()


# -- attention ---------------------------------------------------------------------------------------------------


def _attention(
    flow: ResultUsers, start: TracePart, free: Mapping[TracePart, None], overrides: Overrides
) -> TracePart | None:
    """Product of two activations, scale and mask, softmax, product with a third activation."""
    core = _attention_core(flow, start, free, overrides.limit("attention", "max_kernels"))
    return _fusion(core, "attention", _attention_reason(core)) if core else None


def _attention_core(
    flow: ResultUsers, start: TracePart, free: Mapping[TracePart, None], limit: int
) -> list[TracePart]:
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


_FUSIONS: Mapping[
    str, Callable[[ResultUsers, TracePart, Mapping[TracePart, None], Overrides], TracePart | None]
] = {"attention": _attention, "add_norm": _add_norm, "qkv_rope": _qkv_rope, "chains": _chain}
"""By rule, in the order in which they are tried: what finds the fusion that a kernel begins, or ends."""
