"""What a dataset holds, as values: `list` counts it, `show` takes one thing of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from flashinfer_bench.data.near_duplicates import near_duplicates_by_name
from flashinfer_bench.report.generation import newest_generation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from flashinfer_bench.data import Definition, Solution, Trace, TraceSet, Workload
    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.data.shapes import AxisSpec, TensorSpec
    from flashinfer_bench.data.trace import Evaluation

KINDS = ("definitions", "solutions", "workloads", "traces")
_BITS = {"bool": 8, "bfloat16": 16, "float4_e2m1": 4, "float8_e4m3fn": 8, "float8_e5m2": 8}


@dataclass(frozen=True, slots=True)
class ListedDefinition:
    """A definition, and how much there is of it."""

    name: str
    op_type: str
    axes: dict[str, str]
    """`var`, `const: 8` or the expression, by name."""
    inputs: dict[str, str]
    """Shape and dtype, by name."""
    outputs: dict[str, str]
    workloads: int
    solutions: int
    traces: int


@dataclass(frozen=True, slots=True)
class HeldSolution:
    """A solution, and how large it is."""

    name: str
    definition: str
    author: str
    language: str
    target_hardware: tuple[str, ...]
    files: int
    size_bytes: int
    hash: str
    traces: int


@dataclass(frozen=True, slots=True)
class ListedWorkload:
    """A workload, and how large its tensors are."""

    definition: str
    uuid: str
    axes: dict[str, int]
    size_class: str | None
    size_bytes: int | None
    """Of its inputs and outputs; None where axes are missing."""
    traces: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """What of a dataset was asked for; None where it was not."""

    definitions: tuple[ListedDefinition, ...] | None
    solutions: tuple[HeldSolution, ...] | None
    workloads: tuple[ListedWorkload, ...] | None
    traces: tuple[TraceRow, ...] | None


@dataclass(frozen=True, slots=True)
class ShownTensor:
    """One input or output."""

    name: str
    shape: tuple[str | int, ...] | None
    """Axis names, or lengths where a workload gives them; None is a Python scalar."""
    dtype: str
    size_bytes: int | None = None
    source: str | None = None
    """Where a workload's input comes from."""
    description: str | None = None
    observed: dict[str, float] | None = None
    """What its floats were like in the call that the workload was traced from."""


