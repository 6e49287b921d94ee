"""What may stand in an input of a part: indices in range, masks that hide not everything, weights off their defaults.

Found by how the part uses the value, then by how the rest of the model does, then by what made it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.distributions import (
    Boolean,
    FloatForm,
    Integers,
    Normal,
    Probabilities,
    Uniform,
)
from flashinfer_bench.decompose.classes import TABLE, argument, key
from flashinfer_bench.decompose.emit.expert_loads import experts_of
from flashinfer_bench.decompose.emit.preimages import wanted
from flashinfer_bench.decompose.ir import Named, Op, OpTrace, Ref, Value, refs
from flashinfer_bench.decompose.own_values import is_float

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import torch

    from flashinfer_bench.data.distributions import Distribution
    from flashinfer_bench.decompose.own_values import OwnValues

_SOME_INTEGERS = 8
"""Integers whose use says nothing stay below this."""
_LOG_LIKE = frozenset({
    "log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma", "float_power", "xlogy",
})  # fmt: skip
_BETWEEN_ZERO_AND_ONE = frozenset({"logit", "bernoulli", "binary_cross_entropy"})
_BETWEEN_MINUS_ONE_AND_ONE = frozenset({"asin", "acos", "atanh", "erfinv", "log1p"})
_PRODUCTS = frozenset({"matmul", "bmm", "baddbmm", "_grouped_mm", "grouped_mm"})
"""Operations to which a weight of three dimensions is several matrices."""
_MATRIX = 2
_FILLS = frozenset(
    {"zeros", "zeros_like", "new_zeros", "full", "full_like", "new_full", "ones", "ones_like"}
)
_VAST, _MOST = 2.0**26, 2.0**50
"""Beside the first a number about one is lost; what is beyond the other is a mask's, or its square overflows."""
_DIVISIONS = frozenset({"div", "true_divide", "floor_divide", "remainder", "fmod"})


@dataclass(frozen=True)
class LegalInput:
    """What an input is made of."""

    distribution: Distribution
    first: bool | None = None
    """Value that the first element of each row of a mask must have."""
    count: int | None = None
    """How many elements of a mask are true or not zero, where a shape depends on it."""
    stored: torch.Tensor | None = field(default=None, compare=False)
    """The model's own numbers, where they are to be kept."""


def legal_input(
    trace: OpTrace, value: str, within: Collection[int], own: OwnValues | None = None
) -> LegalInput:
    """Say what an input of the part with these operations may be made of: drawn, or the model's own numbers."""
    chosen = _drawn(trace, value, within)
    numbers = own.of(value) if own is not None and chosen.count is None else None
    if numbers is None or numbers.numel() == 0:
        return chosen
    dtype = trace.values[value].dtype
    if dtype == "bool" or is_float(dtype):
        return chosen if _is_one_number(numbers) else replace(chosen, stored=numbers)
    is_any = _is_looked_up(trace, value, within) and experts_of(trace, value) is None
    return chosen if is_any else replace(chosen, stored=numbers)


def _is_one_number(numbers: torch.Tensor) -> bool:
    """Tell running statistics and masks that hide nothing: drawn numbers say more of a kernel."""
    return bool((numbers == numbers.reshape(-1)[0]).all())


_LOOKUPS = frozenset({
    "embedding", "embedding_bag", "getitem", "gather", "index_select", "take_along_dim", "take", "one_hot",
    "cross_entropy", "nll_loss",
})  # fmt: skip
"""Operations to which any integers below a bound are as good as others."""


def _is_looked_up(trace: OpTrace, value: str, within: Collection[int]) -> bool:
    """Tell whether a part does nothing with integers but look something up by them."""
    is_bound = False
    for op, name in _uses(trace, value, within):
        bounds = [*_bound(trace, op, name)]
        if not bounds and not _is_transparent(op, name):
            return False
        if bounds and key(op.fn) not in _LOOKUPS:
            return False
        is_bound = is_bound or bool(bounds)
    return is_bound


def _drawn(trace: OpTrace, value: str, within: Collection[int]) -> LegalInput:
    found = trace.values[value]
    if found.dtype == "bool":
        return _mask(trace, value, within)
    if not is_float(found.dtype):
        for op, name in _uses(trace, value, within):
            count = _selected(trace, op, name)
            if count is not None and trace.values[name].shape == found.shape:
                return LegalInput(Integers(high=2), count=count)
        return LegalInput(Integers(high=_integers_below(trace, value, within)))
    if found.kind in ("param", "buffer"):
        return LegalInput(_weight(trace, found, within))
    return LegalInput(_activation(trace, value, within))


