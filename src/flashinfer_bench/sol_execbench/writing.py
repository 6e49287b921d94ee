"""A dataset as problems of SOL-ExecBench; what has no form there is left out by name."""

from __future__ import annotations

import ast
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.data.layout import name as part_of_path
from flashinfer_bench.data.opening import path_inside
from flashinfer_bench.data.shapes import AxisConst
from flashinfer_bench.data.workload import RandomInput, SafetensorsInput
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.judging.choice import SUMMED_RATIO, judge_name
from flashinfer_bench.sol_execbench.entities import (
    DEFINITION_FILE,
    REFERENCE_FILE,
    SOLUTIONS_FOLDER,
    WORKLOAD_FILE,
    SolDefinition,
    SolSolution,
    SolWorkload,
)
from flashinfer_bench.sol_execbench.mapping import (
    ELEMENTS_AXIS,
    FOUR_BIT,
    LANGUAGES,
    LITERAL_AXIS,
    MODEL_TAG,
    OP_TYPE,
    SOURCE_TAG,
    TINY,
    family_of,
)
from flashinfer_bench.sol_execbench.random_inputs import drawn_there
from flashinfer_bench.sol_execbench.reading import LeftOutThere
from flashinfer_bench.sol_execbench.traces import TRACES_FILE, result_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.entity import Entity
    from flashinfer_bench.data.shapes import TensorSpec
    from flashinfer_bench.data.solution import Solution, SourceFile
    from flashinfer_bench.data.trace_set import TraceSet
    from flashinfer_bench.data.workload import Workload

_NAMES = frozenset({DEFINITION_FILE, WORKLOAD_FILE, REFERENCE_FILE, SOLUTIONS_FOLDER, TRACES_FILE})
_HARDWARE = frozenset({"B200", "LOCAL"})
_NOT_THERE = (ast.Call, ast.Compare, ast.BoolOp, ast.IfExp, ast.Not)
"""What our expressions may have and theirs may not."""
E = TypeVar("E", bound="Entity")


@dataclass(slots=True)
class ExportSummary:
    """What an export wrote, and what it did not."""

    definitions: list[str] = field(default_factory=list)
    workloads: int = 0
    solutions: list[str] = field(default_factory=list)
    traces: int = 0
    left_out: list[LeftOutThere] = field(default_factory=list)


def write(trace_set: TraceSet, draft: Path) -> ExportSummary:
    """Write a folder for each definition."""
    written = ExportSummary()
    for name, definition in trace_set.definitions.items():
        label = _label(definition)
        try:
            _write_problem(trace_set, definition, path_inside(draft, label), written)
        except (DatasetError, UsageError) as error:
            written.left_out.append(LeftOutThere(label, "problem", name, str(error)))
    return written


def _write_problem(
    trace_set: TraceSet, definition: Definition, folder: Path, written: ExportSummary
) -> None:
    problem = _definition(definition)
    if folder.exists():
        raise UsageError("another definition comes from the same problem")
    files: dict[str, str] = {}
    lines = []
    for trace in trace_set.workloads.get(definition.name, []):
        try:
            lines.append(_workload(trace_set, definition, trace.workload, files))
        except (DatasetError, UsageError) as error:
            name = trace.workload.uuid
            written.left_out.append(LeftOutThere(_label(definition), "workload", name, str(error)))
    if not lines:
        has_some = bool(trace_set.workloads.get(definition.name))
        raise UsageError(
            "none of its workloads can be written" if has_some else "it has no workloads"
        )
    folder.mkdir(parents=True)
    (folder / DEFINITION_FILE).write_text(f"{problem.to_json(indent=2)}\n", encoding="utf-8")
    (folder / REFERENCE_FILE).write_text(definition.reference, encoding="utf-8", newline="")
    (folder / WORKLOAD_FILE).write_text(
        "".join(f"{each.to_json()}\n" for each in lines), encoding="utf-8"
    )
    _copy(trace_set, files, folder)
    written.definitions.append(definition.name)
    written.workloads += len(lines)
    _write_solutions(trace_set, definition, folder, written)
    _write_traces(trace_set, definition, folder, {each.uuid: each for each in lines}, written)


def _write_solutions(
    trace_set: TraceSet, definition: Definition, folder: Path, written: ExportSummary
) -> None:
    for solution in trace_set.solutions.get(definition.name, []):
        try:
            file = folder / SOLUTIONS_FOLDER / f"{part_of_path(solution.name)}.json"
            text = f"{_solution(solution).to_json(indent=2)}\n"
        except (DatasetError, UsageError) as error:
            left = LeftOutThere(_label(definition), "solution", solution.name, str(error))
            written.left_out.append(left)
            continue
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.solutions.append(solution.name)


