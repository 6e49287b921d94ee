"""A call's inputs, checked against the definition and copied."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.tensors.dtypes import dtype_name, torch_dtype
from flashinfer_bench.tensors.statistics import elements_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.data import Definition, TensorSpec


class UntraceableError(Exception):
    """A call does not fit its definition; the message says how. It never leaves the package."""


def named_inputs(
    definition: Definition, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Name a call's inputs; outputs to write into are left out."""
    try:
        merged = definition.merge_kwargs_to_args(args, kwargs)
    except TypeError as error:
        raise UntraceableError(str(error)) from None
    count = len(definition.inputs)
    if len(merged) not in (count, count + len(definition.outputs)):
        raise UntraceableError(
            f"{len(merged)} arguments for {count} inputs and {len(definition.outputs)} outputs"
        )
    return dict(zip(definition.inputs, merged, strict=False))


def as_tensors(definition: Definition, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Turn lists of numbers into tensors of the declared dtype; require tensors to fit."""
    made = {}
    for name, value in inputs.items():
        spec = definition.inputs[name]
        made[name] = value if spec.shape is None else _tensor(name, spec, value)
    return made


def axes_of(definition: Definition, inputs: Mapping[str, Any]) -> dict[str, int]:
    """Read the variable axes off; sizes that contradict the definition are refused."""
    try:
        axes = definition.get_axes_values_from_inputs(inputs.values())
        shapes = definition.get_input_shapes(axes)
    except ValueError as error:
        raise UntraceableError(str(error)) from None
    for (name, value), shape in zip(inputs.items(), shapes, strict=True):
        if shape is not None and list(value.shape) != shape:
            raise UntraceableError(f"{name!r} has shape {list(value.shape)}, not {shape}")
    return axes


def scalars_of(definition: Definition, inputs: Mapping[str, Any]) -> dict[str, bool | int | float]:
    """Give the values of inputs without a shape, in the kind their dtype says."""
    return {
        name: _scalar(name, definition.inputs[name], value)
        for name, value in inputs.items()
        if definition.inputs[name].shape is None
    }


def copied(tensors: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Copy to the CPU, at once: the caller may change its own as soon as this returns."""
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def floats_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copy elements of the floats among these; what they are like is found when nobody waits."""
    found = {name: elements_of(tensor) for name, tensor in tensors.items()}
    return {name: elements for name, elements in found.items() if elements is not None}


def is_captured(values: Iterable[object]) -> bool:
    """Tell whether a CUDA graph records what is done with these: nothing may be copied then."""
    on_cuda = any(isinstance(value, torch.Tensor) and value.is_cuda for value in values)
    return on_cuda and torch.cuda.is_current_stream_capturing()


def _tensor(name: str, spec: TensorSpec, value: object) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        value = _from_numbers(name, spec, value)
    if value.dtype is not torch_dtype(spec.dtype):
        raise UntraceableError(f"{name!r} is {dtype_name(value.dtype)}, not {spec.dtype}")
    if value.is_meta or value.layout is not torch.strided:
        raise UntraceableError(f"{name!r} is a {value.layout} tensor on {value.device}")
    return value


def _from_numbers(name: str, spec: TensorSpec, value: object) -> torch.Tensor:
    if not isinstance(value, bool | int | float | list | tuple):
        raise UntraceableError(f"{name!r} is a {type(value).__name__}, not a tensor")
    try:
        return torch.tensor(value, dtype=torch_dtype(spec.dtype))
    except (TypeError, ValueError, RuntimeError) as error:
        raise UntraceableError(f"{name!r}: {error}") from None


def _scalar(name: str, spec: TensorSpec, value: Any) -> bool | int | float:
    if hasattr(value, "item"):  # tensors of one element, and numpy's scalars
        try:
            value = value.item()
        except (RuntimeError, ValueError):
            raise UntraceableError(f"{name!r} has more than one element, for a scalar") from None
    if not isinstance(value, bool | int | float):
        raise UntraceableError(f"{name!r} is a {type(value).__name__}, not a number")
    if spec.dtype == "bool":
        return bool(value)
    if spec.dtype.is_float:
        return float(value)
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        raise UntraceableError(f"{name!r} is {value}, not {spec.dtype}")
    return int(value)
