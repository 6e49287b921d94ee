"""A definition and its workloads are drafted from what a function was seen to take and to give back."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.data.definition import Definition
from flashinfer_bench.data.shapes import AxisConst, AxisExpr, AxisSpec, AxisVar, TensorSpec
from flashinfer_bench.data.workload import (
    InputSpec,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Workload,
)
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Sizes = tuple[int, ...]
"""Length of one dimension in each set of example inputs."""


class SeenValue(msgspec.Struct, frozen=True):
    """One input or output as it was seen; a scalar has a value instead of a shape."""

    dtype: str
    shape: list[int] | None = None
    value: bool | int | float | None = None
    stored_in: str | None = None
    """File that keeps the values, where random ones would not do."""
    size: float | None = None
    """Root mean square of a floating output, over its finite elements."""


class SeenCall(msgspec.Struct, frozen=True):
    """One call of the function."""

    inputs: dict[str, SeenValue]
    outputs: list[SeenValue]


class SeenGradients(msgspec.Struct, frozen=True):
    """What of a function autograd can differentiate."""

    inputs: list[str]
    """Float inputs that some output depends on."""
    outputs: list[int]
    """Numbers of the outputs that have a gradient."""


class SeenFunction(msgspec.Struct, frozen=True):
    """What running a function showed."""

    calls: list[SeenCall]
    how: str
    """Where the example inputs came from."""
    doc: str = ""
    notes: list[str] = []
    gradients: SeenGradients | None = None
    """Only where they were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the author says about the definition to be drafted."""

    function: str
    reference: str
    name: str | None = None
    op_type: str | None = None
    axes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Axis names by input or output, one a dimension; `_` leaves one open."""
    hints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The same, as guessed from the source: dropped where they contradict the sizes."""
    output_names: Sequence[str] | None = None


@dataclass(slots=True)
class Draft:
    """A definition, its workloads without stored inputs' final paths, and what was guessed."""

    definition: Definition
    workloads: list[Workload]
    notes: list[str]


@dataclass(slots=True)
class _Axes:
    """Axes found so far: the length of each in every call."""

    is_single: bool
    sizes: dict[str, Sizes] = field(default_factory=dict)
    expressions: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, list[str]] = field(default_factory=dict)
    guessed_var: str | None = None
    notes: list[str] = field(default_factory=list)

    def is_variable(self, axis: str) -> bool:
        """Whether workloads choose its length."""
        return len(set(self.sizes[axis])) > 1 or axis == self.guessed_var

    def spec(self, axis: str) -> AxisSpec:
        """Describe an axis as a definition does."""
        if axis in self.expressions:
            return AxisExpr(expression=self.expressions[axis])
        return AxisVar() if self.is_variable(axis) else AxisConst(value=self.sizes[axis][0])

    def add(self, sizes: Sizes, *, is_leading: bool = False) -> str:
        """Add an axis under a name of its own."""
        varies = len(set(sizes)) > 1
        taken = self.sizes.keys()
        if "batch" not in taken and (varies or is_leading):
            name = "batch"
        else:
            name = next(f"dim{n}" for n in count() if f"dim{n}" not in taken)
        self.sizes[name] = sizes
        return name


def draft(seen: SeenFunction, wishes: Wishes) -> Draft:
    """Draft a definition, and one workload per call.

    Dimensions that are equally long in every call share an axis; an axis whose length differs between
    calls is variable. From one call nothing can be told apart: then the first dimension is guessed to
    be variable, and a note says so. Raises `UsageError` for what cannot be described.
    """
    axes = _Axes(is_single=len(seen.calls) == 1)
    _require_alike(seen)
    _place_named(axes, seen, wishes)
    _place_inputs(axes, seen)
    outputs = _output_names(seen, wishes)
    _place_outputs(axes, seen, outputs, wishes)
    definition = _definition(seen, wishes, axes, outputs)
    workloads = [_workload(definition, axes, call, index) for index, call in enumerate(seen.calls)]
    unique = list({workload.uuid: workload for workload in workloads}.values())
    return Draft(definition, unique, [*seen.notes, *axes.notes])


