"""Public names of torch's operations: what a resolved function is called, and the callable of a name.

The same operation is reached in several ways (`x + y`, `x.add(y)`, `torch.add(x, y)`); a trace holds one name for
all of them. A name is looked up from `torch` downwards, so that what is emitted can be called as it is written.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import resolve_name

from flashinfer_bench.decompose.ir import Named, Op, Plain, Ref, Span

_OPERATORS = {
    "__add__": "torch.add", "__radd__": "torch.add", "__sub__": "torch.sub", "__rsub__": "torch.rsub",
    "__mul__": "torch.mul", "__rmul__": "torch.mul", "__truediv__": "torch.div", "__div__": "torch.div",
    "__pow__": "torch.pow", "__floordiv__": "torch.floor_divide", "__mod__": "torch.remainder",
    "__matmul__": "torch.matmul", "__neg__": "torch.neg", "__pos__": "torch.positive", "__abs__": "torch.abs",
    "__invert__": "torch.bitwise_not", "__and__": "torch.bitwise_and", "__rand__": "torch.bitwise_and",
    "__or__": "torch.bitwise_or", "__ror__": "torch.bitwise_or", "__xor__": "torch.bitwise_xor",
    "__rxor__": "torch.bitwise_xor", "__lshift__": "torch.bitwise_left_shift",
    "__rshift__": "torch.bitwise_right_shift", "__eq__": "torch.eq", "__ne__": "torch.ne", "__lt__": "torch.lt",
    "__le__": "torch.le", "__gt__": "torch.gt", "__ge__": "torch.ge", "__rdiv__": "torch.Tensor.__rtruediv__",
    "__reversed__": "torch.Tensor.__reversed__",
}  # fmt: skip
_IN_PLACE = {
    "__iand__": "torch.Tensor.bitwise_and_", "__ior__": "torch.Tensor.bitwise_or_",
    "__ixor__": "torch.Tensor.bitwise_xor_", "__ilshift__": "torch.Tensor.bitwise_left_shift_",
    "__irshift__": "torch.Tensor.bitwise_right_shift_",
}  # fmt: skip
"""Operators that write, as the methods they are; arithmetic comes as methods already."""
_SAME = {
    "torch.nn.functional.relu": "torch.relu",
    "torch.nn.functional.sigmoid": "torch.sigmoid",
    "torch.nn.functional.tanh": "torch.tanh",
    "torch.nn.functional.softmax": "torch.softmax",
    "torch.nn.functional.log_softmax": "torch.log_softmax",
    "torch.special.softmax": "torch.softmax",
    "torch.special.expit": "torch.sigmoid",
    "torch.special.logsumexp": "torch.logsumexp",
    "torch.special.erf": "torch.erf",
    "torch.spmm": "torch.mm",
    "torch.multiply": "torch.mul",
    "torch.subtract": "torch.sub",
    "torch.divide": "torch.div",
    "torch.true_divide": "torch.div",
    "torch.negative": "torch.neg",
    "torch.absolute": "torch.abs",
    "torch.clip": "torch.clamp",
    "torch.concat": "torch.cat",
    "torch.concatenate": "torch.cat",
    "torch.swapaxes": "torch.transpose",
    "torch.swapdims": "torch.transpose",
    "torch.moveaxis": "torch.movedim",
    "torch.greater": "torch.gt",
    "torch.greater_equal": "torch.ge",
    "torch.less": "torch.lt",
    "torch.less_equal": "torch.le",
    "torch.not_equal": "torch.ne",
    "torch.linalg.matmul": "torch.matmul",
    "torch.conv1d": "torch.nn.functional.conv1d",
    "torch.conv2d": "torch.nn.functional.conv2d",
    "torch.conv3d": "torch.nn.functional.conv3d",
    "torch.conv_transpose1d": "torch.nn.functional.conv_transpose1d",
    "torch.conv_transpose2d": "torch.nn.functional.conv_transpose2d",
    "torch.conv_transpose3d": "torch.nn.functional.conv_transpose3d",
    "torch.rms_norm": "torch.nn.functional.rms_norm",
    "torch.avg_pool1d": "torch.nn.functional.avg_pool1d",
    "torch.adaptive_avg_pool1d": "torch.nn.functional.adaptive_avg_pool1d",
    "torch.prelu": "torch.nn.functional.prelu",
    "torch.pixel_shuffle": "torch.nn.functional.pixel_shuffle",
    "torch.bilinear": "torch.nn.functional.bilinear",
    "torch.channel_shuffle": "torch.nn.functional.channel_shuffle",
    "torch.conv_tbc": "torch.nn.functional.conv_tbc",
    "torch.cosine_similarity": "torch.nn.functional.cosine_similarity",
    "torch.hardshrink": "torch.nn.functional.hardshrink",
    "torch.pairwise_distance": "torch.nn.functional.pairwise_distance",
    "torch.pdist": "torch.nn.functional.pdist",
    "torch.pixel_unshuffle": "torch.nn.functional.pixel_unshuffle",
}
"""Two public names of one function: the left is written as the right."""
_METHODS = {
    "norm",
    "stft",
    "istft",
    "unique",
    "unique_consecutive",
    "lu",
    "type",
    "to",
    "clone",
    "__rpow__",
    "where",
    "polygamma",
}
"""Methods whose arguments differ from those of the function of that name, or which read better as methods."""
_SHAPES = {
    "torch.Tensor.view", "torch.reshape", "torch.permute", "torch.Tensor.expand", "torch.Tensor.repeat",
    "torch.flip", "torch.tile", "torch.broadcast_to", "torch.Tensor.sum_to_size", "torch.zeros", "torch.ones",
    "torch.empty", "torch.rand", "torch.randn",
    "torch.Tensor.new_zeros", "torch.Tensor.new_ones", "torch.Tensor.new_empty",
}  # fmt: skip
"""Functions that take their integers one by one or as one tuple; a trace holds the tuple."""
STOCHASTIC = {
    "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_",
    "random_", "uniform_", "gumbel_softmax", "fractional_max_pool2d", "fractional_max_pool3d", "rrelu_with_noise",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d_with_indices", "binomial",
}  # fmt: skip
"""Last names of operations that always draw random numbers."""
DROPOUTS = {
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "feature_dropout",
    "native_dropout", "rrelu",
}  # fmt: skip
"""Last names of operations that draw random numbers when training."""


@functools.cache
def canonical(function: Callable[..., Any]) -> str | None:
    """Find the public name that a called function is emitted by; none if it has none."""
    name = resolve_name(function) or _qualified(function)
    if name.endswith((".__get__", ".__set__")):
        return name
    if isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return "torch.ops." + str(function)
    name = name.replace("torch.functional.", "torch.").replace("torch._VF.", "torch.")
    owner, _, last = name.rpartition(".")
    if owner in ("torch.Tensor", "torch._C.TensorBase"):
        name = _method(last)
    return _SAME.get(name, name) if _exists(_SAME.get(name, name)) else None


def _method(last: str) -> str:
    if last in _OPERATORS:
        return _OPERATORS[last]
    if last in _IN_PLACE:
        return _IN_PLACE[last]
    function = getattr(torch, last, None)
    if last in _METHODS or last.startswith("__") or last.endswith("_") or not callable(function):
        return f"torch.Tensor.{last}"
    return f"torch.{last}"


def _qualified(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "")
    if getattr(torch, name or "-", None) == function:  # `torch._weight_norm` and its like
        return f"torch.{name}"
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"


def _exists(name: str) -> bool:
    try:
        resolve(name)
    except AttributeError:
        return False
    return True


@functools.cache
def resolve(name: str) -> Callable[..., Any]:
    """Find the callable of a public name, from `torch` downwards."""
    root, *path = name.split(".")
    if root != "torch":
        raise AttributeError(name)
    found: Any = torch
    for each in path:
        found = getattr(found, each)
    if not callable(found):
        raise AttributeError(name)  # noqa: TRY004  # as where it is missing
    checked: Callable[..., Any] = found
    return checked


def is_copy_form(fn: str) -> bool:
    """Tell whether an operation is written as a copy of its first argument that is then changed.

    `torch.Tensor.__setitem__(x, index, value)` in a trace means `y = x.clone(); y[index] = value`, and likewise
    every name that ends in one underscore.
    """
    last = fn.rpartition(".")[2]
    return last == "__setitem__" or (last.endswith("_") and not last.endswith("__"))


def is_shape_call(fn: str) -> bool:
    """Tell whether a function takes its integers one by one or as a tuple."""
    return fn in _SHAPES


def call(op: Op, env: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Evaluate one operation; `env` holds its inputs, and the outputs come in the order of `op.outs`.

    Its inputs stay as they are.
    """
    device = next((env[value].device for value in op.ins), None)
    args = decoded(op.args, env, device)
    kwargs = decoded(dict(op.kwargs), env, device)
    if not is_copy_form(op.fn):
        with _autocast(op):
            return tuple(tensors_in(resolve(op.fn)(*args, **kwargs)))
    changed = args[0].clone()
    with _autocast(op):
        resolve(op.fn)(changed, *args[1:], **kwargs)
    return (changed,)


def _autocast(op: Op) -> Any:
    if op.autocast is None:
        return torch.autocast("cpu", enabled=False)
    device, dtype = op.autocast
    return torch.autocast(device, dtype=getattr(torch, dtype))


def decoded(
    argument: Any, env: Mapping[str, torch.Tensor], device: torch.device | None = None
) -> Any:
    """Turn an argument of the trace back into what torch takes; a device becomes the given one."""
    match argument:
        case Ref():
            return env[argument.id]
        case Named():
            return _torch_object(argument, device)
        case Span():
            parts = (argument.start, argument.stop, argument.step)
            return slice(*(decoded(each, env, device) for each in parts))
        case Plain():
            return argument.value
        case Mapping():
            return {key: decoded(each, env, device) for key, each in argument.items()}
        case tuple():
            return tuple(decoded(each, env, device) for each in argument)
        case list():
            return [decoded(each, env, device) for each in argument]
        case _:
            return argument


def _torch_object(named: Named, device: torch.device | None) -> Any:
    match named.kind:
        case "ellipsis":
            return ...
        case "device":
            return device or torch.device(named.name)
        case "generator":
            return None
        case _:
            return getattr(torch, named.name.removeprefix("torch."))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors of a nested result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from tensors_in(vars(value))
