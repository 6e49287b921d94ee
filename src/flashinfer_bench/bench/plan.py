"""What will be run: a dataset, a selection and settings become jobs."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from flashinfer_bench.bench.choices import (
    clock_name,
    require_launch,
    require_lockable_clocks,
    require_raceable,
)
from flashinfer_bench.bench.config import (
    WITHOUT_STOPPING_RULES,
    BenchmarkConfig,
    ResolvedEvalConfig,
    config_hash,
)
from flashinfer_bench.bench.jobs import Job
from flashinfer_bench.bench.resuming import PASSED, left_to_do
from flashinfer_bench.bench.several_ranks import why_not_here
from flashinfer_bench.data import layout
from flashinfer_bench.data.wording import axes_text, did_you_mean
from flashinfer_bench.errors import DatasetError, UnknownNameError, UsageError
from flashinfer_bench.tensors.other_hardware import refusal_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flashinfer_bench.bench.jobs import Target
    from flashinfer_bench.bench.resuming import Resume
    from flashinfer_bench.data import Definition, Solution, TraceSet, Workload
    from flashinfer_bench.data.workload import WorkloadTolerance

_GLOB_CHARACTERS = frozenset("*?[")
_DEVICE_KINDS = frozenset({"cpu", "cuda"})
_GPU_LANGUAGES = frozenset({"triton", "tilelang"})  # on a CPU something stands in for the GPU
_STAND_IN_WARMUP_RUNS = 1
_STAND_IN_ITERATIONS = 3
_STAND_IN_TRIALS = 1
_MOST_NAMED = 3

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for, as names or globs; an empty tuple means all."""

    definitions: tuple[str, ...] = ()
    solutions: tuple[str, ...] = ()
    op_types: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    workload_class: str | None = None
    """`small`, `full` or `all`; None leaves it to the device, and takes any class where workloads are named."""

    @classmethod
    def of(cls, config: BenchmarkConfig) -> Selection:
        """Read the selection out of a configuration."""
        return cls(
            definitions=tuple(config.definitions or ()),
            solutions=tuple(config.solutions or ()),
            op_types=tuple(config.op_types or ()),
            authors=tuple(config.authors or ()),
            workloads=tuple(config.workloads or ()),
            workload_class=config.workload_class,
        )

    def workload_class_on(self, target: Target) -> str:
        """Say which workloads run on a device."""
        return self.workload_class or ("all" if self.workloads else target.workload_class)


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs of a run in order, those that cannot run here, and what a resume left out."""

    jobs: tuple[Job, ...] = ()
    skipped: tuple[tuple[Job, str], ...] = ()
    done_count: int = 0
    warnings: tuple[str, ...] = ()
    workload_class: str = "all"
    """The size of workloads that was asked for, or is the device's."""
    other_class_count: int = 0
    """Jobs left out because their workload is of another class."""
    failed_before: tuple[str, ...] = ()
    """The solution of each job that a resume left out and that had failed: its newest trace says so."""

    @property
    def failed_count(self) -> int:
        """How many of the jobs that a resume left out had failed."""
        return len(self.failed_before)

    @property
    def batches(self) -> tuple[tuple[Job, ...], ...]:
        """Jobs grouped by solution and target: one candidate process serves a batch, or a device's share of it."""
        batches: dict[tuple[str, str, Target | None], list[Job]] = {}
        for job in self.jobs:
            key = (job.definition.name, job.solution.name, job.target)
            batches.setdefault(key, []).append(job)
        return tuple(tuple(batch) for batch in batches.values())