def _require_alike(seen: SeenFunction) -> None:
    """Refuse calls that differ in more than sizes and values."""
    first, *rest = (_kinds(call) for call in seen.calls)
    for index, kinds in enumerate(rest, start=2):
        if kinds != first:
            raise UsageError(
                f"sets 1 and {index} of example inputs differ in more than sizes: "
                f"{_described(first)} against {_described(kinds)}"
            )


def _kinds(call: SeenCall) -> list[tuple[str, str, int | None]]:
    named = [*call.inputs.items(), *((f"output {n}", v) for n, v in enumerate(call.outputs))]
    return [(n, v.dtype, None if v.shape is None else len(v.shape)) for n, v in named]


def _described(kinds: list[tuple[str, str, int | None]]) -> str:
    return ", ".join(
        f"{name}: {dtype} {'scalar' if rank is None else f'{rank}-d'}"
        for name, dtype, rank in kinds
    )


def _input_sizes(seen: SeenFunction) -> dict[str, list[Sizes]]:
    """Give the lengths of each tensor input's dimensions, over all calls."""
    return {
        name: list(zip(*(call.inputs[name].shape or () for call in seen.calls), strict=True))
        for name, value in seen.calls[0].inputs.items()
        if value.shape is not None
    }


def _place_named(axes: _Axes, seen: SeenFunction, wishes: Wishes) -> None:
    """Take the names that the author gave, then those the source suggests."""
    sizes = _input_sizes(seen)
    known = [*sizes, *_output_names(seen, wishes)]
    unknown = [name for name in wishes.axes if name not in known]
    if unknown:
        raise UsageError(f"--axes names {unknown[0]!r}, which is no tensor of {', '.join(known)}")
    axes.shapes = {name: [""] * len(dimensions) for name, dimensions in sizes.items()}
    for name, names in wishes.axes.items():
        if name not in sizes:
            continue  # an output: its turn comes when the inputs' axes are known
        if len(names) != len(sizes[name]):
            raise _miscounted(name, names, len(sizes[name]))
        for index, axis in enumerate(names):
            if axis != "_":
                _name(axes, name, index, axis, sizes[name][index])
    for name, names in wishes.hints.items():
        if len(names) == len(sizes.get(name, ())) and name not in wishes.axes:
            for index, axis in enumerate(names):
                if axis != "_" and axes.sizes.get(axis, sizes[name][index]) == sizes[name][index]:
                    _name(axes, name, index, axis, sizes[name][index])


def _name(axes: _Axes, tensor: str, index: int, axis: str, sizes: Sizes) -> None:
    if not axis.isidentifier():
        raise UsageError(f"--axes: {axis!r} is no name; use letters, digits and '_'")
    if axes.sizes.setdefault(axis, sizes) != sizes:
        raise UsageError(
            f"--axes: {axis!r} is {_lengths(axes.sizes[axis])} elsewhere, but {_lengths(sizes)} in "
            f"dimension {index} of {tensor!r}"
        )
    axes.shapes[tensor][index] = axis


def _place_inputs(axes: _Axes, seen: SeenFunction) -> None:
    sizes = _input_sizes(seen)
    leading = _leading_tensor(sizes)
    for name in sorted(sizes, key=lambda each: each != leading):  # it gets its names first
        for index, lengths in enumerate(sizes[name]):
            if not axes.shapes[name][index]:
                is_leading = axes.is_single and (name, index) == (leading, 0)
                axes.shapes[name][index] = _axis_for(axes, name, index, lengths, is_leading)
    if axes.is_single and leading is not None and axes.shapes[leading]:
        axes.guessed_var = axes.shapes[leading][0]
        axes.notes.append(
            f"one set of example inputs: {axes.guessed_var!r}, the first dimension of {leading!r}, was "
            "guessed to be the only variable axis; give two sets of different sizes to have it told"
        )


