"""A folder of problems is read strictly: what is not known is left out by name, and the rest goes on."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field
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
from flashinfer_bench.data.parsing import TextPlace, parse
from flashinfer_bench.data.rules.safetensors_header import read_header
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.sol_execbench.entities import (
    DEFINITION_FILE,
    REFERENCE_FILE,
    SOLUTIONS_FOLDER,
    WORKLOAD_FILE,
    SolDefinition,
    SolSafetensors,
    SolSolution,
    SolWorkload,
)
from flashinfer_bench.sol_execbench.mapping import (
    UNTRIED,
    definition_of,
    require_inputs,
    solution_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.solution import Solution

_NAMED_BY_OTHERS = ("solution*.json", "*.safetensors")
_FAULTS = (DatasetError, UsageError)


@dataclass(frozen=True, slots=True)
class LeftOutThere:
    """Something that is not brought here, and why."""

    problem: str
    kind: str
    """`problem`, `workload`, `solution` or `file`."""
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
    workloads: list[SolWorkload] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    """Stored tensors by the path that workloads name."""
    solutions: list[Solution] = field(default_factory=list)
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


def read_problem(folder: Path, root: Path, left_out: list[LeftOutThere]) -> Problem | None:
    """Read a problem; what is at fault goes to `left_out`, and None where nothing can be brought."""
    label = label_of(folder)
    try:
        problem = _problem(folder, label, root)
        lines = list(numbered_lines(_read(folder / WORKLOAD_FILE, root, LINES_BYTES)))
    except _FAULTS as error:
        left_out.append(LeftOutThere(label, "problem", label, _with_remedy(error)))
        return None
    for number, line in lines:
        try:
            _add_workload(problem, line, number, root)
        except _FAULTS as error:
            name = f"{WORKLOAD_FILE}:{number}"
            left_out.append(LeftOutThere(label, "workload", name, _with_remedy(error)))
    if not problem.workloads:
        left_out.append(
            LeftOutThere(label, "problem", label, "none of its workloads can be brought")
        )
        return None
    for file in _solution_files(folder):
        try:
            _add_solution(problem, file, root)
        except _FAULTS as error:
            name = file.relative_to(folder).as_posix()
            left_out.append(LeftOutThere(label, "solution", name, _with_remedy(error)))
    left_out.extend(_not_read(problem))
    return problem


def _problem(folder: Path, label: str, root: Path) -> Problem:
    file = folder / DEFINITION_FILE
    found = parse(SolDefinition, _read(file, root), TextPlace(file))
    definition = definition_of(found, _source(found, folder, root), label, file)
    beside = sorted(each.name for each in folder.glob("*.py") if each.name != REFERENCE_FILE)
    if beside:
        raise DatasetError(
            f"it is not known what this file is for; put what the reference needs of it into {REFERENCE_FILE}",
            path=folder / beside[0],
        )
    _require_function(found.custom_inputs_entrypoint, definition, file)
    return Problem(folder, label, definition, found.custom_inputs_entrypoint)


def _source(found: SolDefinition, folder: Path, root: Path) -> str:
    """Give the reference's source, which may lie in either of two files."""
    file = folder / REFERENCE_FILE
    if not os.path.lexists(file):
        if found.reference is None:
            raise DatasetError(f"no reference, and no {REFERENCE_FILE}", path=folder)
        return found.reference
    try:
        source = _read(file, root).decode()
    except UnicodeDecodeError as error:
        raise DatasetError(f"not UTF-8: {error.reason}", path=file) from None
    if found.reference not in (None, source):
        raise DatasetError(
            f"reference: differs from {REFERENCE_FILE}: remove one of them",
            path=folder / DEFINITION_FILE,
        )
    return source


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