def _write_traces(
    trace_set: TraceSet,
    definition: Definition,
    folder: Path,
    workloads: Mapping[str, SolWorkload],
    written: ExportSummary,
) -> None:
    """Write the results of the workloads that are written."""
    lines = []
    for trace in trace_set.traces.get(definition.name, []):
        workload = workloads.get(trace.workload.uuid)
        if workload is None:
            continue
        try:
            lines.append(f"{result_of(trace, definition.name, workload).to_json()}\n")
        except UsageError as error:
            label, name = _label(definition), f"{trace.solution} on {workload.uuid}"
            written.left_out.append(LeftOutThere(label, "trace", name, str(error)))
    if lines:
        (folder / TRACES_FILE).write_text("".join(lines), encoding="utf-8")
    written.traces += len(lines)


def _label(definition: Definition) -> str:
    """Tell the folder a definition came from, or goes to."""
    tagged = [tag.removeprefix(SOURCE_TAG) for tag in definition.tags if tag.startswith(SOURCE_TAG)]
    return tagged[0] if tagged else f"{definition.op_type}/{definition.name}"


def _definition(definition: Definition) -> SolDefinition:
    judge = judge_name(definition)
    if judge not in {"elementwise", "summed"}:
        raise UsageError(f"its judge, {judge}, has no form there")
    if definition.mutated_inputs:
        raise UsageError(
            f"input {definition.mutated_inputs[0]!r} is mutated: nothing looks at it there"
        )
    shared = sorted(definition.inputs.keys() & definition.axes.keys())
    if shared:
        raise UsageError(f"{shared[0]!r} is an input and an axis, which their loader refuses")
    literal = _literal_axes(definition)
    models = [tag.removeprefix(MODEL_TAG) for tag in definition.tags if tag.startswith(MODEL_TAG)]
    tensors = {
        kind: {name: _tensor(spec, literal) for name, spec in specs.items()}
        for kind, specs in (("inputs", definition.inputs), ("outputs", definition.outputs))
    }
    return _made(
        SolDefinition,
        {
            "name": definition.name,
            "description": definition.description,
            "op_type": family_of(definition) or _own_family(definition),
            "hf_id": models[0] if models else None,
            "axes": {
                name: definition.axes[name].to_dict() for name in _in_order(definition, literal)
            },
            **tensors,
            "reference": definition.reference,
            "custom_inputs_entrypoint": definition.custom_inputs_entrypoint,
        },
    )


def _own_family(definition: Definition) -> str | None:
    return None if definition.op_type == OP_TYPE else definition.op_type


def _tensor(spec: TensorSpec, literal: Mapping[str, str]) -> dict[str, Any]:
    content = {"dtype": str(spec.dtype)} | (
        {} if not spec.description else {"description": spec.description}
    )
    axes = [axis.removeprefix(ELEMENTS_AXIS) for axis in spec.shape or ()]
    shape = None if spec.shape is None else [literal.get(axis, axis) for axis in axes]
    return {"shape": shape, **content}


def _literal_axes(definition: Definition) -> dict[str, str]:
    """Give, by the names of axes, the digits that stood in shapes there."""
    return {
        name: str(axis.value)
        for name, axis in definition.axes.items()
        if isinstance(axis, AxisConst)
        and name.rstrip("_") == f"{LITERAL_AXIS}{axis.value}".rstrip("_")
    }


def _in_order(definition: Definition, literal: Mapping[str, str]) -> list[str]:
    """Name the axes so that derived ones come behind all that they need; refuse what nobody evaluates there."""
    derived = [name for name, _ in definition.derived_axes]
    for name, expression in definition.derived_axes:
        nodes = list(ast.walk(ast.parse(expression.text.strip(), mode="eval")))
        if any(isinstance(node, _NOT_THERE) for node in nodes):
            raise UsageError(f"axis {name!r}: {expression.text!r} cannot be evaluated there")
    others = [name for name in definition.axes if name not in derived and name not in literal]
    return [*others, *(name for name in derived if not name.startswith(ELEMENTS_AXIS))]