# -- integers


def _integers_below(trace: OpTrace, value: str, within: Collection[int]) -> int:
    for chosen in (within, None):
        bounds = [*_bounds(trace, value, chosen)]
        if bounds:
            return max(1, min(bounds))
    return _made_below(trace, value) or _SOME_INTEGERS


def _bounds(trace: OpTrace, value: str, within: Collection[int] | None) -> Iterator[int]:
    """Find what the uses of integers, seen through views and casts, allow."""
    for op, name in _uses(trace, value, within):
        yield from _bound(trace, op, name)


def _uses(trace: OpTrace, value: str, within: Collection[int] | None) -> Iterator[tuple[Op, str]]:
    """Yield the operations that read a value, views and casts of it included."""
    waiting, seen = [value], {value}
    while waiting:
        name = waiting.pop(0)
        for number in trace.readers(name):
            if within is not None and number not in within:
                continue
            op = trace.op(number)
            yield op, name
            if _is_transparent(op, name):
                fresh = [out for out in op.outs if out not in seen]
                seen.update(fresh)
                waiting += fresh


_PASSING = frozenset({
    "getitem", "clone", "cat", "stack", "flip", "roll", "repeat", "clamp", "gather", "index_select", "take_along_dim",
})  # fmt: skip
"""Operations besides views that hand on the integers they are given."""


def _is_transparent(op: Op, value: str) -> bool:
    name = key(op.fn)
    is_source = bool(op.args) and value in refs(op.args[0])
    if name in _PASSING:
        return is_source
    return is_source and TABLE.get(name) in ("VIEW", "CAST")


def _bound(trace: OpTrace, op: Op, value: str) -> Iterator[int]:
    name = key(op.fn)
    shape = _shape(trace, argument(op, 0, "input"))
    match name:
        case "embedding" | "embedding_bag":
            if _is(argument(op, 0, "input"), value):
                yield _shape(trace, argument(op, 1, "weight"))[0]
        case "one_hot":
            classes = argument(op, 1, "num_classes", -1)
            if isinstance(classes, int) and classes > 0:
                yield classes
        case "cross_entropy" | "nll_loss" | "multi_margin_loss":
            if _is(argument(op, 1, "target"), value):
                yield shape[1] if len(shape) > 1 else shape[0]
        case "take" | "put":
            if _is(argument(op, 1, "index"), value):
                yield math.prod(shape)
        case "getitem" | "setitem":
            yield from _indexed(trace, shape, op.args[1], value)
        case "index_put":
            yield from _indexed(trace, shape, tuple(argument(op, 1, "indices")), value)
        case _:
            yield from _along_dim(op, shape, name, value)


def _along_dim(op: Op, shape: Sequence[int], name: str, value: str) -> Iterator[int]:
    places = {"take_along_dim": (2, 1)}
    at_dim, at_index = places.get(name, (1, 2))
    if not (name.startswith(("gather", "scatter", "index_")) or name in places):
        return
    given = argument(op, at_index, "index", argument(op, at_index, "indices"))
    dim = argument(op, at_dim, "dim")
    if _is(given, value) and isinstance(dim, int) and shape:
        yield shape[dim]


def _indexed(trace: OpTrace, shape: Sequence[int], given: Any, value: str) -> Iterator[int]:
    """Bounds of a value that stands among the indices in square brackets."""
    parts = given if isinstance(given, tuple) else (given,)
    taken = sum(_consumes(trace, part) for part in parts)
    at = 0
    for part in parts:
        if getattr(part, "kind", None) == "ellipsis":
            at += len(shape) - taken
            continue
        if _is(part, value) and at < len(shape):
            yield shape[at]
        at += _consumes(trace, part)


def _consumes(trace: OpTrace, part: Any) -> int:
    """How many dimensions an index takes."""
    if part is None or isinstance(part, bool) or getattr(part, "kind", None) == "ellipsis":
        return 0
    if isinstance(part, Ref) and trace.values[part.id].dtype == "bool":
        return len(trace.values[part.id].shape)
    return 1


