"""Outputs that are one number whatever goes in: `relu(min(x, 0))`, softmax over a dimension of length one.

Found by bounding each value from the operations that made it. A test must not ask such an output to vary.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from flashinfer_bench.decompose.classes import TABLE, argument, key
from flashinfer_bench.decompose.ir import Op, OpTrace, Ref

if TYPE_CHECKING:
    from collections.abc import Sequence


class Range(NamedTuple):
    """Bounds of all elements of a value."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def is_point(self) -> bool:
        """Whether all elements are one number."""
        return self.low == self.high


ANY = Range()
_ZERO_TO_ZERO = frozenset({
    "relu", "gelu", "silu", "tanh", "mish", "leaky_relu", "elu", "selu", "sin", "neg", "abs", "sqrt", "square",
    "hardswish", "softsign", "hardtanh", "relu6", "celu", "erf", "sign", "sum", "mean", "amax", "amin", "cumsum",
})  # fmt: skip
"""Operations that make zeros of zeros."""
_FACTORIES = {
    "zeros": 0.0,
    "zeros_like": 0.0,
    "new_zeros": 0.0,
    "ones": 1.0,
    "ones_like": 1.0,
    "new_ones": 1.0,
}


def constant_outputs(trace: OpTrace, ops: Sequence[Op], outputs: Sequence[str]) -> list[int]:
    """Say which outputs of a sequence of operations are one number whatever goes in."""
    ranges: dict[str, Range] = {}
    for op in ops:
        ranges.update(dict.fromkeys(op.outs, _range(trace, op, ranges)))
    return [at for at, value in enumerate(outputs) if ranges.get(value, ANY).is_point]


def _range(trace: OpTrace, op: Op, ranges: dict[str, Range]) -> Range:
    name = key(op.fn)
    if name in _FACTORIES:
        return Range(_FACTORIES[name], _FACTORIES[name])
    if op.fn.endswith("_") or TABLE.get(name) == "RNG":
        return ANY
    first = _of(argument(op, 0, "input"), ranges)
    second = _of(argument(op, 1, "other"), ranges)
    if TABLE.get(name) in ("VIEW", "CAST"):
        return first
    if first == Range(0, 0) and name in _ZERO_TO_ZERO:
        return first
    return _arithmetic(name, first, second, op) or _along_one(trace, name, op) or ANY


def _of(given: Any, ranges: dict[str, Range]) -> Range:
    if isinstance(given, Ref):
        return ranges.get(given.id, ANY)
    if isinstance(given, int | float):
        return Range(given, given)
    return ANY


def _arithmetic(name: str, first: Range, second: Range, op: Op) -> Range | None:
    match name:
        case "mul" if Range(0, 0) in (first, second):
            return Range(0, 0)
        case "relu":
            return Range(max(first.low, 0), max(first.high, 0))
        case "clamp" | "hardtanh" | "clamp_min" | "clamp_max":
            return _clamped(name, first, op)
        case "minimum" | "min" if len(op.ins) > 1 or len(op.args) > 1:
            return Range(min(first.low, second.low), min(first.high, second.high))
        case "maximum" | "max" if len(op.ins) > 1 or len(op.args) > 1:
            return Range(max(first.low, second.low), max(first.high, second.high))
        case "sigmoid" | "softmax":
            return Range(0, 1) if not first.is_point else None
        case _:
            return None


def _clamped(name: str, first: Range, op: Op) -> Range:
    only = argument(op, 1, "min" if name == "clamp_min" else "max")
    low = argument(
        op, 1, "min_val" if name == "hardtanh" else "min", -1.0 if name == "hardtanh" else None
    )
    high = argument(
        op, 2, "max_val" if name == "hardtanh" else "max", 1.0 if name == "hardtanh" else None
    )
    if name in ("clamp_min", "clamp_max"):
        low, high = (only, None) if name == "clamp_min" else (None, only)
    bottom = low if isinstance(low, int | float) else -math.inf
    top = high if isinstance(high, int | float) else math.inf
    return Range(min(max(first.low, bottom), top), min(max(first.high, bottom), top))


def _along_one(trace: OpTrace, name: str, op: Op) -> Range | None:
    """Normalising over a dimension of length one leaves nothing to vary."""
    given, dim = argument(op, 0, "input"), argument(op, 1, "dim")
    if not (isinstance(given, Ref) and isinstance(dim, int)):
        return _minus_own_mean(trace, name, op)
    shape = trace.values[given.id].shape
    if name in ("softmax", "log_softmax") and shape and shape[dim] == 1:
        value = 1.0 if name == "softmax" else 0.0
        return Range(value, value)
    return None


def _minus_own_mean(trace: OpTrace, name: str, op: Op) -> Range | None:
    first, second = argument(op, 0, "input"), argument(op, 1, "other")
    if name != "sub" or not (isinstance(first, Ref) and isinstance(second, Ref)):
        return None
    maker = trace.maker(second.id)
    if maker is None:
        return None
    mean = trace.op(maker)
    of = argument(mean, 0, "input")
    is_own = isinstance(of, Ref) and of.id == first.id and key(mean.fn) in ("mean", "amax", "amin")
    is_same = trace.values[second.id].shape == trace.values[first.id].shape
    return Range(0, 0) if is_own and is_same else None