def _workload(
    trace_set: TraceSet, definition: Definition, workload: Workload, files: dict[str, str]
) -> SolWorkload:
    """Write a workload with the tolerance that is in force here; `files` takes what it needs stored."""
    optional = [n for n, s in definition.inputs.items() if s.optional and n not in workload.inputs]
    if optional:
        raise UsageError(f"input {optional[0]!r} is left out: there every input is passed")
    shapes = definition.get_input_shapes(workload.axes)
    shape_of = dict(zip(definition.inputs, shapes, strict=True))
    needed: dict[str, str] = {}
    inputs = {}
    for name in definition.inputs:
        source = workload.inputs.get(name, RandomInput())
        if isinstance(source, RandomInput):
            spec = definition.inputs[name]
            family = family_of(definition) or definition.op_type
            theirs = drawn_there(name, shape_of[name], str(spec.dtype), spec.description, family)
            if source.layout is not None:
                raise UsageError(f"input {name!r} is {source.layout}, as nothing is there")
            if source.distribution not in (None, theirs):
                raise UsageError(f"input {name!r} has a distribution, which has no form there")
            inputs[name] = {"type": "random"}
        elif isinstance(source, SafetensorsInput):
            _require_pairs(name, definition)
            if source.scaled:
                raise UsageError(
                    f"input {name!r} is scaled anew for each call, as nothing is there"
                )
            if source.permuted:
                raise UsageError(
                    f"input {name!r} has its rows in another order in each call, as nothing is there"
                )
            path = _path_there(trace_set, definition, source.path)
            needed[path] = source.path
            inputs[name] = {"type": "safetensors", "path": path, "tensor_key": source.tensor_key}
        else:
            inputs[name] = source.to_dict()
    kinds = {each["type"] for each in inputs.values()}
    if (
        "custom" in kinds
    ):  # there all inputs that a workload lists are custom, or none; others are random
        if kinds - {"custom", "random"}:
            raise UsageError(
                "some of its inputs are custom, others given: there it is one or the other"
            )
        inputs = {name: each for name, each in inputs.items() if each["type"] == "custom"}
    rules = BenchmarkConfig.default().resolve_eval_config(definition, workload)
    is_summed = judge_name(definition) == "summed"
    tolerance = {
        "max_atol": _zero_if_tiny(rules.atol),
        "max_rtol": _zero_if_tiny(rules.rtol),
        "required_matched_ratio": rules.required_matched_ratio
        or (SUMMED_RATIO if is_summed else 1.0),
        "max_error_cap": rules.extra.get("absolute_error_cap") if is_summed else None,
        "allow_negative_inf": bool(rules.extra.get("allow_negative_inf")) if is_summed else True,
    }
    axes = {name: workload.axes[name] for name in definition.var_axes if name in workload.axes}
    made = _made(
        SolWorkload,
        {"uuid": workload.uuid, "axes": axes, "inputs": inputs, "tolerance": tolerance},
    )
    files.update(needed)
    return made


def _require_pairs(name: str, definition: Definition) -> None:
    spec = definition.inputs[name]
    if spec.dtype == FOUR_BIT and not (spec.shape or [""])[-1].startswith(ELEMENTS_AXIS):
        raise UsageError(f"input {name!r} is stored in four bits: there its shape counts pairs")


def _zero_if_tiny(tolerance: float) -> float:
    return 0.0 if tolerance <= TINY else tolerance


def _path_there(trace_set: TraceSet, definition: Definition, stored: str) -> str:
    """Name a stored file by its path in the folder of all problems, which FLASHINFER_TRACE_DIR has to name there."""
    if not trace_set.find_blob(stored).is_file():
        raise DatasetError(f"its file {stored} is not there")
    folder = Layout(Path()).blob_workloads / definition.op_type / definition.name
    path = stored.removeprefix(f"{folder.as_posix()}/")
    if PurePosixPath(path).parts[0] in _NAMES:
        raise UsageError(f"its file would be {path}, which is the problem's own")
    return f"{_label(definition)}/{path}"


def _copy(trace_set: TraceSet, files: dict[str, str], folder: Path) -> None:
    for path, stored in files.items():
        target = path_inside(folder, path.split("/", 2)[2])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(trace_set.find_blob(stored), target)


def _solution(solution: Solution) -> SolSolution:
    spec = solution.spec
    if spec.prepare or spec.plan:
        raise UsageError("it has a prepare or plan function, which nobody would call there")
    named = [name for name, ours in LANGUAGES.items() if ours == (str(spec.language), spec.dsl)]
    if not named:
        dsl = f" with {spec.dsl}" if spec.dsl else ""
        raise UsageError(f"its language, {spec.language}{dsl}, has no name there")
    binding = spec.effective_binding
    if binding not in (None, "torch"):
        raise UsageError(f"its binding, {binding}, has no form there; bind it with torch")
    content = {k: v for k, v in solution.to_dict().items() if k != "sources"}
    content["sources"] = [_source(source) for source in solution.sources]
    content["spec"] = {
        "languages": named[:1],
        "target_hardware": [each for each in spec.target_hardware if each in _HARDWARE]
        or ["LOCAL"],
        "entry_point": spec.entry_point,
        "dependencies": spec.dependencies,
        "destination_passing_style": spec.destination_passing_style,
        "binding": binding,
        "compile_options": None if spec.compile_options is None else spec.compile_options.to_dict(),
    }
    return _made(SolSolution, content)


def _source(source: SourceFile) -> dict[str, str]:
    """Write a source; an empty one gets a comment, as their loader refuses it."""
    if source.content:
        return source.to_dict()
    if not source.path.endswith(".py"):
        raise UsageError(f"its source {source.path} is empty, which their loader refuses")
    return {"path": source.path, "content": "# empty\n"}


def _made(cls: type[E], content: Any) -> E:
    try:
        return cls.model_validate_json(json.dumps(content))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    place = ".".join(map(str, fault["loc"]))
    raise UsageError(f"{place}: {str(fault['msg']).removeprefix('Value error, ')}")
