"""Jobs are planned and run, and what becomes of each is collected."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.cli import log
from flashinfer_bench.errors import DatasetError, DeviceError, UsageError
from flashinfer_bench.report.jobs import JobResult, job_result, with_log
from flashinfer_bench.report.run import DeviceResult, Fault, SkippedJob, faults_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flashinfer_bench.bench.benchmark import Benchmark, Step
    from flashinfer_bench.bench.jobs import Job, Target
    from flashinfer_bench.bench.parent.events import Lost, Progress
    from flashinfer_bench.bench.plan import Plan
    from flashinfer_bench.cli.measure.progress import ProgressView
    from flashinfer_bench.data import Definition, Solution, Trace, TraceSet


@dataclass(slots=True)
class Collected:
    """What became of the jobs so far."""

    plan: Plan
    saves: bool = False
    """Whether traces are written to the dataset."""
    retell: Callable[[str], str] = str
    """Writes a log as it is shown."""
    results: list[JobResult] = field(default_factory=list)
    skipped_here: list[SkippedJob] = field(default_factory=list)
    faults: dict[tuple[str, str], Fault] = field(default_factory=dict)
    missing_measures: set[str] = field(default_factory=set)
    """Measures of the sandbox that were asked for and were not in force."""
    has_compiled: bool = False
    """Whether a job was built for a device that is not here, which is why it was skipped."""
    lost: dict[str, Lost] = field(default_factory=dict)
    """Devices that did not go on to the end."""
    ended_count: int = 0
    is_cut_short: bool = False
    began_s: float = field(default_factory=time.monotonic)

    @property
    def has_failed(self) -> bool:
        """Whether a job did not pass, or the dataset is at fault."""
        return bool(self.faults) or any(not result.is_passed for result in self.results)

    @property
    def skipped(self) -> tuple[SkippedJob, ...]:
        """Jobs this machine cannot run: those the plan knew of, then those found when building."""
        planned = (skipped_job(job, reason) for job, reason in self.plan.skipped)
        return (*planned, *self.skipped_here)

    @property
    def not_tried(self) -> int:
        """How many jobs were left when the run was cut short."""
        return len(self.plan.jobs) - self.ended_count if self.is_cut_short else 0

    @property
    def is_done(self) -> bool:
        """Whether every job of the plan has ended."""
        return self.ended_count == len(self.plan.jobs)

    @property
    def has_lost_a_device(self) -> bool:
        """Whether a device failed at its jobs, even where others did them."""
        return any(each.is_fault for each in self.lost.values())

    def devices(self, targets: Mapping[str, Target]) -> tuple[DeviceResult, ...]:
        """Say what each device did."""
        counts = Counter(result.device for result in self.results)
        return tuple(
            DeviceResult(
                name,
                target.hardware,
                counts[name],
                self.lost[name].reason if name in self.lost else None,
            )
            for name, target in targets.items()
        )

    def add(self, step: Step) -> JobResult | None:
        """Sort a finished job in; give its result if it left a trace."""
        from flashinfer_bench.bench.outcomes import DatasetFault, Skipped  # noqa: PLC0415  # pydantic

        self.ended_count += 1
        if step.trace is not None:
            result = job_result(
                step.trace, step.job.solution, device=step.device, is_saved=self.saves
            )
            result = with_log(result, self.retell(result.log))
            self.results.append(result)
            self.missing_measures |= missing_measures(step.trace)
            return result
        match step.outcome:
            case Skipped(reason=reason, is_compiled=is_compiled):
                self.skipped_here.append(skipped_job(step.job, reason))
                self.has_compiled |= is_compiled
            case DatasetFault(explanation=explanation):
                fault = Fault(step.job.definition.name, step.job.workload.uuid, explanation)
                self.faults.setdefault((fault.definition, explanation), fault)
            case _:
                pass
        return None


def scratch_set(trace_set: TraceSet, definition: Definition, *solutions: Solution) -> TraceSet:
    """Make a trace set of these solutions; it reads files of the dataset and writes none."""
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # pydantic

    workloads = trace_set.workloads.get(definition.name, [])
    if not workloads:
        raise UsageError(f"{definition.name} has no workloads to run on")
    scratch = TraceSet(
        trace_set.root,
        {definition.name: definition},
        {definition.name: list(solutions)},
        {definition.name: list(workloads)},
    )
    scratch.roots = trace_set.roots
    return scratch


def plan_of(benchmark: Benchmark, definition: Definition) -> Plan:
    """Plan its jobs; a class without workloads is a mistake worth stopping for."""
    plan = benchmark.plan()
    if plan.other_class_count and not (plan.jobs or plan.skipped):
        raise UsageError(
            f"none of the selected workloads of {definition.name} is of class "
            f"{plan.workload_class!r}; --workload-class all takes every one"
        )
    return plan


def measure(
    benchmark: Benchmark,
    collected: Collected,
    view: ProgressView,
    *,
    stops_at: Callable[[JobResult | None], bool] = lambda _: False,
) -> None:
    """Run the plan and collect, until `stops_at` says so of a job; the benchmark is closed afterwards."""
    with benchmark, view:
        steps = benchmark.run(
            collected.plan,
            dump_traces=collected.saves,
            observe=lambda event: _observe(view, collected, event),
        )
        with _closing(steps):
            for step in steps:
                result = collected.add(step)
                view.finished(step.job, result)
                if stops_at(result):
                    collected.is_cut_short = True
                    return


def exit_code_of(collected: Collected, *, only_compiles: bool = False) -> int:
    """A lost device goes before faults of the dataset, and these before failures.

    Nothing but skipped jobs is the machine's fault.

    A failure that a resume left out counts like one of this run: the same jobs have the same code.
    With `only_compiles`, compiling was what the user asked for, and skipping what compiled is right.
    """
    if collected.has_lost_a_device:
        return DeviceError.exit_code
    if collected.faults:
        return DatasetError.exit_code
    if collected.has_failed or collected.plan.failed_count:
        return 1
    has_something = collected.results or collected.plan.done_count or not collected.skipped
    has_compiled = only_compiles and collected.has_compiled
    return 0 if has_something or has_compiled else DeviceError.exit_code


def warn_of_faults(faults: Sequence[Fault]) -> None:
    """Say on stderr that the dataset is at fault, where the page that shows how is not printed."""
    if faults:
        log.warn(faults_line(faults))


def skipped_job(job: Job, reason: str) -> SkippedJob:
    """Name a job that this machine cannot run."""
    hardware = "" if job.target is None else job.target.hardware
    return SkippedJob(job.definition.name, job.solution.name, job.workload.uuid, reason, hardware)


def missing_measures(trace: Trace) -> set[str]:
    """Name the measures of the sandbox that were asked for and were not in force."""
    provenance = trace.evaluation.provenance if trace.evaluation else None
    if provenance is None or provenance.sandbox == "off":  # as it was asked for
        return set()
    return set(provenance.sandbox_missing or ())


def _observe(view: ProgressView, collected: Collected, event: Progress) -> None:
    from flashinfer_bench.bench.parent.events import (  # noqa: PLC0415  # as above
        Building,
        Lost,
        Reached,
        Started,
        Waiting,
    )

    match event:
        case Started(device=device, job=job):
            view.started(device, job)
        case Waiting(device=device, holder=holder):
            view.waiting(device, holder)
        case Building(solutions=solutions, left=left):
            view.building(solutions, left)
        case Reached():
            pass
        case Lost(device=device, reason=reason):
            collected.lost[device] = event
            view.lost(device, reason)


@contextlib.contextmanager
def _closing(steps: Iterator[Step]) -> Iterator[None]:
    """End the generator here and now, not whenever it is collected."""
    try:
        yield
    finally:
        close = getattr(steps, "close", None)
        if close is not None:
            close()