def plan(
    trace_set: TraceSet,
    config: BenchmarkConfig,
    target: Target,
    *,
    selection: Selection | None = None,
    resume: Resume | None = None,
) -> Plan:
    """Decide what to run, in the dataset's order; an unknown name is an error that suggests the nearest."""
    chosen = selection or Selection.of(config)
    definitions = _chosen_definitions(trace_set, chosen)
    solutions = _chosen_solutions(trace_set, chosen, definitions)
    jobs = [
        job
        for definition in definitions
        for solution in solutions.get(definition.name, ())
        for job in jobs_for(definition, solution, _workloads(trace_set, definition), config, target)
    ]
    if trace_set.root is not None:
        _require_file_names(jobs)
    named = _with_chosen_workloads(jobs, chosen.workloads)
    workload_class = chosen.workload_class_on(target)
    jobs = [job for job in named if job.workload.is_of_class(workload_class)]
    left, done = left_to_do(trace_set, jobs, target, resume)
    remarks = _remarks(definitions, solutions, trace_set, jobs, named)
    return replace(
        _split(left, config, target, remarks),
        done_count=len(done),
        failed_before=tuple(solution for solution, status in done if status != PASSED),
        workload_class=workload_class,
        other_class_count=len(named) - len(jobs),
    )


def plan_for_all(
    trace_set: TraceSet,
    config: BenchmarkConfig,
    targets: Iterable[Target],
    *,
    selection: Selection | None = None,
    resume: Resume | None = None,
) -> Plan:
    """Plan every job for each target: what a device measures says nothing of another model."""
    plans = [
        plan(trace_set, config, target, selection=selection, resume=resume)
        for target in dict.fromkeys(targets)
    ]
    if len(plans) == 1:
        return plans[0]
    return Plan(
        jobs=tuple(job for each in plans for job in each.jobs),
        skipped=tuple(left_out for each in plans for left_out in each.skipped),
        done_count=sum(each.done_count for each in plans),
        failed_before=tuple(name for each in plans for name in each.failed_before),
        warnings=tuple(dict.fromkeys(text for each in plans for text in each.warnings)),
        workload_class=plans[0].workload_class,
        other_class_count=sum(each.other_class_count for each in plans),
    )


def _require_file_names(jobs: Iterable[Job]) -> None:
    """Refuse names that no file of traces can have, before anything runs."""
    for job in jobs:
        definition, solution = job.definition, job.solution
        for holder, key, text in (
            (f"definition {definition.name!r}", "name", definition.name),
            (f"definition {definition.name!r}", "op_type", definition.op_type),
            (f"solution {solution.name!r}", "author", solution.author),
        ):
            if not layout.is_name(text):
                raise DatasetError(
                    f"{holder}: {key} {text!r} cannot be a file or folder name, which its traces need"
                )


def jobs_for(
    definition: Definition,
    solution: Solution,
    workloads: Iterable[Workload],
    config: BenchmarkConfig,
    target: Target,
) -> list[Job]:
    """Make the jobs of one solution."""
    known: dict[WorkloadTolerance | None, tuple[ResolvedEvalConfig, str, str]] = {}
    jobs = []
    for workload in workloads:
        if workload.tolerance not in known:
            resolved = config.resolve_eval_config(definition, workload)
            known[workload.tolerance] = _settings(definition, solution, resolved, config, target)
        resolved, hashed, unraced = known[workload.tolerance]
        job = Job(definition, solution, workload, resolved, hashed, target=target)
        jobs.append(replace(job, unraced_hash=unraced))
    return jobs


def _settings(
    definition: Definition,
    solution: Solution,
    resolved: ResolvedEvalConfig,
    config: BenchmarkConfig,
    target: Target,
) -> tuple[ResolvedEvalConfig, str, str]:
    resolved = _sampled_for(solution, target, resolved)
    require_launch(target.kind, resolved.launch)
    if resolved.lock_clocks:
        require_lockable_clocks(target.kind)
    if resolved.racing:
        require_raceable(is_reference_timed=resolved.profile_baseline, choice=resolved.cache)
    unraced = resolved.model_copy(update={"racing": False})
    hashed = _hash_of(resolved, definition, config, target)
    return resolved, hashed, _hash_of(unraced, definition, config, target)


