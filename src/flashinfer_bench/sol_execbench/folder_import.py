"""Problems of SOL-ExecBench become a dataset; inputs that their own functions make are made once, and stored."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.files import save_json_file
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.data.layout import name as part_of_path
from flashinfer_bench.data.opening import path_inside
from flashinfer_bench.data.trace import Trace
from flashinfer_bench.data.trace_set import TraceSet
from flashinfer_bench.data.workload import CustomInput, InputSpec, SafetensorsInput, ScalarInput
from flashinfer_bench.decompose.process import (
    Refused,
    WorkDone,
    WorkEnded,
    WorkLimits,
    WorkTask,
    run_each,
)
from flashinfer_bench.errors import DatasetError, MissingPackageError, UsageError
from flashinfer_bench.sol_execbench.entities import REFERENCE_FILE
from flashinfer_bench.sol_execbench.mapping import OP_TYPE, axes_of, workload_of
from flashinfer_bench.sol_execbench.named_results import NamedResults
from flashinfer_bench.sol_execbench.reading import (
    InputsWanted,
    LeftOutThere,
    label_of,
    plain_values,
    problem_folders,
    read_problem,
)
from flashinfer_bench.sol_execbench.traces import trace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.sol_execbench.entities import SolWorkload
    from flashinfer_bench.sol_execbench.reading import Problem
    from flashinfer_bench.sol_execbench.traces import SolTrace

SEED = 42
_JOB = "flashinfer_bench.sol_execbench.inputs:make_inputs"
_LIMITS = WorkLimits(seconds=600.0, memory_bytes=1 << 50)


@dataclass(slots=True)
class ImportSummary:
    """What an import made, and what it left out."""

    definitions: list[str] = field(default_factory=list)
    workloads: int = 0
    solutions: list[str] = field(default_factory=list)
    traces: int = 0
    """Results that were measured there."""
    made_inputs: int = 0
    """Workloads with inputs that a problem's own function made."""
    seed: int = SEED
    """What that function drew from."""
    notes: list[str] = field(default_factory=list)
    left_out: list[LeftOutThere] = field(default_factory=list)


def import_problems(
    root: Path,
    staging: Path,
    trace_dir: Path | None = None,
    results: Sequence[Path] = (),
    *,
    keeps_generators: bool = False,
) -> ImportSummary:
    """Write a dataset of all problems below a folder; `results` are files and folders of results.

    With `keeps_generators` custom inputs stay custom, and the definition names the function that makes them.
    """
    trace_set, imported = TraceSet.create(staging), ImportSummary()
    folders = problem_folders(root)
    named = NamedResults.read(results, [label_of(each) for each in folders], imported.left_out)
    for folder in folders:
        problem = read_problem(folder, root, imported.left_out, trace_dir)
        if problem is None:
            continue
        named.add_to(problem, imported.left_out)
        if keeps_generators:
            problem = _with_generator(problem)
        try:
            _import_problem(problem, trace_set, imported)
        except (DatasetError, UsageError) as error:
            imported.left_out.append(
                LeftOutThere(problem.label, "problem", problem.label, str(error))
            )
    imported.left_out.extend(named.left())
    return imported


def _import_problem(problem: Problem, trace_set: TraceSet, imported: ImportSummary) -> None:
    assert trace_set.root is not None
    layout = Layout(trace_set.root)
    if problem.definition.name in trace_set.definitions:
        problem = _renamed(problem, trace_set)
    problem = _with_own_uuids(problem, trace_set)
    definition = problem.definition
    file = layout.definition_file(definition)
    blobs = layout.blob_workloads / OP_TYPE / part_of_path(definition.name)
    made = list(_with_inputs(problem, blobs, imported))
    if not made:
        raise UsageError("none of its workloads can be brought")
    stored = _copied(problem, made, blobs, trace_set.root)
    save_json_file(definition, file)
    trace_set.definitions[definition.name] = definition
    workloads = [workload_of(found, definition, stored, inputs) for found, inputs in made]
    trace_set.add_workload_traces(
        [Trace(definition=definition.name, workload=workload) for workload in workloads]
    )
    imported.definitions.append(definition.name)
    imported.workloads += len(workloads)
    imported.notes.extend(problem.notes)
    _save_solutions(problem, trace_set, layout, imported)
    _add_traces(problem, [each for each, _ in made], trace_set, imported)


