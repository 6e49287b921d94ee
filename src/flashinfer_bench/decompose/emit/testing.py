"""The part of an emitted file that tests it: shapes, dtypes, outputs that are one number, and `run_tests`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from flashinfer_bench.decompose.classes import TABLE, argument, key
from flashinfer_bench.decompose.emit.inputs import same_each_time, stored_numbers
from flashinfer_bench.decompose.emit.legal import picks_by_value
from flashinfer_bench.decompose.ir import Op, OpTrace, Ref

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from flashinfer_bench.decompose.pieces import Piece, Pieces


_RUN = '''
def run_tests(device="cpu"):
    """Run twice on the same inputs and once on others; raise AssertionError for what is wrong."""
    model = Model(*get_init_inputs()).to(device)
    first, other = get_inputs(0), get_inputs(1)
    given = [[each.to(device, copy=True) for each in inputs] for inputs in (first, first, other)]
    outputs = []
    for seed, inputs in zip((0, 0, 1), given):
        torch.manual_seed(seed)
        with torch.no_grad():
            made = model(*inputs)
        outputs.append(made if isinstance(made, tuple) else (made,))
    for at, (before, after) in enumerate(zip(first, given[0])):
        same = torch.equal(torch.nan_to_num(before), torch.nan_to_num(after.cpu()))
        assert same, f"input {at} was changed"
    shapes = [list(each.shape) for each in outputs[0]]
    %s
    dtypes = [each.dtype for each in outputs[0]]
    assert dtypes == OUTPUT_DTYPES, f"dtypes {dtypes}"
    for at, (made, again, varied) in enumerate(zip(*outputs)):
        assert torch.equal(made, again), f"output {at} differs from run to run"
        if made.is_floating_point():
            %s
            varies = made.numel() == 0 or not torch.equal(made, varied)
            assert varies or at in CONSTANT_OUTPUTS, f"output {at} is constant"


if __name__ == "__main__":
    try:
        run_tests()
    except AssertionError as fault:
        print(f"FAIL: {fault}")
        raise SystemExit(1) from None
    print("PASS")
'''
_FINITE = 'assert torch.isfinite(made).all(), f"output {at} is not finite"'
_SHAPES = 'assert shapes == get_expected_output_shape(), f"shapes {shapes}"'
_RANKS = """ranks = [len(shape) for shape in shapes]  # what is picked by value may be more or less
    assert ranks == [len(each) for each in get_expected_output_shape()], f"shapes {shapes}\""""
_NO_NAN = 'assert not torch.isnan(made).any(), f"output {at} is not a number"'


def test_part(pieces: Pieces, piece: Piece) -> list[str]:
    """Write what follows the inputs: shapes, dtypes, the test and the main part."""
    trace, ops = pieces.trace, piece.form.ops
    same = same_each_time(pieces, piece)
    values = [trace.values[value] for value in piece.form.outputs]
    shapes = ", ".join(str(list(value.shape)) for value in values)
    dtypes = ", ".join(f"torch.{value.dtype}" for value in values)
    picks = any(picks_by_value(trace, op) for op in ops)
    shape_test = _RANKS if picks and len(ops) > 1 else _SHAPES
    return [
        f"OUTPUT_DTYPES = [{dtypes}]",
        f"CONSTANT_OUTPUTS = {constant_outputs(trace, ops, piece.form.outputs, same)}",
        "",
        "",
        "def get_init_inputs():",
        '    """Give the arguments of Model: none."""',
        "    return []",
        "",
        "",
        "def get_expected_output_shape():",
        '    """Give the shape of each output."""',
        f"    return [{shapes}]",
        "",
        *(_RUN % (shape_test, _NO_NAN if _has_infinity(pieces, piece) else _FINITE))
        .rstrip()
        .split("\n"),
    ]


def _has_infinity(pieces: Pieces, piece: Piece) -> bool:
    """Tell whether a piece writes infinities itself, as masks do, or is given them."""
    if any(numbers.isinf().any() for numbers in stored_numbers(pieces, piece)):
        return True
    return any(_is_infinite((op.args, dict(op.kwargs))) for op in piece.form.ops)


def _is_infinite(argument: Any) -> bool:
    match argument:
        case float():
            return math.isinf(argument)
        case tuple() | list():
            return any(_is_infinite(each) for each in argument)
        case dict():
            return any(_is_infinite(each) for each in argument.values())
        case _:
            return False