def _add_workload(problem: Problem, line: bytes, number: int, root: Path) -> None:
    file = problem.folder / WORKLOAD_FILE
    found = parse(SolWorkload, line, TextPlace(file, number))
    require_inputs(found, problem.definition, file, number)
    if any(found.uuid == other.uuid for other in problem.workloads):
        raise DatasetError(f"uuid {found.uuid!r} occurs twice", path=file, line=number)
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
                stored[source.path] = _stored(problem, found, name, source, root)
    except DatasetError as error:
        raise DatasetError(f"input {name!r}: {error}", path=file, line=number) from None
    problem.files.update(stored)
    problem.workloads.append(found)


def _takes_custom(found: SolWorkload) -> bool:
    return any(source.type == "custom" for source in found.inputs.values())


def _stored(
    problem: Problem, found: SolWorkload, name: str, source: SolSafetensors, root: Path
) -> Path:
    """Find a stored tensor's file: of which folder its path is relative is not known."""
    places = [path_inside(folder, source.path) for folder in (problem.folder, root)]
    files = [place for place in dict.fromkeys(places) if os.path.lexists(place)]
    if not files:
        raise DatasetError(f"no such file: {' or '.join(map(str, dict.fromkeys(places)))}")
    if len(files) > 1:
        raise DatasetError(f"could be {files[0]} or {files[1]}: remove one of them")
    header = read_header(files[0])
    if header.is_pointer:
        raise DatasetError("not downloaded yet: `git lfs pull` fetches it", path=files[0])
    if header.fault is not None:
        raise DatasetError(header.fault, path=files[0])
    tensor = header.tensors.get(source.tensor_key)
    if tensor is None:
        raise DatasetError(f"holds no {source.tensor_key!r}", path=files[0])
    shapes = problem.definition.get_input_shapes(found.axes)
    shape = dict(zip(problem.definition.inputs, shapes, strict=True))[name]
    dtype = problem.definition.inputs[name].dtype
    if (tensor.dtype, list(tensor.shape)) != (dtype, shape):
        raise DatasetError(
            f"{source.tensor_key!r} is {tensor.dtype} {list(tensor.shape)}, where {dtype} {shape} is declared",
            path=files[0],
        )
    return files[0]


def _solution_files(folder: Path) -> list[Path]:
    return [
        *sorted(folder.glob("solution*.json")),
        *sorted(folder.glob(f"{SOLUTIONS_FOLDER}/**/*.json")),
    ]


def _add_solution(problem: Problem, file: Path, root: Path) -> None:
    found = parse(SolSolution, _read(file, root), TextPlace(file))
    if found.definition != problem.definition.name:
        raise DatasetError(
            f"solves {found.definition!r}, and lies with {problem.definition.name!r}", path=file
        )
    problem.solutions.append(solution_of(found, file))
    problem.notes.extend(
        f"solution {found.name} is written in {each}, which nothing here was tried with: "
        "it is called as Python, if its packages are installed"
        for each in found.spec.languages
        if each in UNTRIED
    )


def _not_read(problem: Problem) -> Iterator[LeftOutThere]:
    known = {DEFINITION_FILE, WORKLOAD_FILE, REFERENCE_FILE}
    for file in sorted(problem.folder.iterdir()):
        is_known = file.name in known or any(map(file.match, _NAMED_BY_OTHERS))
        if file.is_file() and not is_known:
            reason = "it is not known what it is for; it was not read"
            yield LeftOutThere(problem.label, "file", file.name, reason)


def _with_remedy(error: Exception) -> str:
    """Say what to do about a key nobody told us about."""
    text = str(error)
    if ": unknown key" not in text:
        return text
    return f"{text}; remove it if it changes neither what is computed nor when an answer is right"


def plain_values(definition: Definition, found: SolWorkload) -> dict[str, Any]:
    """Give what a problem's function is told: every axis's length, and the workload's scalars."""
    scalars = {name: each.value for name, each in found.inputs.items() if each.type == "scalar"}
    return {**definition.resolve_axes(found.axes), **scalars}
