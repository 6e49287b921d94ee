"""Candidates for KernelBench's problems, judged and timed by the engine; nothing is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.parent.pool import device_names, hardware_of
from flashinfer_bench.data import Trace, TraceSet
from flashinfer_bench.errors import UsageError
from flashinfer_bench.kernelbench.descriptions import Description, describe_each
from flashinfer_bench.kernelbench.library import label_of
from flashinfer_bench.kernelbench.results import (
    COMPILE,
    EAGER,
    EndedJob,
    EvalReport,
    baseline_report,
    fast_shares,
    pass_shares,
    problem_report,
    sample_report,
)
from flashinfer_bench.kernelbench.tasks import (
    COMPILED,
    ProblemTask,
    candidate_of,
    compiled_of,
    definition_of,
    workload_of,
)
from flashinfer_bench.report.run import Fault
from flashinfer_bench.tensors.machine import physical_cores
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.data import Solution
    from flashinfer_bench.kernelbench.samples import Candidate
    from flashinfer_bench.report.run import SkippedJob

BASELINES = (EAGER, COMPILE)
_DESCRIBING_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How candidates are judged and timed."""

    device: str = "auto"
    seeds: tuple[int, ...] = (42,)
    baselines: tuple[str, ...] = (EAGER,)
    overrides: dict[str, Any] = field(default_factory=dict)
    """Settings of the benchmark that the user gave."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be run, and what could not be prepared."""

    tasks: dict[Path, ProblemTask]
    faults: tuple[Fault, ...]
    names: dict[Candidate, str]
    benchmark: Benchmark
    device: str


def prepare(
    candidates: Sequence[Candidate],
    settings: Settings,
    folder: Path,
    tell: Callable[[str], None] = lambda _: None,
) -> Prepared:
    """Run each problem once to see what it is, and set a benchmark up in `folder`.

    A problem that does not run is a fault and the others go on; where it is the only one, it is an error.
    """
    device = device_names(settings.device)[0]
    tasks, faults = _described(
        [each.problem for each in candidates], settings, folder, device, tell
    )
    names = {
        each: f"{tasks[each.problem].name}__{index}_{each.path.stem}"
        for index, each in enumerate(candidates)
        if each.problem in tasks
    }
    kind = device.partition(":")[0]
    solutions: dict[str, list[Solution]] = {task.name: [] for task in tasks.values()}
    if COMPILE in settings.baselines:
        for task in tasks.values():
            solutions[task.name].append(compiled_of(task, kind))
    for each, name in names.items():
        task = tasks[each.problem]
        solutions[task.name].append(candidate_of(task, each.path, name, kind))
    trace_set = TraceSet(
        folder,
        {task.name: definition_of(task) for task in tasks.values()},
        solutions,
        {task.name: list(_workloads(task, settings.seeds)) for task in tasks.values()},
    )
    config = BenchmarkConfig.default(definition_config=_tolerances(tasks), **settings.overrides)
    return Prepared(tasks, faults, names, Benchmark(trace_set, config, device=device), device)


def report_of(
    prepared: Prepared,
    settings: Settings,
    ended: Sequence[EndedJob],
    skipped: Sequence[SkippedJob],
    faults: Sequence[Fault],
) -> EvalReport:
    """Sum up what became of the jobs."""
    by_solution: dict[str, list[EndedJob]] = {}
    for each in ended:
        by_solution.setdefault(each.job.solution, []).append(each)
    overrides = settings.overrides
    samples = []
    for candidate, name in prepared.names.items():
        task = prepared.tasks[candidate.problem]
        if jobs := by_solution.get(name):
            compiled = by_solution.get(f"{task.name}__{COMPILED}", [])
            samples.append(
                sample_report(candidate, jobs, compiled, settings.baselines, prepared.device)
            )
    return EvalReport(
        hardware=hardware_of(prepared.device),
        device=prepared.device,
        seeds=settings.seeds,
        problems=tuple(
            problem_report(task, overrides.get("atol"), overrides.get("rtol"))
            for task in prepared.tasks.values()
        ),
        samples=tuple(samples),
        baselines=tuple(_baselines(prepared, settings, by_solution)),
        fast_p=fast_shares(samples, settings.baselines),
        pass_at_k=pass_shares(samples),
        skipped=tuple(skipped),
        faults=(*prepared.faults, *faults),
    )


def _described(
    problems: Sequence[Path],
    settings: Settings,
    folder: Path,
    device: str,
    tell: Callable[[str], None],
) -> tuple[dict[Path, ProblemTask], tuple[Fault, ...]]:
    folders = {each: folder / f"problem_{i}" for i, each in enumerate(dict.fromkeys(problems))}
    for own in folders.values():
        own.mkdir()
    tell(f"running {count_text(len(folders), 'problem')} to see what each takes and returns")
    at_once = physical_cores() if device == "cpu" else 1
    seconds = settings.overrides.get("timeout_seconds") or _DESCRIBING_S
    heard = dict(
        describe_each(
            folders, seeds=settings.seeds, device=device, seconds=seconds, at_once=at_once
        )
    )
    tasks: dict[Path, ProblemTask] = {}
    faults = []
    for problem, own in folders.items():
        found = heard[problem]
        if isinstance(found, Description):
            tasks[problem] = ProblemTask(problem, found, own.name)
        elif len(folders) == 1:
            raise UsageError(found)
        else:
            faults.append(Fault(label_of(problem), "", found))
    return tasks, tuple(faults)


def _workloads(task: ProblemTask, seeds: Sequence[int]) -> Iterator[Trace]:
    for seed in seeds:
        yield Trace(definition=task.name, workload=workload_of(task, seed))


def _tolerances(tasks: dict[Path, ProblemTask]) -> dict[str, dict[str, float]]:
    return {
        task.name: {"atol": task.description.atol, "rtol": task.description.rtol}
        for task in tasks.values()
    }


def _baselines(
    prepared: Prepared, settings: Settings, by_solution: dict[str, list[EndedJob]]
) -> Iterator[Any]:
    for task in prepared.tasks.values():
        every = [
            job for jobs in by_solution.values() for job in jobs if job.job.definition == task.name
        ]
        for name in settings.baselines:
            jobs = by_solution.get(f"{task.name}__{COMPILED}", [])
            yield baseline_report(task, name, jobs, every)
