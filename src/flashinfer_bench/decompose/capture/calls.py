"""One way of writing each call: names and arguments as a trace holds them, before they become plain data."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.names import is_shape_call, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class NamedCall:
    """A function's public name and what it is given."""

    fn: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """The name without where it lives."""
        return self.fn.rpartition(".")[2]

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """Find an argument that may be given by place or by name."""
        return self.args[index] if index < len(self.args) else self.kwargs.get(name, default)


_MATRIX = 2
_DTYPE = 2
"""Place of the dtype in torch's own softmax; in Python's wrapper something else stands there."""
_USUAL = 0.1
"""What a batch norm forgets of its statistics unless told otherwise."""
_CASTS = {
    "float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16,
    "int": torch.int32, "long": torch.int64, "short": torch.int16, "char": torch.int8, "byte": torch.uint8,
    "bool": torch.bool, "cfloat": torch.complex64, "cdouble": torch.complex128,
}  # fmt: skip
EMPTY = {
    "torch.empty": "torch.zeros",
    "torch.empty_like": "torch.zeros_like",
    "torch.Tensor.new_empty": "torch.Tensor.new_zeros",
}
"""What has any content has this: a trace would not give the same twice."""
_LEADING = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d"), ("input", "weight", "bias")),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask"),
    **dict.fromkeys(("bmm", "mm"), ("input", "mat2")),
    **dict.fromkeys(("matmul", "mul", "add", "sub", "div"), ("input", "other")),
}
"""Names of the first parameters of functions that are written in C++; others begin with `input`."""
_NOWHERE = ("device", "pin_memory", "requires_grad", "non_blocking")
"""Arguments that say where a tensor lies or who wants its gradient: no part of what is computed."""


def tidy(call: NamedCall, result: Any) -> NamedCall:
    """Write a call as a trace holds it, knowing what it returned."""
    fn = EMPTY.get(call.fn, call.fn)
    call = NamedCall(fn, call.args, {k: v for k, v in call.kwargs.items() if k not in _NOWHERE})
    if call.fn.endswith(".__get__"):
        return _property(call)
    if not call.args:
        call = _first_by_place(call)
    special = _SPECIAL.get(call.fn)
    if special:
        return special(call, result)
    return _shape_as_tuple(call) if is_shape_call(call.fn) else _without_inplace(call)


def _first_by_place(call: NamedCall) -> NamedCall:
    """Give tensors that were all given by name by their places: `linear(input=x, weight=w)`."""
    kwargs = dict(call.kwargs)
    args = []
    for name in _parameters(call.fn) or _LEADING.get(call.last, ("input",)):
        if not isinstance(kwargs.get(name), torch.Tensor):
            break
        args.append(kwargs.pop(name))
    return NamedCall(call.fn, tuple(args), kwargs)


def _property(call: NamedCall) -> NamedCall:
    tensor: torch.Tensor = call.args[0]
    name = call.fn.removesuffix(".__get__").rpartition(".")[2]
    match name:
        case "T" if tensor.dim() == _MATRIX:
            return NamedCall("torch.transpose", (tensor, 0, 1))
        case "T":
            return NamedCall("torch.permute", (tensor, tuple(reversed(range(tensor.dim())))))
        case "mT":
            return NamedCall("torch.transpose", (tensor, -2, -1))
        case "H" | "mH":
            return NamedCall("torch.adjoint", (tensor,))
        case "data":
            return NamedCall("torch.detach", (tensor,))
        case _:
            return NamedCall(f"torch.{name}", (tensor,))


def _shape_as_tuple(call: NamedCall) -> NamedCall:
    """Gather integers given one by one: `x.view(2, 3)` is `x.view((2, 3))`."""
    first = 1 if call.args and isinstance(call.args[0], torch.Tensor) else 0
    rest = call.args[first:]
    if len(rest) == 1 and isinstance(rest[0], list | tuple):
        return NamedCall(call.fn, (*call.args[:first], tuple(rest[0])), call.kwargs)
    if rest and all(_is_number(each) for each in rest):
        return NamedCall(call.fn, (*call.args[:first], tuple(rest)), call.kwargs)
    return call


def _is_number(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, torch.Tensor) and value.dim() == 0)


def _to(call: NamedCall, result: torch.Tensor) -> NamedCall:
    keep = {k: v for k, v in call.kwargs.items() if k in ("copy", "memory_format") and v}
    return NamedCall("torch.Tensor.to", (call.args[0], result.dtype), keep)


def _softmax(call: NamedCall, _: Any) -> NamedCall:
    """Drop what only Python's wrapper wants, and say the axis it would guess."""
    tensor = call.argument(0, "input")
    dim, dtype = call.argument(1, "dim"), call.argument(3, "dtype", call.kwargs.get("dtype"))
    if len(call.args) > _DTYPE and not isinstance(
        call.args[_DTYPE], int
    ):  # torch's own: (x, dim, dtype)
        dtype = call.args[_DTYPE]
    if dim is None:
        dim = 0 if tensor.dim() in (0, 1, 3) else 1
    return NamedCall(call.fn, (tensor, dim), {"dtype": dtype} if dtype is not None else {})


def _split(call: NamedCall, _: Any) -> NamedCall:
    """The method's parameter has another name than the function's."""
    size = call.kwargs.get("split_size", call.kwargs.get("split_size_or_sections"))
    if size is None:
        return call
    rest = {key: each for key, each in call.kwargs.items() if not key.startswith("split_size")}
    return NamedCall(call.fn, (*call.args, size), rest)


def _chosen(call: NamedCall, _: Any) -> NamedCall:
    """The method stands on what is kept, the function begins with the condition."""
    kept, other = call.args[0], call.argument(2, "other")
    return NamedCall("torch.where", (call.argument(1, "condition"), kept, other))