def _leading_tensor(sizes: Mapping[str, list[Sizes]]) -> str | None:
    """Choose the tensor whose first dimension is most likely the variable one."""
    matrices = (name for name, dimensions in sizes.items() if len(dimensions) > 1)
    return next(matrices, next((name for name, dimensions in sizes.items() if dimensions), None))


def _axis_for(axes: _Axes, tensor: str, index: int, sizes: Sizes, is_leading: bool) -> str:
    """Find the axis of these lengths, or add one; no axis twice in a tensor on one call's word."""
    here = axes.shapes[tensor]
    varies = len(set(sizes)) > 1
    same = [a for a, s in axes.sizes.items() if s == sizes and (varies or a not in here)]
    if not same or is_leading:
        return axes.add(sizes, is_leading=is_leading)
    chosen = _likeliest(axes, same, index - len(here))
    _note_choice(axes, tensor, index, chosen, same)
    return chosen


def _likeliest(axes: _Axes, candidates: Sequence[str], from_end: int) -> str:
    """Prefer an axis that stands at the same place, counted from the end, in some input."""
    for axis in candidates:
        for shape in axes.shapes.values():
            if len(shape) >= -from_end and shape[from_end] == axis:
                return axis
    return candidates[0]


def _output_names(seen: SeenFunction, wishes: Wishes) -> list[str]:
    """Name the outputs as the function's `return` does, where that names them all."""
    outputs = seen.calls[0].outputs
    names = list(wishes.output_names or ())
    taken = seen.calls[0].inputs.keys()
    if len(names) == len(outputs) and len(set(names)) == len(names) and not taken & set(names):
        return names
    names = ["output"] if len(outputs) == 1 else [f"output_{n}" for n in range(len(outputs))]
    return [f"{name}_" if name in taken else name for name in names]


def _miscounted(name: str, axes: Sequence[str], dimensions: int) -> UsageError:
    """Say that an axis is too many, or missing."""
    wanted = f"{dimensions} dimension" + ("" if dimensions == 1 else "s")
    return UsageError(
        f"--axes {name}={','.join(axes)}: {name!r} has {wanted}; name each, or put `_`"
    )


def _place_outputs(axes: _Axes, seen: SeenFunction, names: Sequence[str], wishes: Wishes) -> None:
    for position, name in enumerate(names):
        shapes = [call.outputs[position].shape or [] for call in seen.calls]
        dimensions: list[Sizes] = list(zip(*shapes, strict=True))
        given = list(wishes.axes.get(name, ["_"] * len(dimensions)))
        if len(given) != len(dimensions):
            raise _miscounted(name, given, len(dimensions))
        axes.shapes[name] = [""] * len(dimensions)
        for index, (sizes, axis) in enumerate(zip(dimensions, given, strict=True)):
            if axis == "_":
                axes.shapes[name][index] = _output_axis(axes, name, index, sizes)
            else:
                _name(axes, name, index, axis, sizes)


def _output_axis(axes: _Axes, output: str, index: int, sizes: Sizes) -> str:
    same = [axis for axis, each in axes.sizes.items() if each == sizes]
    if same:
        chosen = _likeliest(axes, same, index - len(axes.shapes[output]))
        _note_choice(axes, output, index, chosen, same)
        return chosen
    if len(set(sizes)) == 1:
        return axes.add(sizes)
    expression = _expression(axes, sizes)
    if expression is None:
        raise UsageError(
            f"dimension {index} of {output!r} is {_lengths(sizes)}, which follows from no input's "
            "shape; a definition needs to know its length beforehand"
        )
    axis = _derived(axes, sizes)
    axes.expressions[axis] = expression
    return axis


