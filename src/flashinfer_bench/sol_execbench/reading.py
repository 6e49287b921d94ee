"""A folder of problems is read: what cannot be brought is left out by name, and the rest goes on."""

from __future__ import annotations

import ast
import contextlib
import os
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.files import numbered_lines
from flashinfer_bench.data.layout import name as part_of_path
from flashinfer_bench.data.opening import (
    DOCUMENT_BYTES,
    LINES_BYTES,
    path_inside,
    read_bytes,
    require_inside,
)
from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, parse
from flashinfer_bench.data.rules.safetensors_header import read_header
from flashinfer_bench.data.shapes import AxisConst
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.sol_execbench.entities import (
    DEFINITION_FILE,
    REFERENCE_FILE,
    SOLUTIONS_FOLDER,
    WORKLOAD_FILE,
    SolConfig,
    SolCustom,
    SolDefinition,
    SolSafetensors,
    SolScalar,
    SolSolution,
    SolWorkload,
)
from flashinfer_bench.sol_execbench.mapping import (
    FOUR_BIT,
    UNTRIED,
    axes_of,
    definition_of,
    require_inputs,
    solution_of,
)
from flashinfer_bench.sol_execbench.traces import TRACES_PATTERN, FoundTrace, read_traces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.solution import Solution

_NAMED_BY_OTHERS = (
    "solution*.json",
    TRACES_PATTERN,
    "*.safetensors",
    "*.py",
    "*.cu",
    "*.cuh",
    "*.c*",
    "*.h*",
    "*.md",
)
"""Solutions, results, what solutions name, and files of users' own."""
CONFIG_FILE = "config.json"
_FAULTS = (DatasetError, UsageError)


@dataclass(frozen=True, slots=True)
class LeftOutThere:
    """Something that is not brought here, and why."""

    problem: str
    kind: str
    """`problem`, `workload`, `solution`, `trace` or `file`."""
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What was read of one problem."""

    folder: Path
    label: str
    """Its group and its folder, such as `L1/softmax`."""
    definition: Definition
    custom_inputs: str | None
    """The function that makes custom inputs."""
    constants: dict[str, int] = field(default_factory=dict)
    """Lengths of axes that only some workloads give."""
    workloads: list[SolWorkload] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    """Stored tensors by the path that workloads name."""
    solutions: list[Solution] = field(default_factory=list)
    traces: list[FoundTrace] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class InputsWanted:
    """What a problem's function is asked for."""

    source: str
    file: Path
    """What the source is called in errors."""
    function: str
    values: dict[str, Any]
    """Every axis's length, and the workload's scalars."""
    inputs: dict[str, dict[str, Any]]
    """Shape and dtype of each input."""
    seed: int
    target: Path
    """File that takes the tensors."""


def problem_folders(root: Path) -> list[Path]:
    """Find problems: the folder itself, or those below it."""
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder")
    folders = sorted({file.parent for file in root.rglob(DEFINITION_FILE)})
    if not folders:
        raise UsageError(f"{root} holds no problems: folders with a {DEFINITION_FILE}")
    return folders


def label_of(folder: Path) -> str:
    """Name a problem by its group and its folder."""
    whole = folder.resolve()
    return f"{whole.parent.name}/{whole.name}"


def read_problem(
    folder: Path, root: Path, left_out: list[LeftOutThere], trace_dir: Path | None = None
) -> Problem | None:
    """Read a problem; what is at fault goes to `left_out`, and None where nothing can be brought."""
    label = label_of(folder)
    try:
        lines = list(numbered_lines(_read(folder / WORKLOAD_FILE, root, LINES_BYTES)))
        problem = _problem(folder, label, root, [line for _, line in lines])
    except _FAULTS as error:
        left_out.append(LeftOutThere(label, "problem", label, str(error)))
        return None
    for number, line in lines:
        try:
            _add_workload(problem, line, number, (folder, root, trace_dir))
        except _FAULTS as error:
            name = f"{WORKLOAD_FILE}:{number}"
            left_out.append(LeftOutThere(label, "workload", name, str(error)))
    if not problem.workloads:
        left_out.append(
            LeftOutThere(label, "problem", label, "none of its workloads can be brought")
        )
        return None
    add_solutions(problem, folder, root, left_out)
    for file in sorted(folder.glob(TRACES_PATTERN)):
        problem.traces.extend(traces_in(file, root, label, left_out))
    try:
        _note_settings(problem, root)
    except _FAULTS as error:
        left_out.append(LeftOutThere(label, "file", CONFIG_FILE, str(error)))
    left_out.extend(_not_read(problem))
    return problem


