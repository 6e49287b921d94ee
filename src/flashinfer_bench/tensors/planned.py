"""What each input of a call will be, decided before any memory is touched; values that serialise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from flashinfer_bench.data import RandomInput, SafetensorsInput, ScalarInput
from flashinfer_bench.data.distributions import (
    FIXED_FORMS,
    Boolean,
    Drawn,
    FloatForm,
    IndexPointers,
    Integers,
    Normal,
    Probabilities,
    SequenceLengths,
)
from flashinfer_bench.data.workload import CustomInput, Strided
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.data.distributions import Distribution

    PlannedDistribution = Distribution
else:
    PlannedDistribution = Drawn  # messages know a union of entities by their base only

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
PACKED_DTYPE = "float4_e2m1"
"""Its declared lengths count elements; torch keeps pairs, so that the last length there is half."""
WINDOWED_DTYPES = frozenset({"float64", "float32", "float16", "bfloat16"})
"""Dtypes that are wide enough to be rescaled for every call."""


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
    def torch_shape(self) -> tuple[int, ...]:
        """Shape as torch has it."""
        is_packed = self.dtype == PACKED_DTYPE and self.shape
        return (*self.shape[:-1], -(-self.shape[-1] // 2)) if is_packed else self.shape

    @property
    def size_bytes(self) -> int:
        """Bytes of a contiguous tensor; four-bit types are packed in pairs."""
        return (self.element_count * ELEMENT_BITS[self.dtype] + 7) // 8


def strides_of(shape: Sequence[int], layout: Strided | None) -> tuple[int, ...]:
    """Give the strides, in elements, of a tensor that lies so.

    `padded`: each row over the last dimension is followed by half a row, at least one element, of which nothing is
    read; a vector has every second element. `transposed`: the last two dimensions are swapped in memory.

    >>> strides_of((3, 8), "padded"), strides_of((5,), "padded"), strides_of((3, 8), "transposed")
    ((12, 1), (2,), (1, 3))
    """
    if layout == "padded" and len(shape) == 1:
        return (2,)
    lengths = [max(1, length) for length in shape]
    if layout == "transposed":
        lengths[-2:] = lengths[:-3:-1]
    if layout == "padded":
        lengths[-1] += (lengths[-1] + 1) // 2
    strides = [math.prod(lengths[number + 1 :]) for number in range(len(lengths))]
    if layout == "transposed":
        strides[-2:] = strides[:-3:-1]
    return tuple(strides)


class InputPlan(msgspec.Struct, frozen=True):
    """One input of a call, and where its content comes from.

    `window`: other content in every call, from a pool of the trial. `draw`: drawn once a trial. `file`: from a
    safetensors file, the same in every call, times another factor where it is scaled, or its rows in another order
    where it is permuted. `scalar`: a Python number; `None` for one that is drawn once a trial. `generated`: by the
    definition's function. `absent`: None. Without a distribution the dtype says what is drawn.
    """

    tensor: TensorPlan
    source: Literal["window", "draw", "file", "scalar", "generated", "absent"]
    role: Literal["dynamic", "metadata", "static"] = "dynamic"
    value: bool | int | float | None = None
    distribution: PlannedDistribution | None = None
    path: str = ""
    tensor_key: str = ""
    is_scaled: bool = False
    is_permuted: bool = False
    is_generated_scalar: bool = False
    """Whether a scalar is what the definition's function makes; the judge puts its value here."""
    layout: Strided | None = None
    """How the tensor lies in memory; contiguous where None."""
    is_mutated: bool = False
    """Whether the call writes into it: its content after the call is one more output, behind those declared."""
    is_replicated: bool = False
    """Whether all ranks get the same content: it is drawn by the seed that they share."""


NOT_CHANGED = -1