def _hash_of(
    resolved: ResolvedEvalConfig, definition: Definition, config: BenchmarkConfig, target: Target
) -> str:
    is_cold, is_cold_by_default = resolved.is_cold_on(target.kind), target.kind == "cuda"
    return config_hash(
        resolved,
        clock=target.clock or clock_name(target.kind, resolved.clock),
        **({} if is_cold is is_cold_by_default else {"is_cold": is_cold}),
        **({"is_hot_too": True} if resolved.cache == "both" else {}),
        threads=target.threads,
        judge=definition.judge or definition.op_type,
        is_audited=config.audit,
        is_strict=config.strict,
    )


def _sampled_for(
    solution: Solution, target: Target, resolved: ResolvedEvalConfig
) -> ResolvedEvalConfig:
    """Take few samples of a kernel that is interpreted: each may last a second, and means nothing."""
    if not is_stand_in(solution, target.kind):
        return resolved
    few = {
        "warmup_runs": min(resolved.warmup_runs, _STAND_IN_WARMUP_RUNS),
        "iterations": min(resolved.iterations, _STAND_IN_ITERATIONS),
        "num_trials": min(resolved.num_trials, _STAND_IN_TRIALS),
        **WITHOUT_STOPPING_RULES,
    }
    return resolved.model_copy(update=few)


def is_stand_in(solution: Solution, device_kind: str) -> bool:
    """Tell whether a kernel for GPUs runs on a CPU: interpreted Triton, TileLang made into C.

    Whether it is right counts then; how long it takes says nothing.
    """
    return device_kind == "cpu" and solution.spec.language in _GPU_LANGUAGES


def skip_reason(solution: Solution, target: Target, *, is_strict: bool) -> str | None:
    """Say why a solution cannot run on this kind of device; a card's name alone is no reason unless strict."""
    wanted = {_folded(name) for name in solution.spec.target_hardware}
    refusals = [refusal_of(name) for name in wanted]
    if refusals and all(refusals):
        return f"built for {', '.join(sorted(wanted))}: {refusals[0]}"
    kinds = wanted & _DEVICE_KINDS
    if kinds == wanted and target.kind not in kinds and not _is_worth_building(solution, target):
        return f"built for {', '.join(sorted(kinds))}; the device is {target.kind}"
    if is_strict and not _names_this(wanted, target):
        return f"targets {', '.join(solution.spec.target_hardware)}; this is {target.hardware}"
    return None


def _is_worth_building(solution: Solution, target: Target) -> bool:
    """Tell whether what is meant for a GPU can be compiled, or interpreted, without one."""
    return target.kind == "cpu" and (solution.spec.language == "triton" or _has_cuda(solution))


def _has_cuda(solution: Solution) -> bool:
    return solution.spec.language == "cuda" or any(
        source.path.endswith(".cu") for source in solution.sources
    )


def _chosen_definitions(trace_set: TraceSet, chosen: Selection) -> list[Definition]:
    known = list(trace_set.definitions.values())
    named = _matching(known, chosen.definitions, "definition", lambda item: item.name)
    return _matching(named, chosen.op_types, "op type", lambda item: item.op_type)


def _chosen_solutions(
    trace_set: TraceSet, chosen: Selection, definitions: Sequence[Definition]
) -> dict[str, list[Solution]]:
    wanted = {definition.name for definition in definitions}
    known = [each for group in trace_set.solutions.values() for each in group]
    named = _matching(known, chosen.solutions, "solution", lambda item: item.name)
    authored = _matching(named, chosen.authors, "author", lambda item: item.author)
    grouped: dict[str, list[Solution]] = {}
    for solution in authored:
        if solution.definition in wanted:
            grouped.setdefault(solution.definition, []).append(solution)
    return grouped


def _with_chosen_workloads(jobs: list[Job], patterns: tuple[str, ...]) -> list[Job]:
    for pattern in patterns:
        _refuse_axes(jobs, pattern)
    return _matching(jobs, patterns, "workload", lambda job: job.workload.uuid)


