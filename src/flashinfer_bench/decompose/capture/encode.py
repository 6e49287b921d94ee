"""Values and arguments of a trace as plain data, the values numbered by kind as they appear."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.ir import Named, Plain, Ref, Span, Value
from flashinfer_bench.decompose.model_errors import NotRecordableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.decompose.ir import Kind


_LETTERS: Mapping[Kind, str] = {
    "input": "i", "param": "p", "buffer": "b", "const": "c", "inter": "v",
}  # fmt: skip


class Values(dict[str, Value]):
    """Values by their ids: `i0`, `p0`, `v0`, `v1` and so on."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()

    def add(
        self, kind: Kind, tensor: torch.Tensor, name: str, aliases: tuple[str, ...] = ()
    ) -> str:
        """Describe a tensor as a new value; returns its id."""
        letter = _LETTERS[kind]
        made = f"{letter}{self._counts[letter]}"
        self._counts[letter] += 1
        self[made] = Value(
            id=made,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            kind=kind,
            name=name,
            aliases=aliases,
            strides=None if tensor.is_contiguous() else tuple(map(int, tensor.stride())),
        )
        return made


def place_in(tensors: Sequence[torch.Tensor], tensor: torch.Tensor) -> int:
    """Find where an object stands among others."""
    return next(number for number, each in enumerate(tensors) if each is tensor)


Lookup = Callable[[torch.Tensor], str]


def encoded(argument: Any, lookup: Lookup) -> Any:
    """Turn an argument into plain data; tensors become references."""
    match argument:
        case torch.Tensor():
            return Ref(lookup(argument))
        case slice():
            parts = (argument.start, argument.stop, argument.step)
            return Span(*(encoded(each, lookup) for each in parts))
        case Mapping():
            return {str(key): encoded(each, lookup) for key, each in argument.items()}
        case list() | range():
            return [encoded(each, lookup) for each in argument]
        case tuple():
            return tuple(encoded(each, lookup) for each in argument)
        case bool() | None | str() | complex():
            return argument
        case Enum():
            return encoded(argument.value, lookup)
        case int():
            return int(argument)
        case float():
            return float(argument)
        case _:
            return _named(argument)


_PYTHON: Mapping[type, str] = {bool: "bool", int: "int64", float: "float64"}
"""Python's types that torch takes for dtypes, and for which."""


def _named(argument: Any) -> Any:
    """Name one of torch's objects."""
    match argument:
        case torch.dtype():
            return Named("dtype", str(argument).removeprefix("torch."))
        case type() if argument in _PYTHON:
            return Named("dtype", _PYTHON[argument])
        case torch.device():
            return Named("device", "cpu")
        case torch.layout():
            return Named("layout", str(argument).removeprefix("torch."))
        case torch.memory_format():
            return Named("memory_format", str(argument).removeprefix("torch."))
        case torch.Generator():
            return Named("generator", "default")
        case _ if argument is ...:
            return Named("ellipsis", "...")
        case _ if hasattr(argument, "item") and getattr(argument, "ndim", None) == 0:
            return argument.item()  # a number of numpy's
        case _:
            raise NotRecordableError(f"an operation is given a {type(argument).__name__}")


def structured(result: Any, number: Callable[[torch.Tensor], int]) -> Any:
    """Replace each tensor of a nested result by its number; what is no tensor is wrapped."""
    match result:
        case torch.Tensor():
            return number(result)
        case Mapping():
            return {str(key): structured(each, number) for key, each in result.items()}
        case list():
            return [structured(each, number) for each in result]
        case tuple():
            return tuple(structured(each, number) for each in result)
        case _ if dataclasses.is_dataclass(result) and not isinstance(result, type):
            return structured(vars(result), number)
        case _:
            return Plain(result)
