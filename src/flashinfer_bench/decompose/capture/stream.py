"""Whether two runs did the same operations in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import Op, OpTrace


def same_stream(one: OpTrace, other: OpTrace, *, numbers: bool = False) -> str | None:
    """Say where two traces part; none if operations, what they read and what they make agree.

    Sizes and other integers may differ unless `numbers` asks for them too.
    """
    if one.inputs != other.inputs or one.outputs != other.outputs:
        return "inputs or outputs differ"
    for left, right in zip(one.ops, other.ops, strict=False):
        fault = _difference(left, right, numbers=numbers)
        if fault:
            return f"operation {left.id} ({left.fn}, {left.source}): {fault}"
    if len(one.ops) != len(other.ops):
        return f"{len(one.ops)} operations against {len(other.ops)}"
    return None


def _difference(left: Op, right: Op, *, numbers: bool) -> str | None:
    if (left.id, left.fn) != (right.id, right.fn):
        return f"the other is {right.id} ({right.fn})"
    if (left.ins, left.outs) != (right.ins, right.outs):
        return f"reads {left.ins} and makes {left.outs}, the other {right.ins} and {right.outs}"
    mine, theirs = ((op.args, dict(op.kwargs)) for op in (left, right))
    if not numbers:
        mine, theirs = _without_integers(mine), _without_integers(theirs)
    return None if mine == theirs else f"its arguments are {mine}, the other's {theirs}"


def _without_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_integers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_without_integers(each) for each in value)
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value