def _note_choice(
    axes: _Axes, tensor: str, index: int, chosen: str, candidates: Sequence[str]
) -> None:
    others = ", ".join(repr(each) for each in candidates if each != chosen)
    if others:
        axes.notes.append(
            f"dimension {index} of {tensor!r} is as long as several axes: taken for {chosen!r}, could "
            f"be {others}; --axes says otherwise"
        )


def _derived(axes: _Axes, sizes: Sizes) -> str:
    name = next(f"dim{n}" for n in count() if f"dim{n}" not in axes.sizes)
    axes.sizes[name] = sizes
    return name


def _expression(axes: _Axes, sizes: Sizes) -> str | None:
    """Express lengths by one or two axes: a multiple, a part, a constant more or less, a product, a sum."""
    varying = {axis: s for axis, s in axes.sizes.items() if axis not in axes.expressions}
    return next(_expressions(varying, sizes), None)


def _expressions(axes: Mapping[str, Sizes], sizes: Sizes) -> Iterator[str]:
    for axis, lengths in axes.items():
        pairs = list(zip(sizes, lengths, strict=True))
        if len(set(lengths)) == 1 or not all(lengths):
            continue
        factor, divisor = sizes[0] // lengths[0], lengths[0] // max(sizes[0], 1)
        if factor > 1 and all(size == factor * length for size, length in pairs):
            yield f"{factor} * {axis}"
        if divisor > 1 and all(size == length // divisor for size, length in pairs):
            yield f"{axis} // {divisor}"
        if len({size - length for size, length in pairs}) == 1:
            difference = sizes[0] - lengths[0]
            yield f"{axis} {'+' if difference > 0 else '-'} {abs(difference)}"
    for axis, lengths in axes.items():
        for other, others in axes.items():
            if sizes == tuple(a * b for a, b in zip(lengths, others, strict=True)):
                yield f"{axis} * {other}"
            if sizes == tuple(a + b for a, b in zip(lengths, others, strict=True)):
                yield f"{axis} + {other}"


def _definition(
    seen: SeenFunction, wishes: Wishes, axes: _Axes, outputs: Sequence[str]
) -> Definition:
    first = seen.calls[0]
    inputs = {
        name: TensorSpec(
            shape=None if value.shape is None else axes.shapes[name], dtype=value.dtype
        )
        for name, value in first.inputs.items()
    }
    specs = {axis: axes.spec(axis) for axis in axes.sizes}
    return Definition(
        name=wishes.name or _default_name(wishes.function, specs),
        op_type=wishes.op_type or wishes.function,
        axes=specs,
        inputs=inputs,
        outputs={
            name: TensorSpec(shape=axes.shapes[name], dtype=value.dtype)
            for name, value in zip(outputs, first.outputs, strict=True)
        },
        reference=wishes.reference,
        description=seen.doc or None,
    )


def _default_name(function: str, axes: Mapping[str, AxisSpec]) -> str:
    """Name by the function and its constants.

    >>> _default_name("rmsnorm", {"batch": AxisVar(), "hidden": AxisConst(value=4096)})
    'rmsnorm_h4096'
    """
    constants = [f"{n[0]}{axis.value}" for n, axis in axes.items() if isinstance(axis, AxisConst)]
    return "_".join([function, *dict.fromkeys(constants)])


def _workload(definition: Definition, axes: _Axes, call: SeenCall, index: int) -> Workload:
    inputs: dict[str, InputSpec] = {}
    for name, value in call.inputs.items():
        if value.shape is None:
            assert value.value is not None
            inputs[name] = ScalarInput(value=value.value)
        elif value.stored_in is not None:
            inputs[name] = SafetensorsInput(path=value.stored_in, tensor_key=name)
        else:
            inputs[name] = RandomInput()
    return Workload(
        axes={axis: axes.sizes[axis][index] for axis in definition.var_axes}, inputs=inputs
    )


def _lengths(sizes: Sizes) -> str:
    different = list(dict.fromkeys(sizes))
    return str(different[0]) if len(different) == 1 else f"({', '.join(map(str, sizes))})"