def _problem(folder: Path, label: str, root: Path, lines: Sequence[bytes]) -> Problem:
    file = folder / DEFINITION_FILE
    found = parse(SolDefinition, _read(file, root), TextPlace(file), unknown=UnknownKeys())
    workloads = list(_workloads_of(lines))
    free, numbers = sorted(_changed_constants(found, workloads)), _numbers(found, workloads)
    source = _source(found, folder, root)
    definition = definition_of(
        found, source, label, file, free=free, numbers=numbers, pairs=_pairs(found, workloads)
    )
    _require_function(found.custom_inputs_entrypoint, definition, file)
    constants = {
        n: a.value for n, a in found.axes.items() if n in free and isinstance(a, AxisConst)
    }
    return Problem(folder, label, definition, found.custom_inputs_entrypoint, constants)


def _workloads_of(lines: Sequence[bytes]) -> Iterator[SolWorkload]:
    for line in lines:
        with contextlib.suppress(*_FAULTS):  # said when the line is read
            yield parse(SolWorkload, line, unknown=UnknownKeys())


def _changed_constants(found: SolDefinition, workloads: Sequence[SolWorkload]) -> set[str]:
    """Name the constant axes that a workload gives another length: there the workload wins."""
    return {
        name
        for name, axis in found.axes.items()
        for each in workloads
        if isinstance(axis, AxisConst) and each.axes.get(name, axis.value) != axis.value
    }


def _numbers(found: SolDefinition, workloads: Sequence[SolWorkload]) -> set[str]:
    """Name the inputs with a shape for which every workload passes a number, which is then what a call gets."""
    return {
        name
        for name, tensor in found.inputs.items()
        if tensor.shape is not None
        and workloads
        and all(isinstance(each.inputs.get(name), SolScalar) for each in workloads)
    }


def _pairs(found: SolDefinition, workloads: Sequence[SolWorkload]) -> set[str]:
    """Name the four-bit inputs whose shape counts pairs: those that a workload stores, or lets a function make."""
    return {
        name
        for name, tensor in found.inputs.items()
        if tensor.dtype == FOUR_BIT
        for each in workloads
        if isinstance(each.inputs.get(name), SolSafetensors | SolCustom)
    }


def _source(found: SolDefinition, folder: Path, root: Path) -> str:
    """Give the reference's source; `reference.py` is a copy of it, read only where the definition has none."""
    if found.reference is not None:
        return found.reference
    file = folder / REFERENCE_FILE
    if not os.path.lexists(file):
        raise DatasetError(f"no reference, and no {REFERENCE_FILE}", path=folder)
    try:
        return _read(file, root).decode()
    except UnicodeDecodeError as error:
        raise DatasetError(f"not UTF-8: {error.reason}", path=file) from None


def _read(file: Path, root: Path, limit: int = DOCUMENT_BYTES) -> bytes:
    """Read a file of a problem that lies below the folder that was named, wherever links lead."""
    require_inside(file, root, "the folder that was named")
    return read_bytes(file, limit)


def _require_function(name: str | None, definition: Definition, file: Path) -> None:
    if name is None:
        return
    body = ast.parse(definition.reference).body
    if name not in {node.name for node in body if isinstance(node, ast.FunctionDef)}:
        raise DatasetError(
            f"custom_inputs_entrypoint: the reference has no function {name!r}", path=file
        )


def _add_workload(problem: Problem, line: bytes, number: int, roots: Sequence[Path | None]) -> None:
    file = problem.folder / WORKLOAD_FILE
    found = parse(SolWorkload, line, TextPlace(file, number), unknown=UnknownKeys())
    found = found.model_copy(update={"axes": problem.constants | found.axes})
    require_inputs(found, problem.definition, file, number)
    if any(found.uuid == other.uuid for other in problem.workloads):
        problem.notes.append(
            f"{file}:{number}: uuid {found.uuid!r} occurs twice; the first is brought"
        )
        return
    if problem.custom_inputs is None and _takes_custom(found):
        raise DatasetError(
            f"an input is custom, and {DEFINITION_FILE} has no custom_inputs_entrypoint",
            path=file,
            line=number,
        )
    if _takes_custom(found):
        part_of_path(found.uuid)  # names the file of what is made
    stored: dict[str, Path] = {}
    try:
        for name, source in found.inputs.items():
            if isinstance(source, SolSafetensors):
                stored[source.path] = _stored(problem, found, name, source, roots)
    except DatasetError as error:
        raise DatasetError(f"input {name!r}: {error}", path=file, line=number) from None
    problem.files.update(stored)
    problem.workloads.append(found)


def _takes_custom(found: SolWorkload) -> bool:
    return any(source.type == "custom" for source in found.inputs.values())