def _made_below(trace: OpTrace, value: str) -> int | None:
    """Bound of integers by what made them: positions along a dimension, classes."""
    maker = trace.maker(value)
    if maker is None:
        return None
    op = trace.op(maker)
    shape = _shape(trace, argument(op, 0, "input"))
    match key(op.fn):
        case "argmax" | "argmin" | "argsort" | "topk" | "sort" | "max" | "min" | "multinomial":
            dim = argument(op, 1, "dim", -1)
            is_topk = key(op.fn) in ("topk", "multinomial")
            return shape[dim if isinstance(dim, int) and not is_topk else -1] if shape else None
        case "one_hot":
            return 2
        case _ if _is_transparent(op, next(iter(op.ins), "")):
            return _made_below(trace, op.ins[0])
        case _:
            return None


def _shape(trace: OpTrace, given: Any) -> tuple[int, ...]:
    return trace.values[given.id].shape if isinstance(given, Ref) else ()


def _is(given: Any, value: str) -> bool:
    return isinstance(given, Ref) and given.id == value


# -- booleans


def _mask(trace: OpTrace, value: str, within: Collection[int]) -> LegalInput:
    """Booleans; of a mask before a softmax every row keeps something."""
    for op, name in _uses(trace, value, within):
        count = _selected(trace, op, name)
        if count is None:
            count = _filled(trace, op, name, value)
        if count is not None:
            return LegalInput(Boolean(rate=0.5), count=count)
        match key(op.fn):
            case "masked_fill":
                return LegalInput(Boolean(rate=0.3), first=False)
            case "where" if _is(argument(op, 0, "condition"), name):
                hides = _is_fill(trace, argument(op, 1, "input"))
                return LegalInput(Boolean(rate=0.3 if hides else 0.7), first=not hides)
            case "scaled_dot_product_attention":
                return LegalInput(Boolean(rate=0.7), first=True)
            case _:
                continue
    return LegalInput(Boolean(rate=0.5))


def _is_fill(trace: OpTrace, given: Any) -> bool:
    """Tell a number, or a tensor that is filled with one."""
    maker = trace.maker(given.id) if isinstance(given, Ref) else None
    return isinstance(given, float) or (maker is not None and key(trace.op(maker).fn) in _FILLS)


def _selected(trace: OpTrace, op: Op, value: str) -> int | None:
    """How many elements an operation took by a mask, if it did."""
    if not picks_by_value(trace, op) or not op.outs:
        return None
    is_index = key(op.fn) in ("getitem", "masked_select") and not _is(op.args[0], value)
    whole = trace.values[value].shape == _shape(trace, op.args[0])
    if is_index or (key(op.fn) in ("where", "nonzero", "argwhere") and whole):
        return trace.values[op.outs[0]].shape[0]
    return None


