"""What each input of a call will be, decided before any memory is touched; values that serialise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec

from flashinfer_bench.data import RandomInput, SafetensorsInput, ScalarInput
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from flashinfer_bench.data import Definition, Workload

ELEMENT_BITS = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "float4_e2m1": 4,
    "int64": 64,
    "int32": 32,
    "int16": 16,
    "int8": 8,
    "bool": 8,
}
WINDOWED_DTYPES = frozenset({"float64", "float32", "float16", "bfloat16"})
"""Dtypes whose content is rescaled for every call."""


class TensorPlan(msgspec.Struct, frozen=True):
    """One tensor: its place in the call, its size, its element type."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def element_count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of a contiguous tensor; four-bit types are packed in pairs."""
        return (self.element_count * ELEMENT_BITS[self.dtype] + 7) // 8


class InputPlan(msgspec.Struct, frozen=True):
    """One input of a call, and where its content comes from.

    `window`: redrawn for every call as a scaled window of a pool of the trial. `draw`: drawn once a trial.
    `file`: from a safetensors file, the same in every call. `scalar`: a Python number; `None` for one
    that is drawn once a trial.
    """

    tensor: TensorPlan
    source: Literal["window", "draw", "file", "scalar"]
    role: Literal["dynamic", "metadata", "static"] = "dynamic"
    value: bool | int | float | None = None
    distribution: Literal["normal", "probabilities"] = "normal"
    path: str = ""
    tensor_key: str = ""


def plan_inputs(definition: Definition, workload: Workload) -> tuple[InputPlan, ...]:
    """Decide where each input comes from, in call order."""
    shapes = definition.get_input_shapes(dict(workload.axes))
    return tuple(
        _plan_input(definition, workload, name, None if shape is None else tuple(shape))
        for name, shape in zip(definition.inputs, shapes, strict=True)
    )


def plan_outputs(definition: Definition, workload: Workload) -> tuple[TensorPlan, ...]:
    """Return shape and dtype of each output, in return order."""
    shapes = definition.get_output_shapes(dict(workload.axes))
    return tuple(
        TensorPlan(name, tuple(shape or ()), str(spec.dtype))
        for (name, spec), shape in zip(definition.outputs.items(), shapes, strict=True)
    )


def _plan_input(
    definition: Definition, workload: Workload, name: str, shape: tuple[int, ...] | None
) -> InputPlan:
    spec = definition.inputs[name]
    tensor = TensorPlan(name, shape or (), str(spec.dtype))
    given = workload.inputs.get(name, RandomInput())
    match given:
        case ScalarInput():
            if shape is not None:
                raise DatasetError(
                    f"workload {workload.uuid}: input {name!r} is a tensor, not a scalar"
                )
            return InputPlan(tensor, "scalar", spec.role, value=given.value)
        case SafetensorsInput():
            return InputPlan(
                tensor, "file", spec.role, path=given.path, tensor_key=given.tensor_key
            )
        case _:
            if shape is None:
                return InputPlan(tensor, "scalar", spec.role)
            return _plan_random(definition, tensor, spec.role)


def _plan_random(
    definition: Definition, tensor: TensorPlan, role: Literal["dynamic", "metadata", "static"]
) -> InputPlan:
    if tensor.dtype == "float4_e2m1":
        raise DatasetError(f"{definition.name}: torch draws no float4; give {tensor.name!r} a file")
    if definition.op_type == "sampling" and tensor.name == "probs":
        return InputPlan(tensor, "draw", role, distribution="probabilities")
    if tensor.dtype in WINDOWED_DTYPES and role == "dynamic":
        return InputPlan(tensor, "window", role)
    return InputPlan(tensor, "draw", role)
