"""Arguments of a call as plain data of the trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import torch

from flashinfer_bench.decompose.capture.faults import NotRecordableError
from flashinfer_bench.decompose.ir import Named, Plain, Ref, Span

Lookup = Callable[[torch.Tensor], str]


def encoded(argument: Any, lookup: Lookup) -> Any:  # one case per kind
    """Turn an argument into plain data; tensors become references."""
    match argument:
        case torch.Tensor():
            return Ref(lookup(argument))
        case bool() | None | str():
            return argument
        case Enum():
            return encoded(argument.value, lookup)
        case int():
            return int(argument)
        case float():
            return float(argument)
        case complex():
            return argument
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
        case slice():
            parts = (argument.start, argument.stop, argument.step)
            return Span(*(encoded(each, lookup) for each in parts))
        case Mapping():
            return {str(key): encoded(each, lookup) for key, each in argument.items()}
        case list():
            return [encoded(each, lookup) for each in argument]
        case tuple():
            return tuple(encoded(each, lookup) for each in argument)
        case range():
            return list(argument)
        case _:
            return _rare(argument)


def _rare(argument: Any) -> Any:
    if argument is ...:
        return Named("ellipsis", "...")
    if hasattr(argument, "item") and getattr(argument, "ndim", None) == 0:  # a number of numpy's
        return argument.item()
    raise NotRecordableError(f"an operation is given a {type(argument).__name__}")


def structured(result: Any, number: Callable[[torch.Tensor], int]) -> Any:
    """Replace each tensor of a nested result by its number; what is no tensor is wrapped."""
    if isinstance(result, torch.Tensor):
        return number(result)
    if isinstance(result, Mapping):
        return {str(key): structured(each, number) for key, each in result.items()}
    if isinstance(result, list):
        return [structured(each, number) for each in result]
    if isinstance(result, tuple):
        return tuple(structured(each, number) for each in result)
    return Plain(result)