def _with_generator(problem: Problem) -> Problem:
    """Let the definition name the function for custom inputs."""
    update = {"custom_inputs_entrypoint": problem.custom_inputs}
    return replace(problem, definition=problem.definition.model_copy(update=update))


def _renamed(problem: Problem, trace_set: TraceSet) -> Problem:
    """Put the group into the name of a problem that another group has, too: names are unique only within one."""
    old = problem.definition.name
    name = f"{old}_{problem.label.partition('/')[0]}"
    if name in trace_set.definitions:
        first = trace_set.definitions[old].tags[0]
        raise UsageError(f"another problem is called {old!r} too: {first}")
    return replace(
        problem,
        definition=problem.definition.model_copy(update={"name": name}),
        solutions=[each.model_copy(update={"definition": name}) for each in problem.solutions],
        notes=[*problem.notes, f"{problem.label}: called {name}, as another problem is {old}"],
    )


def _with_own_uuids(problem: Problem, trace_set: TraceSet) -> Problem:
    """Put the problem's name before uuids that another problem has, too: they are unique only within one."""
    taken = {each.workload.uuid for group in trace_set.workloads.values() for each in group}
    if not any(each.uuid in taken for each in problem.workloads):
        return problem
    name = problem.definition.name
    return replace(
        problem,
        workloads=[
            each.model_copy(update={"uuid": f"{name}-{each.uuid}"}) for each in problem.workloads
        ],
        notes=[
            *problem.notes,
            f"{problem.label}: {name} stands before its uuids, as another problem has some of them",
        ],
    )


def _with_inputs(
    problem: Problem, blobs: Path, imported: ImportSummary
) -> Iterator[tuple[SolWorkload, dict[str, InputSpec]]]:
    """Give the workloads, each with those of its inputs that the problem's function made, or is to make in each run."""
    wanted = {
        found.uuid: [name for name, each in found.inputs.items() if each.type == "custom"]
        for found in problem.workloads
    }
    if problem.definition.custom_inputs_entrypoint is not None:
        for found in problem.workloads:
            yield found, {name: CustomInput() for name in wanted[found.uuid]}
        return
    outcomes = dict(_made(problem, wanted, blobs))
    for found in problem.workloads:
        outcome = outcomes.get(found.uuid)
        match outcome:
            case None:
                yield found, {}
            case str():
                name = f"workload {found.uuid}"
                imported.left_out.append(LeftOutThere(problem.label, "workload", name, outcome))
            case _:
                imported.made_inputs += 1
                yield found, outcome


def _made(
    problem: Problem, wanted: dict[str, list[str]], blobs: Path
) -> Iterator[tuple[str, dict[str, InputSpec] | str]]:
    """Make custom inputs, each workload's in a process of its own; a sentence where that failed."""
    tasks = [
        _task(problem, found, wanted[found.uuid], blobs)
        for found in problem.workloads
        if wanted[found.uuid]
    ]
    if tasks and importlib.util.find_spec("torch") is None:
        raise MissingPackageError("torch", extra="torch", needed_for="making custom inputs")
    for task, outcome in run_each(tasks, _LIMITS):
        match outcome:
            case WorkDone(value=scalars):
                path = _inputs_file(blobs, task.name)
                place = path.relative_to(blobs.parents[3]).as_posix()
                yield (
                    task.name,
                    {
                        name: ScalarInput(value=scalars[name])
                        if name in scalars
                        else SafetensorsInput(path=place, tensor_key=name)
                        for name in wanted[task.name]
                    },
                )
            case Refused(message=message) | WorkEnded(message=message):
                yield task.name, message


