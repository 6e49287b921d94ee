"""What an input must be so that an operation further on is defined: `sqrt(1 - exp(2 * x))` wants negative numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.distributions import Uniform
from flashinfer_bench.decompose.classes import TABLE, argument, key
from flashinfer_bench.decompose.ir import Ref

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from flashinfer_bench.data.distributions import Distribution
    from flashinfer_bench.decompose.ir import Op, OpTrace

    Domain = Callable[[Op, str], Distribution | None]

_FARTHEST = 5
"""Operations between an input and the one that is not defined everywhere."""
_TINY = 0.05
"""A number above zero, for what must not reach it."""
_PRODUCTS = frozenset({"matmul", "bmm", "mm"})


@dataclass(frozen=True)
class _Part:
    """The part of a model that an input is given to."""

    trace: OpTrace
    within: Collection[int]
    domain: Domain
    """What an operation itself is defined for."""

    def before(self, op: Op, value: str, left: int = _FARTHEST) -> tuple[float, float] | None:
        """Find the interval for an input of an operation from the one for its output."""
        if not left or len(op.outs) != 1:
            return None
        made = op.outs[0]
        for reader in self.trace.readers(made):
            if reader not in self.within:
                continue
            after = self.trace.op(reader)
            here = self.domain(after, made)
            if isinstance(here, Uniform):
                bounds: tuple[float, float] | None = (here.low, here.high)
            else:
                bounds = self.before(after, made, left - 1)
            if bounds is not None:
                return _preimage(self.trace, op, value, *bounds)
        return None


def wanted(
    trace: OpTrace, op: Op, value: str, within: Collection[int], domain: Domain
) -> Distribution | None:
    """Say how an input must be drawn for what is done with the result of an operation; none where anything will do."""
    found = _Part(trace, within, domain).before(op, value)
    return None if found is None else Uniform(low=_rounded(found[0]), high=_rounded(found[1]))


def _preimage(
    trace: OpTrace, op: Op, value: str, low: float, high: float
) -> tuple[float, float] | None:
    """Give numbers of which an operation makes numbers between these."""
    name = key(op.fn)
    if name in _PRODUCTS:
        return _factor(trace, op, low, high)
    if TABLE.get(name) in ("VIEW", "CAST"):
        return low, high
    if name == "exp" and high > 0:
        return math.log(max(low, high * _TINY)), math.log(high)
    if name == "neg":
        return -high, -low
    first, second = argument(op, 0, "input"), argument(op, 1, "other")
    is_first = isinstance(first, Ref) and first.id == value
    other: Any = second if is_first else first
    if "alpha" in op.kwargs or isinstance(other, bool) or not isinstance(other, int | float):
        return None
    is_reversed = not is_first or op.fn.rpartition(".")[2] in ("rsub", "__rsub__")
    match name:
        case "add":
            return low - other, high - other
        case "sub" | "rsub":
            return (other - high, other - low) if is_reversed else (low + other, high + other)
        case "mul" if other:
            return _ordered(low / other, high / other)
        case "div" | "true_divide" if other and is_first and "rtruediv" not in op.fn:
            return _ordered(low * other, high * other)
        case _:
            return None


def _factor(trace: OpTrace, op: Op, low: float, high: float) -> tuple[float, float] | None:
    """Give factors of which sums of products stay between these, where those lie about zero."""
    first = argument(op, 0, "input")
    if not (isinstance(first, Ref) and low < 0 < high and trace.values[first.id].shape):
        return None
    most = math.sqrt(min(-low, high) / trace.values[first.id].shape[-1])
    return -most, most


def _ordered(one: float, other: float) -> tuple[float, float]:
    return min(one, other), max(one, other)


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
