"""What the values of a part are called in the Python source that is made of it."""

from __future__ import annotations

import builtins
import functools
import inspect
import keyword
import re
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import get_testing_overrides

from flashinfer_bench.decompose import names
from flashinfer_bench.decompose.ir import Op, OpTrace, refs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_TAKEN = frozenset({"torch", "F", "nn", "self", "Model", "generator", "seed", "device"})
_ROLES = {
    "input": "x", "self": "x", "tensor": "x", "tensors": "x", "arrays": "x", "other": "y", "a": "x", "mat2": "y",
    "batch1": "x", "batch2": "y", "mat1": "x", "tensor2": "y", "vec": "y", "vec2": "y", "inp": "x", "obj": "x",
}  # fmt: skip
"""What torch calls an argument, and what a reader would."""
_STATES = {
    "torch.lstm": ("h0", "c0"),
    **dict.fromkeys(("torch.gru", "torch.rnn_tanh", "torch.rnn_relu"), ("h0",)),
}
"""What people call the states that a recurrent network begins with; torch's signature is that of packed sequences."""
_PLAIN = re.compile(r"[^0-9A-Za-z_]+")


class Names:
    """Hands out Python names, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*_TAKEN, *taken}

    def take(self, wanted: str) -> str:
        """Give the wanted name, or one like it that is free."""
        name = identifier(wanted)
        if not is_usable(name):
            name = f"{name}_1"
        stem, number = name, 2
        while name in self._taken:
            name, number = f"{stem}_{number}", number + 1
        self._taken.add(name)
        return name


def identifier(text: str) -> str:
    """Make a Python identifier of any text.

    >>> identifier("blocks.0.attn.qkv"), identifier("3.weight")
    ('blocks_0_attn_qkv', 'm3_weight')
    """
    plain = _PLAIN.sub("_", text).strip("_") or "value"
    return f"m{plain}" if plain[0].isdigit() else plain


def is_usable(name: str) -> bool:
    """Tell whether a name hides nothing of Python's."""
    return not (keyword.iskeyword(name) or hasattr(builtins, name) or name in _TAKEN)


def input_names(
    trace: OpTrace, inputs: Iterable[str], ops: Iterable[Op], scope: str | None
) -> list[str]:
    """Name the parameters of a part: weights by their place in its scope, activations by their role.

    Without a scope, as in a kernel, weights go by the last part of their names.
    """
    steps = tuple(ops)
    roles = _roles(steps) | _arguments_of(trace, steps)
    taken = Names()
    return [taken.take(_wanted(trace, value, roles, scope)) for value in inputs]


def _wanted(trace: OpTrace, value: str, roles: dict[str, str], scope: str | None) -> str:
    found = trace.values[value]
    if found.kind == "input":
        return found.name.rpartition(".")[2] or "x"
    if found.kind == "inter":
        return roles.get(value, "x")
    prefix = f"{scope}." if scope else ""
    if scope is not None and found.name.startswith(prefix):
        return found.name.removeprefix(prefix)
    return found.name.rpartition(".")[2]


def _arguments_of(trace: OpTrace, ops: Sequence[Op]) -> dict[str, str]:
    """Find what the code that several operations are all of calls what it is given, else what code within it does."""
    named: dict[str, str] = {}
    if len(ops) < 2:  # noqa: PLR2004  # one operation has the names of its own arguments
        return named
    for scope in dict.fromkeys(scope for op in ops for scope in op.scope):
        for value, name in trace.arguments.get(scope, {}).items():
            named.setdefault(value, _ROLES.get(name, name))
    for scopes in zip(*(op.scope for op in ops), strict=False):
        if len(set(scopes)) > 1:
            break
        named |= trace.arguments.get(scopes[0], {})
    return named


def _roles(ops: Iterable[Op]) -> dict[str, str]:
    """Find what the first operation that reads a value calls it."""
    roles: dict[str, str] = {}
    for op in ops:
        for name, value in _arguments(op):
            roles.setdefault(value, name)
    return roles


def _arguments(op: Op) -> Iterator[tuple[str, str]]:
    parameters = parameters_of(op.fn)
    if op.fn in _STATES:
        for name, value in zip(_STATES[op.fn], refs(op.args[1]), strict=False):
            yield name, value
    for position, argument in enumerate(op.args):
        name = parameters[position] if position < len(parameters) else "xyz"[min(position, 2)]
        for value in refs(argument):
            yield _ROLES.get(name, name), value
    for name, argument in op.kwargs.items():
        for value in refs(argument):
            yield _ROLES.get(name, name), value


@functools.cache
def parameters_of(fn: str) -> tuple[str, ...]:
    """Find what torch calls the parameters of a function; none where it does not say."""
    try:
        function = names.resolve(fn)
    except AttributeError:
        return ()
    stated = _overrides().get(function, function)
    try:
        found = inspect.signature(stated).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


@functools.cache
def _overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    with torch.no_grad():
        return dict(get_testing_overrides())


def result_name(fn: str) -> str:
    """Name what an operation makes by the operation.

    >>> result_name("torch.nn.functional.conv2d"), result_name("torch.Tensor.T.__get__")
    ('conv2d', 'transposed')
    """
    parts = fn.split(".")
    if parts[-1] in ("__get__", "default") or fn.startswith("torch.ops."):
        parts = parts[:4] if fn.startswith("torch.ops.") else parts[:-1]
    plain = parts[-1].strip("_")
    return {"getitem": "part", "setitem": "filled", "T": "transposed", "to": "cast"}.get(
        plain, plain
    )