def _task(problem: Problem, found: SolWorkload, names: list[str], blobs: Path) -> WorkTask:
    definition = problem.definition
    shapes = dict(
        zip(definition.inputs, definition.get_input_shapes(axes_of(found, definition)), strict=True)
    )
    wanted = {
        name: {"shape": shapes[name], "dtype": str(definition.inputs[name].dtype)} for name in names
    }
    assert problem.custom_inputs is not None
    asked = InputsWanted(
        source=definition.reference,
        file=problem.folder / REFERENCE_FILE,
        function=problem.custom_inputs,
        values=plain_values(definition, found),
        inputs=wanted,
        seed=SEED,
        target=_inputs_file(blobs, found.uuid),
    )
    return WorkTask(_JOB, (asked,), name=found.uuid)


def _inputs_file(blobs: Path, uuid: str) -> Path:
    return blobs / f"custom_seed{SEED}_{part_of_path(uuid)}.safetensors"


def _copied(
    problem: Problem, made: list[tuple[SolWorkload, Any]], blobs: Path, root: Path
) -> dict[str, str]:
    """Copy the files of stored inputs that are needed; give where they lie."""
    paths = {
        each.path
        for found, _ in made
        for each in found.inputs.values()
        if each.type == "safetensors"
    }
    places = {}
    for path in sorted(paths):
        target = path_inside(blobs, path.removeprefix(f"{problem.label}/"))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(problem.files[path], target)
        places[path] = target.relative_to(root).as_posix()
    return places


def _add_traces(
    problem: Problem, workloads: list[SolWorkload], trace_set: TraceSet, imported: ImportSummary
) -> None:
    """Add the results of the workloads and solutions that were brought."""
    name = problem.definition.name
    there = {each.uuid: each for each in workloads}
    here = {each.workload.uuid: each.workload for each in trace_set.workloads.get(name, [])}
    solutions = {each.name for each in trace_set.solutions.get(name, [])}
    traces = []
    for found in problem.traces:
        uuid = found.trace.workload.uuid
        uuid = uuid if uuid in there else f"{name}-{uuid}"
        try:
            _require_fitting(found.trace, there.get(uuid), solutions)
            traces.append(trace_of(found.trace, name, here[uuid]))
        except UsageError as error:
            reason = str(DatasetError(str(error), path=found.file, line=found.line))
            imported.left_out.append(LeftOutThere(problem.label, "trace", found.file.name, reason))
    trace_set.add_traces(traces)
    imported.traces += len(traces)


def _require_fitting(trace: SolTrace, workload: SolWorkload | None, solutions: set[str]) -> None:
    """Refuse a result of a workload or a solution that was not brought."""
    if workload is None:
        raise UsageError("its workload is none that was brought")
    axes = {name: workload.axes.get(name, length) for name, length in trace.workload.axes.items()}
    if axes != trace.workload.axes or workload.tolerance != trace.workload.tolerance:
        raise UsageError("its workload has other axes, or another tolerance, than the problem's")
    if trace.solution is not None and trace.solution not in solutions:
        raise UsageError(
            f"no solution {trace.solution!r} was brought: put its JSON beside the results"
        )


def _save_solutions(
    problem: Problem, trace_set: TraceSet, layout: Layout, imported: ImportSummary
) -> None:
    for solution in problem.solutions:
        if solution.name in imported.solutions:
            reason = f"another solution is called {solution.name!r} too"
            imported.left_out.append(LeftOutThere(problem.label, "solution", solution.name, reason))
            continue
        try:
            save_json_file(solution, layout.solution_file(solution, OP_TYPE))
        except UsageError as error:  # a name that is no file's
            reason = str(error)
            imported.left_out.append(LeftOutThere(problem.label, "solution", solution.name, reason))
            continue
        trace_set.solutions.setdefault(problem.definition.name, []).append(solution)
        imported.solutions.append(solution.name)