def _stored(
    problem: Problem,
    found: SolWorkload,
    name: str,
    source: SolSafetensors,
    roots: Sequence[Path | None],
) -> Path:
    """Find a stored tensor's file: below each folder by its whole path, then without its first parts."""
    folders = [folder for folder in dict.fromkeys(roots) if folder is not None]
    parts = PurePosixPath(source.path).parts
    tails = [PurePosixPath(*parts[start:]).as_posix() for start in range(len(parts))]
    places = (path_inside(folder, tail) for folder in folders for tail in tails)
    found_file = next((place for place in places if os.path.lexists(place)), None)
    if found_file is None:
        raise DatasetError(
            f"no file {source.path} below {' or '.join(map(str, folders))}; "
            "name the folder of stored tensors with --trace-dir, or by FLASHINFER_TRACE_DIR"
        )
    header = read_header(found_file)
    if header.is_pointer:
        raise DatasetError("not downloaded yet: `git lfs pull` fetches it", path=found_file)
    if header.fault is not None:
        raise DatasetError(header.fault, path=found_file)
    tensor = header.tensors.get(source.tensor_key)
    if tensor is None:
        raise DatasetError(f"holds no {source.tensor_key!r}", path=found_file)
    shapes = problem.definition.get_input_shapes(axes_of(found, problem.definition))
    shape = dict(zip(problem.definition.inputs, shapes, strict=True))[name]
    dtype = problem.definition.inputs[name].dtype
    if (tensor.dtype, list(tensor.shape)) != (dtype, shape):
        raise DatasetError(
            f"{source.tensor_key!r} is {tensor.dtype} {list(tensor.shape)}, where {dtype} {shape} is declared",
            path=found_file,
        )
    return found_file


def add_solutions(problem: Problem, folder: Path, root: Path, left_out: list[LeftOutThere]) -> None:
    """Add the solutions that lie in a folder: the problem's own, or one with results."""
    for file in (
        *sorted(folder.glob("solution*.json")),
        *sorted(folder.glob(f"{SOLUTIONS_FOLDER}/**/*.json")),
    ):
        try:
            _add_solution(problem, file, root)
        except _FAULTS as error:
            name = file.relative_to(folder).as_posix()
            left_out.append(LeftOutThere(problem.label, "solution", name, str(error)))


def traces_in(
    file: Path, root: Path, label: str, left_out: list[LeftOutThere]
) -> Iterator[FoundTrace]:
    """Give the results of a file; what is none goes to `left_out`, and bare workloads are passed over."""
    try:
        for found in read_traces(file, root):
            if isinstance(found, DatasetError):
                left_out.append(LeftOutThere(label, "trace", file.name, str(found)))
            elif found.trace.solution is not None or found.trace.evaluation is not None:
                yield found
    except _FAULTS as error:
        left_out.append(LeftOutThere(label, "file", file.name, str(error)))


def _add_solution(problem: Problem, file: Path, root: Path) -> None:
    found = parse(SolSolution, _read(file, root), TextPlace(file), unknown=UnknownKeys())
    name = problem.definition.name
    if found.definition != name:
        problem.notes.append(
            f"{file}: names {found.definition!r}; taken for {name!r}, with which it lies"
        )
    problem.solutions.append(solution_of(found, name, file, root))
    problem.notes.extend(
        f"solution {found.name} is written in {each}, which nothing here was tried with: "
        "it is called as Python, if its packages are installed"
        for each in found.spec.languages
        if each in UNTRIED
    )


def _note_settings(problem: Problem, root: Path) -> None:
    """Say with which options a run follows the problem's settings: a dataset here has none."""
    file = problem.folder / CONFIG_FILE
    if not os.path.lexists(file):
        return
    found = parse(SolConfig, _read(file, root), TextPlace(file))
    given = {
        "--warmup-runs": found.warmup_runs,
        "--iterations": found.iterations,
        "--seed": found.seed,
        "--no-profile-baseline": "" if found.benchmark_reference is False else None,
    }
    options = [f"{option} {value}".strip() for option, value in given.items() if value is not None]
    if options:
        problem.notes.append(f"{file}: a run follows it with {' '.join(options)}")


def _not_read(problem: Problem) -> Iterator[LeftOutThere]:
    known = {DEFINITION_FILE, WORKLOAD_FILE, REFERENCE_FILE, CONFIG_FILE}
    for file in sorted(problem.folder.iterdir()):
        is_known = file.name in known or any(map(file.match, _NAMED_BY_OTHERS))
        if file.is_file() and not is_known:
            reason = "it is not known what it is for; it was not read"
            yield LeftOutThere(problem.label, "file", file.name, reason)


def plain_values(definition: Definition, found: SolWorkload) -> dict[str, Any]:
    """Give what a problem's function is told: every axis's length, and the workload's scalars."""
    scalars = {name: each.value for name, each in found.inputs.items() if each.type == "scalar"}
    return {**definition.resolve_axes(axes_of(found, definition)), **scalars}