class InputChange(msgspec.Struct, frozen=True):
    """What becomes of the inputs of a call before it runs.

    `permuted`: entries along a dimension in an order that follows from `seed`. `spliced`: their second half is that
    of the call with `seed`. `scaled`: times two. `dims`: which dimension of each input, in call order; -1 for those
    that stay; any other number for those that are scaled.
    """

    kind: Literal["permuted", "spliced", "scaled"]
    dims: tuple[int, ...]
    seed: int = 0


def mutated_of(plans: Sequence[InputPlan], arguments: Sequence[Any]) -> list[Any]:
    """Pick the arguments that a call writes into."""
    return [value for plan, value in zip(plans, arguments, strict=True) if plan.is_mutated]


def untouched_of(plans: Sequence[InputPlan], arguments: Sequence[Any]) -> list[Any]:
    """Pick the arguments that a call must leave as they are."""
    return [value for plan, value in zip(plans, arguments, strict=True) if not plan.is_mutated]


def plan_inputs(definition: Definition, workload: Workload) -> tuple[InputPlan, ...]:
    """Decide where each input comes from, in call order."""
    shapes = definition.get_input_shapes(dict(workload.axes))
    return tuple(
        _plan_input(definition, workload, name, None if shape is None else tuple(shape))
        for name, shape in zip(definition.inputs, shapes, strict=True)
    )


def plan_outputs(definition: Definition, workload: Workload) -> tuple[TensorPlan, ...]:
    """Return shape and dtype of each output, in return order, then of each input that is written into."""
    returned = plan_returned(definition, workload)
    inputs = plan_inputs(definition, workload) if definition.mutated_inputs else ()
    return (*returned, *(plan.tensor for plan in inputs if plan.is_mutated))


def plan_returned(definition: Definition, workload: Workload) -> tuple[TensorPlan, ...]:
    """Return shape and dtype of each output that a call returns, or is given to fill."""
    shapes = definition.get_output_shapes(dict(workload.axes))
    return tuple(
        TensorPlan(name, tuple(shape or ()), str(spec.dtype))
        for (name, spec), shape in zip(definition.outputs.items(), shapes, strict=True)
    )


def _plan_input(
    definition: Definition, workload: Workload, name: str, shape: tuple[int, ...] | None
) -> InputPlan:
    spec = definition.inputs[name]
    if spec.optional and name not in workload.inputs:
        return InputPlan(TensorPlan(name, (0,), str(spec.dtype)), "absent", spec.role)
    plan = _plan_present(definition, workload, name, shape)
    return msgspec.structs.replace(
        plan,
        is_mutated=name in definition.mutated_inputs,
        is_replicated=spec.replicated or (definition.world_size is not None and shape is None),
    )


def _plan_present(
    definition: Definition, workload: Workload, name: str, shape: tuple[int, ...] | None
) -> InputPlan:
    spec = definition.inputs[name]
    tensor = TensorPlan(name, shape or (), str(spec.dtype))
    if tensor.dtype == PACKED_DTYPE and shape is not None and (not shape or shape[-1] % 2):
        raise DatasetError(
            f"workload {workload.uuid} of {definition.name}: input {name!r} is {PACKED_DTYPE}, which is kept in "
            f"pairs: its last axis must be even, and its shape is {list(shape)}"
        )
    given = workload.inputs.get(name, RandomInput())
    match given:
        case ScalarInput():
            if shape is not None:
                raise DatasetError(
                    f"workload {workload.uuid}: input {name!r} is a tensor, not a scalar"
                )
            return InputPlan(tensor, "scalar", spec.role, value=given.value)
        case SafetensorsInput():
            place = f"workload {workload.uuid} of {definition.name}: input {name!r}"
            if given.scaled and given.permuted:
                raise DatasetError(f"{place}: it is either scaled or permuted, not both")
            if given.permuted and not shape:
                raise DatasetError(f"{place}: it has no rows that could be permuted")
            if given.scaled and tensor.dtype not in WINDOWED_DTYPES:
                raise DatasetError(f"{place}: only float types are scaled, not {tensor.dtype}")
            return InputPlan(
                tensor,
                "file",
                spec.role,
                path=given.path,
                tensor_key=given.tensor_key,
                is_scaled=given.scaled and spec.role == "dynamic",
                is_permuted=given.permuted and spec.role == "dynamic",
            )
        case CustomInput():
            return _plan_custom(definition, workload, tensor, is_scalar=shape is None)
        case RandomInput():
            drawn = _distribution(definition, workload, tensor, given, is_scalar=shape is None)
            if shape is None:
                return InputPlan(tensor, "scalar", spec.role, distribution=drawn)
            is_fixed = isinstance(drawn, FloatForm) and drawn.form in FIXED_FORMS
            is_constant = (
                spec.role != "dynamic"
                or is_fixed
                or isinstance(drawn, IndexPointers | SequenceLengths)
            )
            source: Literal["draw", "window"] = "draw" if is_constant else "window"
            layout = _layout(definition, workload, tensor, given)
            return InputPlan(tensor, source, spec.role, distribution=drawn, layout=layout)


