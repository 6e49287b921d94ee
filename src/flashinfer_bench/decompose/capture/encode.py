"""Arguments of a call as plain data of the trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import torch

from flashinfer_bench.decompose.capture.faults import NotRecordableError
from flashinfer_bench.decompose.ir import Named, Plain, Ref, Span

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


def _named(argument: Any) -> Any:
    """Name one of torch's objects."""
    match argument:
        case torch.dtype():
            return Named("dtype", str(argument).removeprefix("torch."))
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