def _shaped_as(call: NamedCall, result: torch.Tensor) -> NamedCall:
    """Take the shape alone of the tensor that gives it: its numbers are not read."""
    return NamedCall("torch.reshape", (call.args[0], tuple(result.shape)))


def _expanded_as(call: NamedCall, result: torch.Tensor) -> NamedCall:
    return NamedCall("torch.Tensor.expand", (call.args[0], tuple(result.shape)))


def _only_first(call: NamedCall, _: Any) -> NamedCall:
    return NamedCall(call.fn, (call.argument(0, "input"),))


def _matrix_transpose(call: NamedCall, _: Any) -> NamedCall:
    if call.args[0].dim() < _MATRIX:
        return call
    return NamedCall("torch.transpose", (call.args[0], 0, 1))


def _batch_norm(call: NamedCall, _: Any) -> NamedCall:
    """In training the running statistics are written and not read: the pure call does without."""
    given = _bound(call)
    if given is None or not given.get("training"):
        return call
    affine = (given["weight"], given["bias"])
    rest = {"momentum": given["momentum"]} if given["momentum"] != _USUAL else {}
    return NamedCall(
        call.fn, (given["input"], None, None, *affine, True), {**rest, "eps": given["eps"]}
    )


def _instance_norm(call: NamedCall, _: Any) -> NamedCall:
    given = _bound(call)
    if given is None or not given.get("use_input_stats"):
        return call
    affine = {"weight": given["weight"], "bias": given["bias"]}
    return NamedCall(call.fn, (given["input"],), {**affine, "eps": given["eps"]})


def _without_inplace(call: NamedCall) -> NamedCall:
    """Drop a flag that asks for writing in place; whether it wrote was seen."""
    names = _parameters(call.fn)
    if "inplace" not in names:
        return call
    given = _bound(call)
    if given is None:
        return call
    given.pop("inplace", None)
    place = names.index("inplace")
    kept = {k: v for k, v in call.kwargs.items() if k != "inplace"}
    later = {k: given[k] for k in names[place + 1 : len(call.args)] if k in given}
    return NamedCall(call.fn, call.args[:place], {**kept, **later})


def writes_in_place(call: NamedCall) -> bool:
    """Tell from a call alone whether it may write into what it is given."""
    if call.last == "__setitem__" or (call.last.endswith("_") and not call.last.endswith("__")):
        return True
    if call.kwargs.get("out") is not None:
        return True
    names = _parameters(call.fn)
    return "inplace" in names and bool(call.argument(names.index("inplace"), "inplace", False))


def _bound(call: NamedCall) -> dict[str, Any] | None:
    try:
        bound = inspect.signature(resolve(call.fn)).bind(*call.args, **call.kwargs)
    except (TypeError, ValueError):  # no signature: written in C++
        return None
    bound.apply_defaults()
    return dict(bound.arguments)


@functools.cache
def _parameters(fn: str) -> tuple[str, ...]:
    """Names of a Python function's parameters; none for one that is written in C++."""
    try:
        return tuple(inspect.signature(resolve(fn)).parameters)
    except (AttributeError, TypeError, ValueError):
        return ()


def _filled(call: NamedCall, result: torch.Tensor) -> NamedCall:
    """Give a factory the shape and dtype that it took from a tensor, whose numbers it does not read."""
    if call.last.endswith("full_like") or call.last == "new_full":
        fill = call.kwargs.get("fill_value", call.args[-1])
        if isinstance(fill, torch.Tensor):
            return call
        return NamedCall("torch.full", (tuple(result.shape), fill), {"dtype": result.dtype})
    fn = "torch.ones" if "ones" in call.last else "torch.zeros"
    return NamedCall(fn, (tuple(result.shape),), {"dtype": result.dtype})


def _joined(call: NamedCall, _: Any) -> NamedCall:
    """Joining one tensor copies it."""
    given = call.argument(0, "tensors")
    return NamedCall("torch.Tensor.clone", (given[0],)) if len(given) == 1 else call


def _padded(call: NamedCall, _: Any) -> NamedCall:
    """Padding by nothing copies."""
    is_copy = not any(call.argument(1, "pad"))
    return NamedCall("torch.Tensor.clone", call.args[:1]) if is_copy else call


_SPECIAL: Mapping[str, Callable[[NamedCall, Any], NamedCall]] = {
    "torch.Tensor.to": _to,
    "torch.Tensor.type": _to,
    "torch.Tensor.type_as": _to,
    **{f"torch.Tensor.{name}": _to for name in _CASTS},
    "torch.softmax": _softmax,
    "torch.log_softmax": _softmax,
    "torch.relu": _only_first,
    "torch.sigmoid": _only_first,
    "torch.tanh": _only_first,
    "torch.t": _matrix_transpose,
    "torch.split": _split,
    "torch.Tensor.where": _chosen,
    "torch.Tensor.view_as": _shaped_as,
    "torch.Tensor.reshape_as": _shaped_as,
    "torch.Tensor.expand_as": _expanded_as,
    "torch.Tensor.__deepcopy__": lambda call, _: NamedCall("torch.Tensor.clone", call.args[:1]),
    **dict.fromkeys(("torch.zeros_like", "torch.ones_like", "torch.full_like"), _filled),
    **{f"torch.Tensor.new_{name}": _filled for name in ("zeros", "ones", "full")},
    "torch.cat": _joined,
    "torch.nn.functional.pad": _padded,
    "torch.nn.functional.batch_norm": _batch_norm,
    "torch.nn.functional.instance_norm": _instance_norm,
}
