"""Runs tasks to see whether they are sound and hard to fake; the parent's side, without torch."""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.bench.benchmark import Benchmark, Step
from flashinfer_bench.bench.channel import ChannelClosed, ChannelGarbled, ChannelTimeout
from flashinfer_bench.bench.outcomes import DatasetFault, Skipped
from flashinfer_bench.bench.parent.device_locks import device_lock
from flashinfer_bench.bench.parent.launcher import Launcher, Worker, WorkerDied
from flashinfer_bench.bench.parent.pool import device_names, hardware_of
from flashinfer_bench.bench.protocol import (
    JobEnded,
    JudgeFailed,
    LintAnswer,
    LintTask,
    Open,
    Opened,
    TaskLinted,
)
from flashinfer_bench.bench.sandbox.policy import of_judge, require_all
from flashinfer_bench.compile.sources import reference_solution
from flashinfer_bench.data import Trace, TraceSet, settings
from flashinfer_bench.errors import DatasetError, WorkerError
from flashinfer_bench.tensors import machine
from flashinfer_bench.tensors.files import shared_files
from flashinfer_bench.tensors.planned import ELEMENT_BITS, plan_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.plan import Plan
    from flashinfer_bench.bench.sandbox.policy import Level
    from flashinfer_bench.data import Definition, Solution, Workload

_OPEN_DEADLINE_S = 120.0
_END_NOTICE_S = 2.0
_TIGHTER = 10.0  # as in the definition gate
_ONE_LOOK = {
    "warmup_runs": 0,
    "iterations": 1,
    "num_trials": 1,
    "profile_baseline": False,
    "audit": False,
    "workload_class": "all",
    "seed": 0,
}
_KEY = 0  # the same dataset gets the same findings; nobody's solution is judged by it

FromLintingJudge = Opened | LintAnswer


