"""Idioms that are no formula: cumulative sums from the other end or without the last, masked products, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import Class, key
from flashinfer_bench.decompose.published import SILU_AND_MUL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.decompose.grouping.facts import Facts
    from flashinfer_bench.decompose.ir import Op

Found = tuple[str, frozenset[int], Class]
_MASKS = frozenset({"tril", "triu", "diag", "diag_embed"})
_PRODUCTS = frozenset({"matmul", "mm", "bmm"})
_SHIFTS = frozenset({"cat", "pad", "roll", "constant_pad_nd"})


def shifted(facts: Facts, last: Op) -> Iterator[Found]:
    """Find such an idiom that ends in an operation."""
    match key(last.fn):
        case "flip":
            yield from _reverse(facts, last)
        case "cumsum":
            yield from _exclusive(facts, last)
        case "sub":
            yield from _without_own(facts, last)
        case "mul":
            yield from _gated(facts, last)
        case "tril" | "triu" | "matmul" | "mm" | "bmm":
            yield from _masked(facts, last)
        case _:
            return


def _reverse(facts: Facts, last: Op) -> Iterator[Found]:
    """`flip(cumsum(flip(x)))`."""
    middle = _made(facts, last, 0)
    first = _made(facts, middle, 0)
    if middle and first and key(middle.fn) == "cumsum" and key(first.fn) == "flip":
        yield "reverse_cumsum", frozenset({first.id, middle.id, last.id}), "RED"


def _exclusive(facts: Facts, last: Op) -> Iterator[Found]:
    """`cumsum(cat(0, x without its last))`; the slice may come before or after."""
    behind = _through_views(facts, _made(facts, last, 0))
    if behind and key(behind[-1].fn) in _SHIFTS and _starts_with_zeros(facts, behind[-1]):
        yield "exclusive_cumsum", frozenset({last.id, *(op.id for op in behind)}), "RED"


def _starts_with_zeros(facts: Facts, op: Op) -> bool:
    """Whether a factory's zeros come first, or padding does."""
    if key(op.fn) != "cat":
        return key(op.fn) in ("pad", "constant_pad_nd")
    maker = facts.trace.maker(op.ins[0]) if op.ins else None
    return maker in facts.prologue


def _without_own(facts: Facts, last: Op) -> Iterator[Found]:
    """`cumsum(x) - x`."""
    total = _made(facts, last, 0)
    if total and key(total.fn) == "cumsum" and total.ins[0] in last.ins:
        yield "exclusive_cumsum", frozenset({total.id, last.id}), "RED"


def _masked(facts: Facts, last: Op) -> Iterator[Found]:
    """A matrix product of which factors or the result are masked."""
    outer = [last] if key(last.fn) in _MASKS else []
    product = _made(facts, last, 0) if outer else last
    if product is None or key(product.fn) not in _PRODUCTS:
        return
    made = [_made(facts, product, place) for place in range(len(product.ins))]
    masks = [
        op for op in made if op and key(op.fn) in _MASKS and op.id not in facts.data_movement
    ] + outer
    if masks:
        kind = key(masks[-1].fn).removesuffix("_embed")
        yield f"{kind}_matmul", frozenset({product.id, *(op.id for op in masks)}), "HEAVY"


def _gated(facts: Facts, last: Op) -> Iterator[Found]:
    """`silu(gate) * up`, with the cut of one product into both if nothing else reads it."""
    if len(last.ins) != len(("gate", "up")):
        return
    for place, up in enumerate(reversed(last.ins)):
        gate = _made(facts, last, place)
        if gate is None or key(gate.fn) != "silu" or up not in facts.active:
            continue
        values = facts.trace.values
        if values[up].shape != values[gate.outs[0]].shape:
            continue
        yield SILU_AND_MUL, frozenset({gate.id, last.id}), "EW"
        cut = facts.trace.maker(up)
        if cut is not None and cut == facts.trace.maker(gate.ins[0]) and _halves(facts, cut):
            yield SILU_AND_MUL, frozenset({cut, gate.id, last.id}), "EW"


def _halves(facts: Facts, op: int) -> bool:
    """Whether an operation cuts a value into two."""
    cut = facts.trace.op(op)
    return key(cut.fn) in ("chunk", "split") and len(cut.outs) == len(("gate", "up"))


def _made(facts: Facts, op: Op | None, place: int) -> Op | None:
    """What made an operation's input."""
    if op is None or len(op.ins) <= place:
        return None
    maker = facts.trace.maker(op.ins[place])
    return None if maker is None else facts.trace.op(maker)


def _through_views(facts: Facts, op: Op | None) -> list[Op]:
    """An operation, or views down to the first that is none."""
    found = []
    while op is not None:
        found.append(op)
        if facts.classes[op.id] != "VIEW":
            return found
        op = _made(facts, op, 0)
    return []