def _filled(trace: OpTrace, op: Op, mask: str, value: str) -> int | None:
    """How many elements of a value an operation fills that reads it as this mask, where its source says it.

    The mask may be a view of the value that repeats each of its elements as often.
    """
    match key(op.fn):
        case "masked_scatter" if _is(argument(op, 1, "mask"), mask):
            filled = math.prod(_shape(trace, argument(op, 2, "source")))
            whole = math.prod(_shape(trace, argument(op, 0, "input")))
        case "setitem" if _is(argument(op, 1, "key"), mask):
            target, source = _shape(trace, op.args[0]), _shape(trace, argument(op, 2, "value"))
            whole = math.prod(trace.values[mask].shape)
            picked = len(target) - len(trace.values[mask].shape) + 1
            if len(source) != picked or source[0] == 1:  # spread over what is filled, however much
                return None
            filled = source[0]
        case _:
            return None
    elements = math.prod(trace.values[value].shape)
    return min(filled * elements // whole if elements < whole else filled, elements)


def picks_by_value(trace: OpTrace, op: Op) -> bool:
    """Tell whether the shape of what an operation makes depends on values."""
    match key(op.fn):
        case "nonzero" | "argwhere" | "masked_select" | "unique" | "unique_consecutive":
            return True
        case "where":
            return len(op.args) + len(op.kwargs) == 1
        case "getitem":
            return any(trace.values[each].dtype == "bool" for each in refs(op.args[1]))
        case _:
            return False


# -- floats


def _weight(trace: OpTrace, value: Value, within: Collection[int]) -> Distribution:
    for op, name in _uses(trace, value.id, within):
        if key(op.fn) in ("batch_norm", "instance_norm"):
            if _is(argument(op, 2, "running_var"), name):
                return Uniform(low=0.5, high=1.5)
            if _is(argument(op, 1, "running_mean"), name):
                return Normal(mean=0.0, std=0.2)
        if key(op.fn) == "embedding":
            return Normal(mean=0.0, std=1.0)
        if key(op.fn) in _PRODUCTS and len(value.shape) > _MATRIX:
            return _of_inputs(min(value.shape[-_MATRIX:]))
        domain = _domain(op, name)
        if domain is not None:
            return domain
    return _by_size(value)


def _of_inputs(count: float) -> Distribution:
    """Numbers with which a sum over so many inputs is about as large as one of them."""
    return Normal(mean=0.0, std=float(f"{max(count, 1) ** -0.5:.3g}"))


def _by_size(value: Value) -> Distribution:
    last = value.name.rpartition(".")[2]
    if last == "running_var":
        return Uniform(low=0.5, high=1.5)
    if last == "running_mean":
        return Normal(mean=0.0, std=0.2)
    if len(value.shape) > 1:
        inputs = math.prod(value.shape) / max(value.shape[0], 1)
        inputs = value.shape[-2] if value.shape[0] == 1 else inputs
        return _of_inputs(inputs)
    if last.startswith("bias") or value.name.endswith("_bias"):
        return Normal(mean=0.0, std=0.2)
    return Normal(mean=1.0, std=0.2)


def _activation(trace: OpTrace, value: str, within: Collection[int]) -> Distribution:
    uses = [*_uses(trace, value, within)]
    for op, name in uses:
        domain = _domain(op, name) or wanted(trace, op, name, within, _domain)
        if domain is not None:
            return domain
    bounds = [
        bound
        for op, name in uses
        if not is_float(trace.values[name].dtype) and trace.values[name].dtype != "bool"
        for bound in _bound(trace, op, name)
    ]
    if bounds:  # numbers of rows, cast to integers to be looked up
        return Uniform(low=0.0, high=float(max(1, min(bounds))))
    if len(uses) == 1:
        return _beside(uses[0][0]) or _made(trace, value) or Normal()
    return _made(trace, value) or Normal()


def _beside(op: Op) -> Distribution | None:
    """Numbers as large as the one that is added to them, such as one that stands for padding."""
    other = argument(op, 1, "other")
    if key(op.fn) not in ("add", "sub") or not isinstance(other, float | int):
        return None
    return Normal(mean=0.0, std=float(abs(other))) if _VAST <= abs(other) <= _MOST else None


def _domain(op: Op, value: str) -> Distribution | None:
    """What an operation is defined for, or stays finite on."""
    name = key(op.fn)
    first = argument(op, 0, "input")
    second = argument(op, 1, "other", argument(op, 1, "target"))
    is_first = _is(first, value)
    if name in _DIVISIONS and _is(first if "rtruediv" in op.fn else second, value):
        return Uniform(low=0.5, high=1.5)
    if name in ("binary_cross_entropy", "binary_cross_entropy_with_logits") and _is(second, value):
        return Uniform(low=0.0, high=1.0)
    if name == "kl_div" and _is(second, value):
        return Probabilities()
    if name == "pow" and is_first:
        whole = isinstance(second, int) or (isinstance(second, float) and second == int(second))
        return None if whole and second >= 0 else Uniform(low=0.5, high=1.5)
    if not is_first:
        return None
    if name == "to" and second == Named("dtype", "bool"):
        return FloatForm(form="zero_or_one")
    if name in _LOG_LIKE:
        return Uniform(low=0.5, high=1.5)
    if name in _BETWEEN_ZERO_AND_ONE:
        return Uniform(low=0.05, high=0.95)
    if name in _BETWEEN_MINUS_ONE_AND_ONE:
        return Uniform(low=-0.9, high=0.9)
    if name in ("cumprod", "prod"):
        return Uniform(low=0.8, high=1.2)
    return Probabilities() if name == "multinomial" else None


def _made(trace: OpTrace, value: str) -> Distribution | None:
    """What the operation that made a value makes."""
    maker = trace.maker(value)
    if maker is None:
        return None
    op = trace.op(maker)
    match key(op.fn):
        case "softmax" if argument(op, 1, "dim") in (-1, len(trace.values[value].shape) - 1):
            return Probabilities()
        case "softmax" | "sigmoid" | "hardsigmoid":
            return Uniform(low=0.0, high=1.0)
        case "exp" | "softplus" | "square":
            return Uniform(low=0.1, high=2.0)
        case _ if _is_transparent(op, next(iter(op.ins), "")):
            made = _made(trace, op.ins[0])
            is_row = trace.values[op.ins[0]].shape[-1:] == trace.values[value].shape[-1:]
            return Uniform(low=0.0, high=1.0) if made == Probabilities() and not is_row else made
        case _:
            return None