@dataclass(frozen=True, slots=True)
class Task:
    """A definition with the workload to look at, and the solutions that must agree with it."""

    definition: Definition
    workload: Workload
    baselines: tuple[Solution, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsound:
    """The reference or the workload is at fault."""

    explanation: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """This machine cannot look at it."""

    reason: str


Seen = TaskLinted | Unsound | Unseen


def smallest(definition: Definition, workloads: Sequence[Workload]) -> Workload:
    """Choose the workload with the fewest bytes of input, among those whose axes have values."""
    return min(workloads, key=lambda workload: _input_bits(definition, workload))


def look_at(
    tasks: Sequence[Task], roots: Sequence[Path], config: BenchmarkConfig, *, device: str
) -> Iterator[tuple[Task, Seen]]:
    """Look at every task by itself in a judge's process; nobody's solution is loaded."""
    threads = config.threads or machine.physical_cores()
    first = device_names(device)[0]
    hardware_of(first)  # a card that is not there is the user's mistake
    with _Judge(first, threads, tuple(map(str, roots)), config) as judge:
        for task in tasks:
            yield task, judge.look_at(task)


def let_agree(
    tasks: Sequence[Task], root: Path | None, config: BenchmarkConfig, *, device: str
) -> Iterator[Step]:
    """Run each reference, in a process of its own, and each baseline against the judge once.

    The reference must agree ten times more closely than others must.
    """
    quick = config.model_copy(update=_ONE_LOOK)
    with Benchmark(_scratch(tasks, root), quick, device=device) as benchmark:
        planned = benchmark.plan()
        yield from benchmark.run(_tightened(planned), dump_traces=False)


def is_reference(solution: Solution) -> bool:
    """Tell whether a solution is a definition's reference."""
    return solution.name.endswith("__reference")


class _Judge:
    """One judge at a time; one that a reference took down is replaced."""

    def __init__(
        self, device: str, threads: int, roots: tuple[str, ...], config: BenchmarkConfig
    ) -> None:
        self._device, self._threads, self._roots = device, threads, roots
        self._config = config
        self._stop = os.pipe2(os.O_CLOEXEC)
        environment = settings.environment_copy()
        self._launcher = Launcher(environment=environment, threads=threads, stop=self._stop[0])
        self._worker: Worker | None = None
        self._lock_name = ""

    def __enter__(self) -> _Judge:
        self._launcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._launcher.close()
        for descriptor in self._stop:
            os.close(descriptor)

    def look_at(self, task: Task) -> Seen:
        """Ask the judge; what ends it is the task's fault."""
        try:
            task.definition.require_workload(task.workload)
            files = shared_files(plan_inputs(task.definition, task.workload), self._roots)
        except DatasetError as error:
            return Unsound(str(error))
        try:
            return self._look_at(task, files)
        finally:
            if files is not None:
                os.close(files)

    def _look_at(self, task: Task, files: int | None) -> Seen:
        worker, limit_s = self._worker or self._open(), self._config.timeout_seconds
        with device_lock(self._lock_name):
            try:
                request = self._request(task, has_files=files is not None)
                worker.channel.send(request, [] if files is None else [files])
                answer = self._hear(worker, limit_s)
            except ChannelTimeout:
                self._drop(worker)
                return Unsound(f"the reference did not return within {limit_s:g} s")
            except ChannelGarbled as error:
                self._drop(worker)
                return Unsound(f"while the reference ran, the judge's channel broke: {error}")
            except (WorkerDied, ChannelClosed):
                return self._after_death(worker)
        match answer:
            case TaskLinted():
                return answer
            case JobEnded(outcome=DatasetFault(explanation=explanation)):
                return Unsound(explanation)
            case JobEnded(outcome=Skipped(reason=reason)):
                return Unseen(reason)
            case JobEnded(outcome=other):
                raise WorkerError(f"the judge ended a look at a task with {type(other).__name__}")
            case JudgeFailed(text=text):
                raise WorkerError(f"the judge failed: {text}")
            case Opened():
                raise WorkerError("the judge answered with its introduction")

    def _open(self) -> Worker:
        sandbox = self._config.sandbox
        level: Level = "process" if sandbox == "required" else sandbox
        hidden = (*self._roots, str(settings.cache_path()))
        worker = self._launcher.spawn(
            "judge",
            FromLintingJudge,
            is_trusted=True,
            policy=of_judge(level, self._device, hidden),
        )
        if sandbox == "required":
            require_all(worker.missing)
        id_ = self._launcher.new_id()
        try:
            worker.channel.send(Open(id_, self._device, self._threads, str(worker.scratch)))
            opened = self._hear(worker, _OPEN_DEADLINE_S)
        except (WorkerDied, ChannelClosed, ChannelTimeout) as error:
            said = worker.log.take().strip()
            raise WorkerError(
                f"the judge did not start on {self._device}: {said or error}"
            ) from error
        assert isinstance(opened, Opened)
        self._lock_name = opened.lock_name
        self._worker = worker
        return worker

    def _hear(self, worker: Worker, seconds: float) -> FromLintingJudge:
        answer: FromLintingJudge = self._launcher.receive(
            worker.channel, deadline_s=time.monotonic() + seconds, watching=[worker]
        )
        return answer

    def _request(self, task: Task, *, has_files: bool) -> LintTask:
        resolved = self._config.resolve_eval_config(task.definition, task.workload)
        return LintTask(
            self._launcher.new_id(),
            definition=task.definition.model_dump_json().encode(),
            workload=task.workload.model_dump_json().encode(),
            has_files=has_files,
            settings=resolved.model_dump_json().encode(),
            key=_KEY,
        )

    def _after_death(self, worker: Worker) -> Seen:
        self._launcher.wait_for_end(worker, seconds=_END_NOTICE_S)
        ending, said = worker.ending, worker.log.take().strip()
        self._drop(worker)
        return Unsound(f"while the reference ran, {ending}\n{said}".strip())

    def _drop(self, worker: Worker) -> None:
        self._launcher.kill(worker)
        self._worker = None


def _input_bits(definition: Definition, workload: Workload) -> float:
    with contextlib.suppress(ValueError):
        shapes = definition.get_input_shapes(workload.axes)
        bits = [ELEMENT_BITS[str(spec.dtype)] for spec in definition.inputs.values()]
        return sum(math.prod(s or ()) * each for s, each in zip(shapes, bits, strict=True))
    return math.inf


def _scratch(tasks: Sequence[Task], root: Path | None) -> TraceSet:
    """Make a trace set in memory: one workload and few solutions per definition."""
    return TraceSet(
        root,
        {task.definition.name: task.definition for task in tasks},
        {
            task.definition.name: [reference_solution(task.definition), *task.baselines]
            for task in tasks
        },
        {
            task.definition.name: [Trace(definition=task.definition.name, workload=task.workload)]
            for task in tasks
        },
    )


def _tightened(planned: Plan) -> Plan:
    return replace(planned, jobs=tuple(map(_tightened_job, planned.jobs)))


def _tightened_job(job: Job) -> Job:
    if not is_reference(job.solution):
        return job
    closer = {"rtol": job.config.rtol / _TIGHTER, "atol": job.config.atol / _TIGHTER}
    return replace(job, config=job.config.model_copy(update=closer))
