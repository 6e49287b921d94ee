"""Measure what is planned; save each trace before the next job starts on its device."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.jobs import Target
from flashinfer_bench.bench.outcomes import Crashed, DatasetFault, Skipped
from flashinfer_bench.bench.parent.events import Lost
from flashinfer_bench.bench.parent.pool import (
    LocalPool,
    Pool,
    device_names,
    hardware_of,
)
from flashinfer_bench.bench.plan import (
    Plan,
    Selection,
    jobs_for,
    plan_for_all,
    skip_reason,
)
from flashinfer_bench.bench.racing import BestKnown
from flashinfer_bench.bench.record import Run, begin_run, record, samples_of
from flashinfer_bench.bench.resuming import Resume
from flashinfer_bench.bench.unseen import UnseenJobs
from flashinfer_bench.data import Solution, TraceSet
from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.tensors import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.outcomes import Outcome
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.bench.parent.pool import FinishedJob
    from flashinfer_bench.data import Trace, Workload


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
    """One finished job: how it ended, and its trace where one was recorded."""

    job: Job
    outcome: Outcome
    trace: Trace | None
    device: str = ""
    """The device it ran on, as the run names it."""


class Store(Protocol):
    """Where traces go."""

    def append(
        self,
        trace: Trace,
        *,
        samples: Mapping[str, Sequence[float]] | None = None,
        author: str | None = None,
    ) -> None:
        """Make one trace durable."""
        ...


def benchmark(
    store: Store,
    pool: Pool,
    batches: Sequence[Sequence[Job]],
    run: Run,
    *,
    is_strict: bool = False,
    unseen_count: int = 0,
    seed: int | None = None,
    observe: Callable[[Progress], None] = lambda _: None,
) -> Iterator[Step]:
    """Run the batches and record each job; the story of a benchmark.

    A solution that passes is tried on `unseen_count` configurations more, which are a part of its last trace.
    """
    unseen = UnseenJobs(batches, count=unseen_count, seed=seed)
    for ended in pool.run(unseen.batches, observe):
        finished, trace = _recorded(ended, run, is_strict=is_strict)
        if finished.job.is_unseen:
            unseen.note(finished.job, finished.outcome, trace)
            continue
        if trace is not None:
            trace = unseen.with_findings(trace, finished.job)
            store.append(
                trace, samples=samples_of(finished.outcome), author=finished.job.solution.author
            )
        yield Step(finished.job, finished.outcome, trace, finished.device_name)


def _recorded(
    finished: FinishedJob, run: Run, *, is_strict: bool
) -> tuple[FinishedJob, Trace | None]:
    """Record a job; one with a figure that no trace can hold has failed, and the run goes on.

    Figures come from what a solution said, within bounds: that one of them still does not fit is worth a look.
    """
    try:
        return finished, record(finished, run, is_strict=is_strict)
    except (ValueError, ArithmeticError) as error:
        explanation = f"what was measured cannot be recorded: {error}"
        _log.exception("%s: %s", finished.job.label, explanation)
        log = getattr(finished.outcome, "log", "")
        failed = replace(finished, outcome=Crashed(explanation, log))
        return failed, record(failed, run)


class Benchmark:
    """Benchmarks the solutions of a trace set.

    Workers start with the first job and are kept until `close`, the end of a `with` block, or the end of the
    program, whichever comes first.

    Inputs, outputs and references are described by the definitions; latencies are in milliseconds. Raises
    `UsageError` for what cannot be (an unknown name, a device that is not there), `DatasetError` for a faulty
    file, `DeviceError` and `WorkerError` when the machine is at fault. A solution that fails raises nothing:
    its trace says how it ended.
    """

    def __init__(
        self,
        trace_set: TraceSet,
        config: BenchmarkConfig | None = None,
        *,
        device: str = "auto",
        pool: str = "local",
    ) -> None:
        self.config = config or BenchmarkConfig.default()
        self._trace_set = trace_set
        self._threads = self.config.threads or machine.physical_cores()
        self._pool: Pool | None = None
        self._far_targets: dict[str, Target] | None = None
        self._best = BestKnown(trace_set)
        if pool == "local":
            self.devices = device_names(device)
        else:
            self._join(pool, device)
            self.devices = tuple(self.targets)

    def __enter__(self) -> Benchmark:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _join(self, address: str, device: str) -> None:
        """Take the devices of a Ray cluster instead of this machine's."""
        from flashinfer_bench.bench.parent.ray_pool import RayPool  # noqa: PLC0415  # an extra

        if address != "ray" and not address.startswith("ray://"):
            raise UsageError(f"no pool {address!r}; use 'local', 'ray' or 'ray://HOST:PORT'")
        if device not in {"auto", "cpu", "cuda"}:
            raise UsageError(
                f"in a cluster, --device is 'auto', 'cpu' or 'cuda', and not {device!r}"
            )
        pool = RayPool(
            "auto" if address == "ray" else address,
            kind=device,
            config=self.config,
            roots=self._trace_set.roots,
            best_speedup=self._best.speedup,
        )
        self._pool, self._far_targets = pool, pool.targets

    def get_trace_set(self) -> TraceSet:
        """Return the trace set this benchmark reads and adds to."""
        return self._trace_set

    @property
    def target(self) -> Target:
        """Where jobs will run on the first device."""
        return self.targets[self.devices[0]]

    @property
    def targets(self) -> dict[str, Target]:
        """Where jobs will run on each device, as far as can be told without starting anything; each must be there."""
        if self._far_targets is not None:
            return self._far_targets
        hardware = {name: hardware_of(name) for name in self.devices}
        return {
            name: Target(
                name.partition(":")[0],
                model,
                self._threads,
                arch=self.config.arch,
                device_count=list(hardware.values()).count(model),
            )
            for name, model in hardware.items()
        }

    def plan(self, *, selection: Selection | None = None, resume: Resume | None = None) -> Plan:
        """Decide what to run, without running anything: every job on each hardware that is among the devices."""
        targets = self.targets.values()
        return plan_for_all(
            self._trace_set, self.config, targets, selection=selection, resume=resume
        )

    def run(
        self,
        planned: Plan,
        *,
        dump_traces: bool = True,
        observe: Callable[[Progress], None] = lambda _: None,
    ) -> Iterator[Step]:
        """Run a plan job by job; stop iterating to stop the work."""
        if not planned.jobs:
            return
        store: Store = self._trace_set if dump_traces else _InMemory(self._trace_set)
        self._best.learn(planned.jobs)
        pool = self._require_pool()
        run = begin_run(
            threads=self._threads,
            label=self.config.label,
            root=self._trace_set.root,
            roots=self._trace_set.roots,
        )
        for step in benchmark(
            store,
            pool,
            planned.batches,
            run,
            is_strict=self.config.strict,
            unseen_count=self.config.unseen,
            seed=self.config.seed,
            observe=observe,
        ):
            if step.job.config.racing and step.trace is not None:
                self._best.note(step.trace)
            yield step

    def run_all(self, dump_traces: bool = True, resume: bool = False) -> TraceSet:
        """Benchmark every selected solution; return a trace set that holds only the new traces.

        New traces are added to the given trace set too, and to disk unless `dump_traces` is false. `resume`
        leaves out jobs that a trace of the same solution, workload, settings and hardware already answers.
        """
        planned = self.plan(resume=Resume() if resume else None)
        for remark in planned.warnings:
            _log.warning("%s", remark)
        for job, reason in planned.skipped:
            _log.warning("skipped %s: %s", job.label, reason)
        steps = self.run(planned, dump_traces=dump_traces, observe=_log_lost)
        return self._collected(steps)

    def run_solution(
        self,
        solution: str | Solution,
        workloads: Iterable[str] | None = None,
        dump_traces: bool = True,
    ) -> list[Trace]:
        """Benchmark one solution on all its workloads of the run's class, or on those with the given uuids.

        A `Solution` object need not be part of the dataset.
        """
        planned = self._plan_solution(solution, workloads)
        return list(_traces(self.run(planned, dump_traces=dump_traces, observe=_log_lost)))

    def close(self) -> None:
        """End the workers; a later run starts new ones."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _plan_solution(self, solution: str | Solution, workloads: Iterable[str] | None) -> Plan:
        found = self._find(solution) if isinstance(solution, str) else solution
        definition = self._trace_set.definitions.get(found.definition)
        if definition is None:
            raise UnknownNameError("definition", found.definition, self._trace_set.definitions)
        known = {
            trace.workload.uuid: trace.workload
            for trace in self._trace_set.workloads.get(definition.name, [])
        }
        wanted = list(self._of_class(known.values()) if workloads is None else workloads)
        for uuid in wanted:
            if uuid not in known:
                raise UnknownNameError(f"workload of {definition.name}", uuid, known)
        chosen = [known[uuid] for uuid in wanted]
        runnable: list[Job] = []
        skipped: list[tuple[Job, str]] = []
        for target in dict.fromkeys(self.targets.values()):
            jobs = jobs_for(definition, found, chosen, self.config, target)
            reason = skip_reason(found, target, is_strict=self.config.strict_hardware)
            runnable += [] if reason is not None else jobs
            skipped += [] if reason is None else [(job, reason) for job in jobs]
        return Plan(tuple(runnable), tuple(skipped))

    def _of_class(self, workloads: Iterable[Workload]) -> list[str]:
        wanted = Selection.of(self.config).workload_class_on(self.target)
        return [workload.uuid for workload in workloads if workload.is_of_class(wanted)]

    def _find(self, name: str) -> Solution:
        found = self._trace_set.get_solution(name)
        if found is None:
            known = [each.name for group in self._trace_set.solutions.values() for each in group]
            raise UnknownNameError("solution", name, known)
        return found

    def _collected(self, steps: Iterator[Step]) -> TraceSet:
        source = self._trace_set
        traces: dict[str, list[Trace]] = {}
        for trace in _traces(steps):
            traces.setdefault(trace.definition, []).append(trace)
        return TraceSet(
            root=source.root,
            definitions=source.definitions,
            solutions=source.solutions,
            workloads=source.workloads,
            traces=traces,
        )

    def _require_pool(self) -> Pool:
        if self._pool is None and self._far_targets is not None:
            raise UsageError("this benchmark has left its cluster; make another")
        if self._pool is None:
            kinds = {name.partition(":")[0] for name in self.devices}
            if len(kinds) > 1:
                raise UsageError(f"devices of one kind at a time, not {', '.join(self.devices)}")
            self._pool = LocalPool(
                self.devices,
                config=self.config,
                roots=self._trace_set.roots,
                threads=self._threads,
                targets=self.targets,
                best_speedup=self._best.speedup,
            )
        return self._pool


def _log_lost(event: Progress) -> None:
    if isinstance(event, Lost):
        _log.error("%s does no more jobs: %s", event.device, event.reason)


def _traces(steps: Iterable[Step]) -> Iterator[Trace]:
    """Yield what was recorded; what was not is told to the log."""
    for step in steps:
        if step.trace is not None:
            yield step.trace
            continue
        match step.outcome:
            case Skipped(reason=reason):
                _log.warning("skipped %s: %s", step.job.label, reason)
            case DatasetFault(explanation=explanation):
                _log.error("%s: the dataset is at fault: %s", step.job.label, explanation)
            case _:
                _log.error("%s left no trace", step.job.label)


class _InMemory:
    """Keeps traces in the trace set without writing them."""

    def __init__(self, trace_set: TraceSet) -> None:
        self._trace_set = trace_set

    def append(
        self,
        trace: Trace,
        *,
        samples: Mapping[str, Sequence[float]] | None = None,  # noqa: ARG002  # memory keeps no samples
        author: str | None = None,  # noqa: ARG002
    ) -> None:
        self._trace_set.traces.setdefault(trace.definition, []).append(trace)
