"""Axes, tensor specifications, and the arithmetic between axis values and shapes."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictBool, Tag, field_validator

from flashinfer_bench.data import expressions
from flashinfer_bench.data.entity import Entity, NonEmptyStr, NonNegativeInt, is_none
from flashinfer_bench.data.wording import listed


class DType(enum.StrEnum):
    """Element types a definition may name; each has a torch dtype and a Python scalar."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT4_E2M1 = "float4_e2m1"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    BOOL = "bool"

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.value.startswith(("float", "bfloat"))


class AxisConst(Entity):
    """An axis with one fixed length."""

    type: Literal["const"] = "const"
    """Marks a constant axis."""
    value: NonNegativeInt
    """The length."""
    description: str | None = Field(None, exclude_if=is_none)
    """What the axis stands for."""


class AxisVar(Entity):
    """An axis whose length each workload chooses."""

    type: Literal["var"] = "var"
    """Marks a variable axis."""
    description: str | None = Field(None, exclude_if=is_none)
    """What the axis stands for."""


class AxisExpr(Entity):
    """An axis whose length follows from other axes."""

    type: Literal["expr"] = "expr"
    """Marks a derived axis."""
    expression: NonEmptyStr
    """Arithmetic over other axes, such as `heads * dim`."""
    description: str | None = Field(None, exclude_if=is_none)
    """What the axis stands for."""

    @field_validator("expression")
    @classmethod
    def _is_arithmetic(cls, text: str) -> str:
        expressions.parse(text)
        return text


def _axis_kind(axis: object) -> str:
    """Tell the kind of an axis; an object without `type` is known by its keys."""
    if not isinstance(axis, Mapping):
        return str(getattr(axis, "type", type(axis).__name__))
    if "type" in axis:
        return str(axis["type"])
    return "const" if "value" in axis else "expr" if "expression" in axis else "var"


AxisSpec = Annotated[
    Annotated[AxisConst, Tag("const")]
    | Annotated[AxisVar, Tag("var")]
    | Annotated[AxisExpr, Tag("expr")],
    Discriminator(_axis_kind),
]


class TensorSpec(Entity):
    """Shape and element type of one input or output."""

    shape: list[NonEmptyStr] | None
    """Axis names in order; `[]` is a tensor with one element, null a Python scalar."""
    dtype: DType
    """Element type."""
    role: Literal["dynamic", "metadata", "static"] = Field(
        "dynamic", exclude_if=lambda role: role == "dynamic"
    )
    """How often it changes: every call, with the batch's structure, or never (weights)."""
    description: str | None = Field(None, exclude_if=is_none)
    """What the tensor holds."""
    optional: StrictBool = Field(False, exclude_if=lambda optional: not optional)
    """Of an input: whether a workload may leave it out; then None is passed."""
    mutated: StrictBool | None = Field(None, exclude_if=is_none)
    """Of an input: whether kernels write into it; what it holds after the call is judged like an output.
    Left out, it holds of an optional input that the source of the reference writes into."""
    replicated: StrictBool = Field(False, exclude_if=lambda replicated: not replicated)
    """Of an input of a definition for several ranks: whether all ranks get the same; else each draws its own."""