def _refuse_axes(jobs: Sequence[Job], pattern: str) -> None:
    """Tell who names a workload by its axes, as tables show it, what its name is."""
    named = {job.workload.uuid: axes_text(job.workload.axes) for job in jobs}
    meant = [uuid for uuid, axes in named.items() if axes == pattern]
    if meant and pattern not in named:
        uuids = ", ".join(map(repr, meant[:_MOST_NAMED])) + (" …" if meant[_MOST_NAMED:] else "")
        raise UsageError(f"workloads are named by their uuid: that of {pattern!r} is {uuids}")


def _matching(
    items: list[Named], patterns: tuple[str, ...], kind: str, name_of: Callable[[Named], str]
) -> list[Named]:
    """Keep what a pattern names; a pattern that names nothing is a mistake worth stopping for."""
    if not patterns:
        return items
    names = {name_of(item) for item in items}
    kept: set[str] = set()
    for pattern in patterns:
        matched = set(fnmatch.filter(names, pattern)) | ({pattern} & names)
        if not matched and _GLOB_CHARACTERS & set(pattern):
            raise UsageError(f"no {kind} matches {pattern!r}")
        if not matched:
            raise UnknownNameError(kind, pattern, names)
        kept |= matched
    return [item for item in items if name_of(item) in kept]


def _workloads(trace_set: TraceSet, definition: Definition) -> list[Workload]:
    return [trace.workload for trace in trace_set.workloads.get(definition.name, [])]


def _split(
    jobs: list[Job],
    config: BenchmarkConfig,
    target: Target,
    warnings: list[str],
) -> Plan:
    runnable: list[Job] = []
    skipped: list[tuple[Job, str]] = []
    remarks: dict[str, str] = {}
    for job in jobs:
        reason = skip_reason(
            job.solution, target, is_strict=config.strict_hardware
        ) or why_not_here(
            job, kind=target.kind, device_count=target.device_count, sandbox=config.sandbox
        )
        if reason is not None:
            skipped.append((job, reason))
            continue
        runnable.append(job)
        remarks[job.solution.name] = _remark_on(job.solution, target)
    said = (*warnings, *filter(None, remarks.values()))
    return Plan(tuple(runnable), tuple(skipped), warnings=said)


def _remark_on(solution: Solution, target: Target) -> str:
    """Say what is unusual about running a solution here; nothing if nothing is."""
    cards = ", ".join(solution.spec.target_hardware)
    is_meant = _names_this({_folded(name) for name in solution.spec.target_hardware}, target)
    if target.kind == "cpu" and _has_cuda(solution):
        return ""  # it is compiled, and the reason why it does not run says for what
    if not is_meant:
        return f"{solution.name} targets {cards}; it runs on {target.hardware}"
    return ""


def _remarks(
    definitions: Sequence[Definition],
    solutions: Mapping[str, Sequence[Solution]],
    trace_set: TraceSet,
    jobs: Sequence[Job],
    jobs_of_any_class: Sequence[Job],
) -> list[str]:
    strangers = (
        each
        for name, group in trace_set.solutions.items()
        if name not in trace_set.definitions
        for each in group
    )
    remarks = [
        f"{each.name} is left out: it solves {each.definition!r}, which does not exist"
        f"{did_you_mean(each.definition, trace_set.definitions)}"
        for each in strangers
    ]
    has_jobs = {job.definition.name for job in jobs}
    has_jobs_of_any_class = {job.definition.name for job in jobs_of_any_class}
    for definition in definitions:
        if definition.name in solutions and not trace_set.workloads.get(definition.name):
            remarks.append(f"{definition.name} has solutions but no workloads")
        if definition.name in has_jobs_of_any_class - has_jobs:
            remarks.append(f"{definition.name} has only workloads of another class; it is left out")
    return remarks


def _names_this(wanted: set[str], target: Target) -> bool:
    """Whether a target names this device: its kind, or words that its hardware name contains."""
    return target.kind in wanted or any(name in _folded(target.hardware) for name in wanted)


def _folded(name: str) -> str:
    return name.casefold().replace("_", " ").replace("-", " ").strip()