def _layout(
    definition: Definition, workload: Workload, tensor: TensorPlan, given: RandomInput
) -> Strided | None:
    least = {"padded": 1, "transposed": 2, None: 0}[given.layout]
    if len(tensor.shape) < least or (given.layout and tensor.dtype == PACKED_DTYPE):
        raise DatasetError(
            f"workload {workload.uuid} of {definition.name}: input {tensor.name!r} is {tensor.dtype} of "
            f"{len(tensor.shape)} dimensions, which cannot be {given.layout}"
        )
    return given.layout


def _plan_custom(
    definition: Definition, workload: Workload, tensor: TensorPlan, *, is_scalar: bool
) -> InputPlan:
    role = definition.inputs[tensor.name].role
    if definition.custom_inputs_entrypoint is None:
        raise DatasetError(
            f"workload {workload.uuid} of {definition.name}: input {tensor.name!r} is custom, and the definition "
            "names no function that makes inputs (custom_inputs_entrypoint)"
        )
    if is_scalar:
        return InputPlan(tensor, "scalar", role, is_generated_scalar=True)
    return InputPlan(tensor, "generated", role)


def _distribution(
    definition: Definition,
    workload: Workload,
    tensor: TensorPlan,
    given: RandomInput,
    *,
    is_scalar: bool,
) -> Distribution:
    """Take what is declared, with numbers for axes, or what the format says."""
    declared = given.distribution
    if declared is None:
        is_sampled = definition.op_type == "sampling" and tensor.name == "probs"
        return Probabilities() if is_sampled else usual(tensor.dtype)
    axes = definition.resolve_axes(workload.axes)
    fault = declared.fault(tensor.dtype, None if is_scalar else tensor.shape, axes)
    if fault is not None:
        place = f"workload {workload.uuid} of {definition.name}: input {tensor.name!r}"
        raise DatasetError(f"{place}: {declared.type!r} {fault}")
    return declared.with_numbers(axes)


def usual(dtype: str) -> Distribution:
    """Say what the dataset format draws for a dtype where nothing is declared."""
    match dtype:
        case "bool":
            return Boolean()
        case "int8":
            return Integers(low=-128, high=128)
        case "int16" | "int32" | "int64":
            return Integers(low=-1024, high=1024)
        case _:
            return Normal()


def written(value: object) -> Any:
    """Write for a message what `msgspec` does not know."""
    if isinstance(value, Drawn):
        return value.model_dump()
    raise NotImplementedError(f"{type(value).__name__} is no part of a message")


def read(kind: type, value: Any) -> Any:
    """Read what `written` wrote; `ValueError` where it is nothing of the kind."""
    if kind is Drawn:
        return RandomInput(distribution=value).distribution
    raise NotImplementedError(f"{kind.__name__} is no part of a message")
