"""One operation as a Python expression, written as a person would."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashinfer_bench.decompose.ir import Along, Named, Op, Plain, Ref, Span

_INFIX = {
    "torch.add": "+", "torch.sub": "-", "torch.mul": "*", "torch.div": "/", "torch.pow": "**",
    "torch.floor_divide": "//", "torch.remainder": "%", "torch.matmul": "@", "torch.bitwise_and": "&",
    "torch.bitwise_or": "|", "torch.bitwise_xor": "^", "torch.eq": "==", "torch.ne": "!=", "torch.lt": "<",
    "torch.le": "<=", "torch.gt": ">", "torch.ge": ">=",
}  # fmt: skip
_REFLECTED = {
    "torch.rsub": "-", "torch.Tensor.__rtruediv__": "/", "torch.Tensor.__rpow__": "**", "torch.Tensor.__rmod__": "%",
    "torch.Tensor.__rfloordiv__": "//", "torch.Tensor.__rmatmul__": "@",
}  # fmt: skip
_OPERANDS = 2
_UNARY = {"torch.neg": "-", "torch.bitwise_not": "~"}
_FACTORIES = frozenset({
    "arange", "range", "linspace", "logspace", "zeros", "ones", "empty", "full", "eye", "rand", "randn", "randint",
    "randperm", "tensor", "scalar_tensor", "tril_indices", "triu_indices", "hann_window", "hamming_window",
    "blackman_window", "bartlett_window", "kaiser_window", "empty_strided", "normal",
})  # fmt: skip
"""Last names of functions that make a tensor from nothing, on a device that has to be told."""


@dataclass(frozen=True)
class Words:
    """What values, axes and the device are called."""

    values: Mapping[str, str]
    axes: Sequence[str] = ()
    device: str | None = None
    """Expression of the device that factories use; none where there is no tensor to ask."""


def call(op: Op, words: Words) -> str:
    """Write what an operation computes."""
    if not op.kwargs and len(op.args) == _OPERANDS:  # two operands
        written = _operator(op, words)
        if written is not None:
            return written
    if not op.kwargs and len(op.args) == 1 and op.fn in _UNARY:
        return _UNARY[op.fn] + argument(op.args[0], words)
    if op.fn == "torch.Tensor.__getitem__":
        return f"{argument(op.args[0], words)}[{index(op.args[1], words)}]"
    given = [argument(each, words) for each in op.args]
    named = {name: argument(each, words) for name, each in op.kwargs.items() if name != "generator"}
    if words.device and "device" not in named and _is_factory(op):
        named["device"] = words.device
    return _called(op.fn, given, [f"{name}={text}" for name, text in named.items()])


def _operator(op: Op, words: Words) -> str | None:
    if not any(isinstance(each, Ref) for each in op.args):
        return None
    if op.fn in _INFIX:
        left, right = op.args
        sign = _INFIX[op.fn]
    elif op.fn in _REFLECTED:
        right, left = op.args
        sign = _REFLECTED[op.fn]
    else:
        return None
    if not all(isinstance(each, Ref | int | float | Along) for each in op.args):
        return None
    first, second = argument(left, words), argument(right, words)
    if isinstance(left, Along) or first.startswith("-"):
        first = f"({first})"
    return f"{first} {sign} {f'({second})' if isinstance(right, Along) else second}"


def _called(fn: str, given: Sequence[str], named: Sequence[str]) -> str:
    if fn.endswith(".__get__"):
        return f"{given[0]}.{fn.split('.')[-2]}"
    method = fn.removeprefix("torch.Tensor.")
    if method != fn and "." not in method:
        return f"{given[0]}.{method}({', '.join([*given[1:], *named])})"
    return f"{short(fn)}({', '.join([*given, *named])})"


def short(fn: str) -> str:
    """Write a public name as the emitted files import it."""
    for prefix, alias in (("torch.nn.functional.", "F."), ("torch.nn.", "nn.")):
        if fn.startswith(prefix):
            return alias + fn.removeprefix(prefix)
    return fn


def _is_factory(op: Op) -> bool:
    last = op.fn.removesuffix(".default").rpartition(".")[2]
    return last in _FACTORIES and not op.ins


def index(given: Any, words: Words) -> str:
    """Write what stands in square brackets."""
    if isinstance(given, tuple) and given:
        parts = [_sliced(each, words) for each in given]
        return ", ".join(parts) + ("," if len(parts) == 1 else "")
    return _sliced(given, words)


def _sliced(given: Any, words: Words) -> str:
    if not isinstance(given, Span):
        return argument(given, words)
    start, stop, step = (
        "" if each is None else argument(each, words)
        for each in (given.start, given.stop, given.step)
    )
    return f"{start}:{stop}" + (f":{step}" if step else "")


def argument(given: Any, words: Words) -> str:  # one case for each kind there is
    """Write an argument."""
    match given:
        case Ref():
            return words.values[given.id]
        case Along():
            return _along(given, words)
        case Plain():
            return argument(given.value, words)
        case Named():
            return _named(given, words)
        case Span():
            ends = (given.start, given.stop, given.step)
            return f"slice({', '.join(argument(each, words) for each in ends)})"
        case tuple():
            inner = ", ".join(argument(each, words) for each in given)
            return f"({inner},)" if len(given) == 1 else f"({inner})"
        case list():
            return f"[{', '.join(argument(each, words) for each in given)}]"
        case Mapping():
            parts = (f"{key!r}: {argument(each, words)}" for key, each in given.items())
            return f"{{{', '.join(parts)}}}"
        case float() if not math.isfinite(given):
            return f'float("{given}")'
        case str():
            return '"' + repr(given)[1:-1].replace('"', '\\"') + '"'
        case _:
            return repr(given)


def _along(given: Along, words: Words) -> str:
    axis = words.axes[given.axis]
    scaled = axis if given.factor == 1 else f"{given.factor} * {axis}"
    if given.offset == 0:
        return scaled
    return f"{scaled} {'+' if given.offset > 0 else '-'} {abs(given.offset)}"


def _named(given: Named, words: Words) -> str:
    match given.kind:
        case "ellipsis":
            return "..."
        case "generator":
            return "None"
        case "device":
            return words.device or f'"{given.name}"'
        case _:
            return f"torch.{given.name.removeprefix('torch.')}"