class Shaped:
    """The arithmetic that whatever has axes, inputs and outputs shares (a mixin of entities)."""

    if TYPE_CHECKING:
        name: str
        axes: dict[str, AxisSpec]
        inputs: dict[str, TensorSpec]
        outputs: dict[str, TensorSpec]

    def require_consistent_names(self) -> None:
        """Raise `ValueError` where tensors share a name or use an axis that is not there."""
        shared = self.inputs.keys() & self.outputs.keys()
        if shared:
            raise ValueError(f"{listed(sorted(shared))} is both an input and an output")
        for tensor, spec in (*self.inputs.items(), *self.outputs.items()):
            unknown = set(spec.shape or ()) - self.axes.keys()
            if unknown:
                raise ValueError(
                    f"the shape of {tensor!r} uses unknown axis {listed(sorted(unknown))}"
                )
        for tensor, spec in self.outputs.items():
            if spec.optional or spec.mutated is not None or spec.replicated:
                raise ValueError(
                    f"output {tensor!r}: `optional`, `mutated` and `replicated` are for inputs"
                )
        for tensor, spec in self.inputs.items():
            if spec.mutated and (spec.shape is None or spec.role != "dynamic"):
                why = "a scalar" if spec.shape is None else f"its role is {spec.role!r}"
                raise ValueError(f"input {tensor!r} cannot be `mutated`: {why}")
        self.derived_axes  # noqa: B018 - putting them in order finds unknown names and cycles

    @cached_property
    def const_axes(self) -> dict[str, int]:
        """Lengths of the constant axes."""
        return {name: axis.value for name, axis in self.axes.items() if isinstance(axis, AxisConst)}

    @cached_property
    def var_axes(self) -> list[str]:
        """Names of the variable axes, in the order declared."""
        return [name for name, axis in self.axes.items() if isinstance(axis, AxisVar)]

    @cached_property
    def var_axes_bindings(self) -> dict[str, tuple[str, int]]:
        """Where each variable axis first occurs: input name and dimension."""
        bindings: dict[str, tuple[str, int]] = {}
        for tensor, spec in self.inputs.items():
            for dimension, axis in enumerate(spec.shape or ()):
                if isinstance(self.axes[axis], AxisVar):
                    bindings.setdefault(axis, (tensor, dimension))
        return bindings

    @cached_property
    def derived_axes(self) -> list[tuple[str, expressions.Expression]]:
        """Derived axes in an order in which each needs only earlier ones."""
        waiting = {
            name: expressions.parse(axis.expression)
            for name, axis in self.axes.items()
            if isinstance(axis, AxisExpr)
        }
        ordered: list[tuple[str, expressions.Expression]] = []
        while waiting:
            ready = [name for name, axis in waiting.items() if not axis.names & waiting.keys()]
            if not ready:
                raise ValueError(f"derived axes {listed(sorted(waiting))} depend on each other")
            ordered.extend((name, waiting.pop(name)) for name in ready)
        for name, expression in ordered:
            unknown = expression.names - self.axes.keys()
            if unknown:
                raise ValueError(
                    f"derived axis {name!r} uses unknown axis {listed(sorted(unknown))}"
                )
        return ordered

    def resolve_axes(self, var_values: Mapping[str, int]) -> dict[str, int]:
        """Give every axis its length: constants, the given variables, and what follows."""
        missing = [name for name in self.var_axes if name not in var_values]
        if missing:
            raise ValueError(f"{self.name}: no value for variable axis {listed(sorted(missing))}")
        values = self.const_axes | {name: var_values[name] for name in self.var_axes}
        for name, expression in self.derived_axes:
            values[name] = _length(name, expression, values)
        return values

    def get_axes_values(self, input_shapes: Iterable[Sequence[int] | None]) -> dict[str, int]:
        """Read the variable axes off input shapes given in call order (None for scalars).

        Constant dimensions are not compared.
        """
        values: dict[str, int] = {}
        for (tensor, spec), shape in zip(self.inputs.items(), input_shapes, strict=False):
            if spec.shape is None:
                continue
            if shape is None or len(shape) != len(spec.shape):
                raise ValueError(f"{self.name}: {tensor!r} needs shape {spec.shape}, got {shape}")
            for axis, size in zip(spec.shape, shape, strict=True):
                if isinstance(self.axes[axis], AxisVar) and values.setdefault(axis, size) != size:
                    raise ValueError(f"{self.name}: axis {axis!r} is {values[axis]} and {size}")
        unbound = [name for name in self.var_axes if name not in values]
        if unbound:
            raise ValueError(f"{self.name}: no input shape gives axis {listed(sorted(unbound))}")
        return values

    def get_axes_values_from_inputs(self, inputs: Iterable[object]) -> dict[str, int]:
        """Read the variable axes off actual inputs: whatever has a `shape` is a tensor."""
        shapes = [getattr(value, "shape", None) for value in inputs]
        return self.get_axes_values([None if shape is None else tuple(shape) for shape in shapes])

    def get_input_shapes(self, var_values: Mapping[str, int]) -> list[list[int] | None]:
        """Shapes of the inputs in call order; None for scalars."""
        return self._shapes(self.inputs.values(), var_values)

    def get_output_shapes(self, var_values: Mapping[str, int]) -> list[list[int] | None]:
        """Shapes of the outputs in order; None for scalars."""
        return self._shapes(self.outputs.values(), var_values)

    def _shapes(
        self, specs: Iterable[TensorSpec], var_values: Mapping[str, int]
    ) -> list[list[int] | None]:
        values = self.resolve_axes(var_values)
        return [
            None if spec.shape is None else [values[axis] for axis in spec.shape] for spec in specs
        ]

    def merge_kwargs_to_args(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Lay out a call positionally: inputs, then outputs; stop at the first one not given.

        Raises `TypeError` for too many positional arguments and for one given twice; names
        that are no parameter are dropped.
        """
        if not kwargs:
            return args
        parameters = [*self.inputs, *self.outputs]
        if len(args) > len(parameters):
            raise TypeError(
                f"{self.name} takes {len(parameters)} arguments, {len(args)} were given"
            )
        twice = [name for name in parameters[: len(args)] if name in kwargs]
        if twice:
            raise TypeError(f"{self.name} got two values for {listed(sorted(twice))}")
        merged = list(args)
        for name in parameters[len(args) :]:
            if name not in kwargs:
                break
            merged.append(kwargs[name])
        return tuple(merged)


def _length(name: str, expression: expressions.Expression, values: Mapping[str, int]) -> int:
    length = expression.evaluate(values)
    is_whole = not isinstance(length, float) or length.is_integer()
    if length < 0 or not is_whole:
        raise ValueError(f"derived axis {name!r}: {expression.text!r} is {length}, not a length")
    return int(length)