@dataclass(frozen=True, slots=True)
class ShownSource:
    """A file of a solution."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class ShownDefinition:
    """All there is of a definition."""

    kind: Literal["definition"]
    name: str
    op_type: str
    description: str | None
    hash: str
    world_size: int | None
    """How many ranks compute it together; None where it is one process."""
    axes: dict[str, str]
    inputs: tuple[ShownTensor, ...]
    outputs: tuple[ShownTensor, ...]
    constraints: tuple[str, ...]
    workloads: tuple[ListedWorkload, ...]
    solutions: tuple[HeldSolution, ...]
    traces: int
    reference: str


@dataclass(frozen=True, slots=True)
class ShownSolution:
    """All there is of a solution."""

    kind: Literal["solution"]
    name: str
    definition: str
    author: str
    description: str | None
    license: str | None
    """An SPDX expression."""
    hash: str
    near_duplicates: dict[str, float]
    """Solutions of the definition whose source is nearly the same, and how alike, from 0.85 to 1."""
    generated: dict[str, Any] | None
    """How a program came to this code, as the newest trace that knows says; and the solution it was made from."""
    language: str
    entry_point: str
    calling_style: Literal["into", "returns"]
    """`into` where outputs are passed in, `returns` where they are given back."""
    target_hardware: tuple[str, ...]
    dependencies: tuple[str, ...]
    sources: tuple[ShownSource, ...]
    traces: tuple[TraceRow, ...]


@dataclass(frozen=True, slots=True)
class ShownWorkload:
    """All there is of a workload."""

    kind: Literal["workload"]
    definition: str
    uuid: str
    axes: dict[str, int]
    size_class: str | None
    inputs: tuple[ShownTensor, ...]
    outputs: tuple[ShownTensor, ...]
    traces: tuple[TraceRow, ...]


@dataclass(frozen=True, slots=True)
class ShownTrace:
    """A trace as it is recorded."""

    kind: Literal["trace"]
    trace: dict[str, Any]


Shown = ShownDefinition | ShownSolution | ShownWorkload | ShownTrace


def holdings(
    trace_set: TraceSet, kinds: Iterable[str], definitions: Sequence[Definition]
) -> Holdings:
    """List what the dataset holds of these definitions."""
    wanted = set(kinds)
    names = {each.name for each in definitions}
    rows = [row for row in trace_set.rows() if row.definition in names]
    solutions = [each for name in sorted(names) for each in trace_set.solutions.get(name, ())]
    return Holdings(
        tuple(_definition_line(trace_set, each, rows) for each in definitions)
        if "definitions" in wanted
        else None,
        tuple(_solution_line(each, rows) for each in solutions) if "solutions" in wanted else None,
        tuple(line for each in definitions for line in _workload_lines(trace_set, each, rows))
        if "workloads" in wanted
        else None,
        tuple(rows) if "traces" in wanted else None,
    )


def shown_definition(trace_set: TraceSet, definition: Definition) -> ShownDefinition:
    """Put together all there is of a definition."""
    rows = list(trace_set.rows(definition.name))
    solutions = trace_set.solutions.get(definition.name, [])
    return ShownDefinition(
        kind="definition",
        name=definition.name,
        op_type=definition.op_type,
        description=definition.description,
        hash=definition.hash(),
        world_size=definition.world_size,
        axes=_axes(definition),
        inputs=_tensors(definition.inputs),
        outputs=_tensors(definition.outputs),
        constraints=tuple(definition.constraints),
        workloads=tuple(_workload_lines(trace_set, definition, rows)),
        solutions=tuple(_solution_line(each, rows) for each in solutions),
        traces=len(rows),
        reference=definition.reference,
    )


def shown_solution(trace_set: TraceSet, solution: Solution) -> ShownSolution:
    """Put together all there is of a solution."""
    spec = solution.spec
    near = near_duplicates_by_name(trace_set.solutions.get(solution.definition, []))
    return ShownSolution(
        kind="solution",
        name=solution.name,
        definition=solution.definition,
        author=solution.author,
        description=solution.description,
        license=solution.license,
        hash=solution.hash(),
        near_duplicates=near.get(solution.name, {}),
        generated=newest_generation(
            _evaluations(trace_set, solution),
            solution.hash(),
            trace_set.solutions.get(solution.definition, []),
        ),
        language=spec.language.value,
        entry_point=spec.entry_point,
        calling_style="into" if spec.destination_passing_style else "returns",
        target_hardware=tuple(spec.target_hardware),
        dependencies=tuple(spec.dependencies),
        sources=tuple(ShownSource(each.path, each.content) for each in solution.sources),
        traces=tuple(
            row for row in _rows_of(trace_set, solution.definition) if row.solution == solution.name
        ),
    )


def _evaluations(trace_set: TraceSet, solution: Solution) -> Iterator[Evaluation]:
    """Read what became of this code, the newest first, as far as it is asked for."""
    definition, code = solution.definition, solution.hash()
    rows = list(trace_set.traces.rows(definition, lambda _: (None, None)))
    for index, row in reversed(rows):
        if row.solution_hash == code:
            evaluation = trace_set.traces.trace_at(definition, index).evaluation
            if evaluation is not None:
                yield evaluation


def shown_workload(
    trace_set: TraceSet, definition: Definition, workload: Workload
) -> ShownWorkload:
    """Put together all there is of a workload."""
    return ShownWorkload(
        kind="workload",
        definition=definition.name,
        uuid=workload.uuid,
        axes=dict(workload.axes),
        size_class=workload.size_class,
        inputs=_tensors(definition.inputs, definition, workload),
        outputs=_tensors(definition.outputs, definition, workload),
        traces=tuple(
            row
            for row in _rows_of(trace_set, definition.name)
            if row.workload_uuid == workload.uuid
        ),
    )


def shown_trace(trace: Trace) -> ShownTrace:
    """Give a trace as it is recorded."""
    return ShownTrace("trace", trace.to_dict())


def axis_text(axis: AxisSpec) -> str:
    """Say what gives an axis its length."""
    match axis.type:
        case "const":
            return f"const: {axis.value}"
        case "expr":
            return axis.expression
        case _:
            return "var"


def _rows_of(trace_set: TraceSet, definition: str) -> list[TraceRow]:
    return list(trace_set.rows(definition))


def _definition_line(
    trace_set: TraceSet, definition: Definition, rows: Sequence[TraceRow]
) -> ListedDefinition:
    return ListedDefinition(
        name=definition.name,
        op_type=definition.op_type,
        axes=_axes(definition),
        inputs={name: _spec_text(spec) for name, spec in definition.inputs.items()},
        outputs={name: _spec_text(spec) for name, spec in definition.outputs.items()},
        workloads=len(trace_set.workloads.get(definition.name, ())),
        solutions=len(trace_set.solutions.get(definition.name, ())),
        traces=sum(row.definition == definition.name for row in rows),
    )


def _solution_line(solution: Solution, rows: Sequence[TraceRow]) -> HeldSolution:
    return HeldSolution(
        name=solution.name,
        definition=solution.definition,
        author=solution.author,
        language=solution.spec.language.value,
        target_hardware=tuple(solution.spec.target_hardware),
        files=len(solution.sources),
        size_bytes=sum(len(each.content.encode()) for each in solution.sources),
        hash=solution.hash(),
        traces=sum(row.solution == solution.name for row in rows),
    )


def _workload_lines(
    trace_set: TraceSet, definition: Definition, rows: Sequence[TraceRow]
) -> list[ListedWorkload]:
    return [
        ListedWorkload(
            definition=definition.name,
            uuid=each.workload.uuid,
            axes=dict(each.workload.axes),
            size_class=each.workload.size_class,
            size_bytes=_workload_bytes(definition, each.workload),
            traces=sum(row.workload_uuid == each.workload.uuid for row in rows),
        )
        for each in trace_set.workloads.get(definition.name, ())
    ]


def _workload_bytes(definition: Definition, workload: Workload) -> int | None:
    tensors = (
        *_tensors(definition.inputs, definition, workload),
        *_tensors(definition.outputs, definition, workload),
    )
    sizes = [each.size_bytes for each in tensors if each.shape is not None]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _axes(definition: Definition) -> dict[str, str]:
    return {name: axis_text(axis) for name, axis in definition.axes.items()}


def _tensors(
    specs: Mapping[str, TensorSpec],
    definition: Definition | None = None,
    workload: Workload | None = None,
) -> tuple[ShownTensor, ...]:
    lengths = _lengths(definition, workload)
    return tuple(_tensor(name, spec, lengths, workload) for name, spec in specs.items())


def _lengths(definition: Definition | None, workload: Workload | None) -> dict[str, int]:
    if definition is None or workload is None:
        return {}
    try:
        return definition.resolve_axes(workload.axes)
    except ValueError:  # `validate` says what is wrong with it
        return dict(workload.axes)


def _tensor(
    name: str, spec: TensorSpec, lengths: Mapping[str, int], workload: Workload | None
) -> ShownTensor:
    source = workload.inputs.get(name) if workload is not None else None
    observed = workload.observed.get(name) if workload is not None else None
    shape = None if spec.shape is None else tuple(lengths.get(axis, axis) for axis in spec.shape)
    return ShownTensor(
        name=name,
        shape=shape,
        dtype=spec.dtype.value,
        size_bytes=_size_bytes(shape, spec.dtype.value),
        source=None if source is None else _source_text(source.to_dict()),
        description=spec.description,
        observed=None if observed is None else observed.to_dict(),
    )


def _source_text(source: Mapping[str, Any]) -> str:
    """Say where an input comes from: its type, then what else it declares."""
    rest = ", ".join(f"{key}={value}" for key, value in source.items() if key != "type")
    return f"{source['type']}" + (f" ({rest})" if rest else "")


def _size_bytes(shape: Sequence[str | int] | None, dtype: str) -> int | None:
    if shape is None:
        return None
    lengths = [each for each in shape if isinstance(each, int)]
    if len(lengths) < len(shape):
        return None
    bits = _BITS.get(dtype) or int("".join(filter(str.isdigit, dtype)))
    return math.prod(lengths) * bits // 8


def _spec_text(spec: TensorSpec) -> str:
    return f"{shape_text(spec.shape)} {spec.dtype.value}"


def shape_text(shape: Sequence[str | int] | None) -> str:
    """Write a shape in brackets; a scalar has none."""
    return "scalar" if shape is None else f"[{', '.join(map(str, shape))}]"