class _Range(NamedTuple):
    """Bounds of all elements of a value."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def is_point(self) -> bool:
        """Whether all elements are one number."""
        return self.low == self.high


_ANY = _Range()
_ZERO_TO_ZERO = frozenset({
    "relu", "gelu", "silu", "tanh", "mish", "leaky_relu", "elu", "selu", "sin", "neg", "abs", "sqrt", "square",
    "hardswish", "softsign", "hardtanh", "relu6", "celu", "erf", "sign", "sum", "mean", "amax", "amin", "cumsum",
})  # fmt: skip
"""Operations that make zeros of zeros."""
_PARTS = frozenset({"topk", "sort", "gather", "index_select", "take_along_dim", "amax"})
"""Operations that take some of the numbers they are given."""
_SUMS = frozenset({"sum", "mean", "amax", "max", "norm", "vector_norm"})
_FACTORIES = {
    "zeros": 0.0,
    "zeros_like": 0.0,
    "new_zeros": 0.0,
    "ones": 1.0,
    "ones_like": 1.0,
    "new_ones": 1.0,
}


def constant_outputs(
    trace: OpTrace, ops: Sequence[Op], outputs: Sequence[str], same: Collection[str] = ()
) -> list[int]:
    """Say which outputs are one number whatever goes in, or follow from constants and inputs that are the `same`."""
    ranges: dict[str, _Range] = {}
    followed = set(same)
    for op in ops:
        made = _range(trace, op, ranges)
        ranges.update(dict.fromkeys(op.outs[:1] if key(op.fn) in _PARTS else op.outs, made))
        if not op.is_stochastic and all(value in followed for value in op.ins):
            followed.update(op.outs)
    return [
        at
        for at, value in enumerate(outputs)
        if ranges.get(value, _ANY).is_point or value in followed
    ]


def _range(trace: OpTrace, op: Op, ranges: dict[str, _Range]) -> _Range:
    name = key(op.fn)
    if name in _FACTORIES:
        return _Range(_FACTORIES[name], _FACTORIES[name])
    if op.fn.endswith("_") or TABLE.get(name) == "RNG":
        return _ANY
    first = _of(argument(op, 0, "input"), ranges)
    second = _of(argument(op, 1, "other"), ranges)
    if TABLE.get(name) in ("VIEW", "CAST"):
        return first
    if first == _Range(0, 0) and name in _ZERO_TO_ZERO:
        return first
    if name in _PARTS:
        return first
    return (
        _all_counted(trace, name, op)
        or _along_one(trace, name, op)
        or _over_own_sum(trace, name, op, first)
        or _arithmetic(name, first, second, op)
        or _ANY
    )


def _of(given: Any, ranges: dict[str, _Range]) -> _Range:
    if isinstance(given, Ref):
        return ranges.get(given.id, _ANY)
    if isinstance(given, int | float):
        return _Range(given, given)
    return _ANY


def _arithmetic(name: str, first: _Range, second: _Range, op: Op) -> _Range | None:
    match name:
        case "mul" | "matmul" | "bmm" | "mm" if _Range(0, 0) in (first, second):
            return _Range(0, 0)
        case "linear" if first == _Range(0, 0) and argument(op, 2, "bias") is None:
            return first
        case "relu":
            return _Range(max(first.low, 0), max(first.high, 0))
        case "clamp" | "hardtanh" | "clamp_min" | "clamp_max":
            return _clamped(name, first, op)
        case "minimum" | "min" if len(op.ins) > 1 or len(op.args) > 1:
            return _Range(min(first.low, second.low), min(first.high, second.high))
        case "maximum" | "max" if len(op.ins) > 1 or len(op.args) > 1:
            return _Range(max(first.low, second.low), max(first.high, second.high))
        case "sigmoid" | "softmax":
            return _Range(0, 1) if not first.is_point else None
        case _:
            return None


def _clamped(name: str, first: _Range, op: Op) -> _Range:
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
    return _Range(min(max(first.low, bottom), top), min(max(first.high, bottom), top))


def _all_counted(trace: OpTrace, name: str, op: Op) -> _Range | None:
    """One bin between the least and the largest number holds all of them: the load of the only expert."""
    bins, low, high = argument(op, 1, "bins"), argument(op, 2, "min", 0), argument(op, 3, "max", 0)
    if name != "histc" or bins != 1 or low != high:
        return None
    count = math.prod(trace.values[op.ins[0]].shape)
    return _Range(count, count)


def _along_one(trace: OpTrace, name: str, op: Op) -> _Range | None:
    """Normalising over a dimension of length one leaves nothing to vary."""
    given, dim = argument(op, 0, "input"), argument(op, 1, "dim")
    if not (isinstance(given, Ref) and isinstance(dim, int)):
        return _minus_own_mean(trace, name, op)
    shape = trace.values[given.id].shape
    if name in ("softmax", "log_softmax") and shape and shape[dim] == 1:
        value = 1.0 if name == "softmax" else 0.0
        return _Range(value, value)
    return None


def _over_own_sum(trace: OpTrace, name: str, op: Op, first: _Range) -> _Range | None:
    """A weight is all of a sum of one: the share of the only expert that is chosen."""
    given, total = argument(op, 0, "input"), argument(op, 1, "other")
    if name not in ("div", "true_divide") or not (
        isinstance(given, Ref) and isinstance(total, Ref)
    ):
        return None
    maker = trace.maker(total.id)
    if maker is None or "rtruediv" in op.fn:
        return None
    summed = trace.op(maker)
    of = argument(summed, 0, "input")
    is_own = isinstance(of, Ref) and of.id == given.id and key(summed.fn) in _SUMS
    is_one = trace.values[total.id].shape == trace.values[given.id].shape and first.low >= 0
    return _Range(1, 1) if is_own and is_one else None


def _minus_own_mean(trace: OpTrace, name: str, op: Op) -> _Range | None:
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
    return _Range(0, 0) if is_own and is_same else None
