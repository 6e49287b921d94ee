"""`judge`: a kernel's worth on a split of a definition's workloads, or why there is no verdict."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from flashinfer_bench.bench.benchmark import Benchmark
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.outcomes import DatasetFault, Skipped
from flashinfer_bench.bench.parent.events import Started
from flashinfer_bench.bench.plan import Plan, Selection, jobs_for, skip_reason
from flashinfer_bench.data import TraceSet, settings
from flashinfer_bench.errors import (
    BenchError,
    DeviceError,
    StorageError,
    UnknownNameError,
    UsageError,
)
from flashinfer_bench.rl.candidates import candidate_of
from flashinfer_bench.rl.evidence import NOT_BUILT, verdict_of, violations_of
from flashinfer_bench.rl.known_kernels import known_tasks
from flashinfer_bench.rl.self_check import require_expected, self_check
from flashinfer_bench.rl.splits import DeclaredSplits, chosen, require_split
from flashinfer_bench.rl.verdicts import JudgeBudget, JudgeCost, KernelVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.data import Definition, Solution, Trace, Workload
    from flashinfer_bench.rl.verdicts import Cause, Split

QUICK = {
    "warmup_runs": 3,
    "iterations": 20,
    "num_trials": 1,
    "timeout_seconds": 20,
    "build_timeout_seconds": 120,
}
"""Settings of a verdict where nothing else is said: those of `check`."""
_HOPELESS = frozenset({NOT_BUILT, "TIMEOUT"})
_LOSES = 0.5
"""A kernel whose speedup lies below this with 95% on the first workload is not tried on the others."""


@dataclass(slots=True)
class _JudgedKernel:
    """A kernel while it is judged."""

    solution: Solution
    workloads: list[Workload]
    traces: list[Trace] = field(default_factory=list)
    device_seconds: float = 0.0
    builds: int = 0
    stopped: str | None = None
    fault: tuple[Cause, str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether workloads are left to try."""
        return bool(self.workloads) and self.stopped is None and self.fault is None


class KernelJudge:
    """Judges kernels on one device; its workers stay until `close`, or the end of a `with` block.

    With `self_check` it first judges kernels whose verdicts are known, and raises `SelfCheckError` where one differs.
    Raises `UsageError` for what cannot be asked (an unknown definition or split, a source without a function) and
    `DatasetError` for a faulty dataset. A lost device and a dead worker raise nothing: the verdict says so.
    """

    def __init__(
        self,
        dataset: TraceSet | str | Path | None = None,
        *,
        device: str = "auto",
        config: BenchmarkConfig | None = None,
        self_check: bool = False,
    ) -> None:
        found = settings.dataset_path() if dataset is None else dataset
        self.trace_set = found if isinstance(found, TraceSet) else TraceSet.from_path(str(found))
        self._splits = DeclaredSplits.of(self.trace_set.roots)
        self._device = device
        self._config = config or BenchmarkConfig.default(**QUICK)
        self._is_unchecked = self_check
        self._benchmark: Benchmark | None = None
        self._scratch = TraceSet()
        self._known: dict[tuple[str, str, Split, int | None], KernelVerdict] = {}

    def __enter__(self) -> Self:
        self._check_itself()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; a later verdict starts new ones."""
        if self._benchmark is not None:
            self._benchmark.close()
            self._benchmark = None

    def definition(self, name: str) -> Definition:
        """Find a definition."""
        if name not in self.trace_set.definitions:
            raise UnknownNameError("definition", name, self.trace_set.definitions)
        return self.trace_set.definitions[name]

    def device_kind(self) -> str:
        """Say what it judges on: `cpu` or `cuda`. Raises `DeviceError` where there is no such device."""
        return self._require_benchmark().target.kind

    def judge(
        self,
        code: str | Path | Solution,
        definition: str,
        split: str = "train",
        budget: JudgeBudget | None = None,
    ) -> KernelVerdict:
        """Judge one kernel: source code, a file, or a solution."""
        return self.judge_all([code], definition, split, budget)[0]

    def judge_all(
        self,
        codes: Sequence[str | Path | Solution],
        definition: str,
        split: str = "train",
        budget: JudgeBudget | None = None,
    ) -> list[KernelVerdict]:
        """Judge several kernels, in this order of answers; what has to be built is built ahead of the device.

        Equal content is judged once, by this judge.
        """
        self._check_itself()
        began_s = time.monotonic()
        task, of, limits = (
            self.definition(definition),
            require_split(split),
            budget or JudgeBudget(),
        )
        solutions = [candidate_of(each, task, kinds=("cpu", "cuda")) for each in codes]
        own = [each.workload for each in self.trace_set.workloads.get(definition, [])]
        try:
            workloads = self._of_class(own)
        except BenchError as error:
            fault: tuple[Cause, str] = ("device", str(error))
            return [_without_verdict(each, of, fault, began_s) for each in solutions]
        taken = chosen(task, workloads, of, self._splits)[: limits.workloads]
        keys = [(each.hash(), definition, of, limits.workloads) for each in solutions]
        new = {
            key: _JudgedKernel(each, list(taken))
            for key, each in zip(keys, solutions, strict=True)
            if key not in self._known
        }
        self._run(task, list(new.values()), limits)
        fresh = {key: self._verdict(each, of, len(taken), began_s) for key, each in new.items()}
        self._known |= {key: each for key, each in fresh.items() if each.no_verdict is None}
        return [self._answer(key, fresh, began_s) for key in keys]

    def _check_itself(self) -> None:
        if self._is_unchecked:
            with KernelJudge(known_tasks(), device=self._device, config=self._config) as known:
                require_expected(self_check(known))
            self._is_unchecked = False

    def _answer(
        self,
        key: tuple[str, str, Split, int | None],
        fresh: dict[tuple[str, str, Split, int | None], KernelVerdict],
        began_s: float,
    ) -> KernelVerdict:
        """Answer the first time with what it has cost, and then as a duplicate."""
        if key in fresh:
            first = fresh.pop(key)
            if first.no_verdict is not None:
                fresh[key] = first
            return first
        cost = JudgeCost(wall_seconds=time.monotonic() - began_s)
        return replace(self._known[key], is_duplicate=True, cost=cost)

    def _of_class(self, workloads: Sequence[Workload]) -> list[Workload]:
        target = self._require_benchmark().target
        wanted = Selection.of(self._config).workload_class_on(target)
        return [each for each in workloads if each.is_of_class(wanted)]

    def _require_benchmark(self) -> Benchmark:
        if self._benchmark is None:
            scratch = TraceSet(root=self.trace_set.root, definitions=self.trace_set.definitions)
            scratch.roots = self.trace_set.roots
            self._scratch = scratch
            self._benchmark = Benchmark(scratch, self._config, device=self._device)
        return self._benchmark

    def _run(
        self, task: Definition, subjects: Sequence[_JudgedKernel], limits: JudgeBudget
    ) -> None:
        """Try one workload of each, stop clear losers, and go on with twice as many."""
        count = 1
        while opened := [each for each in subjects if each.is_open]:
            self._try(task, opened, count)
            for each in opened:
                if each.is_open:
                    each.stopped = _why_stopped(each, limits)
            count *= 2

    def _try(self, task: Definition, subjects: Sequence[_JudgedKernel], count: int) -> None:
        """Run the next workloads of each; what brings our machinery down has no verdict, and the others go on."""
        target = self._require_benchmark().target
        planned = []
        for each in subjects:
            taken, each.workloads = each.workloads[:count], each.workloads[count:]
            reason = skip_reason(each.solution, target, is_strict=self._config.strict_hardware)
            if reason is not None:
                each.fault = ("machine", reason)
                continue
            each.builds += 1
            planned += jobs_for(task, each.solution, taken, self._config, target)
        by_name = {each.solution.name: each for each in subjects}
        while planned:
            began: dict[tuple[str, str], float] = {}
            ended: set[tuple[str, str]] = set()
            try:
                for step in self._steps(Plan(tuple(planned)), began):
                    key = (step.job.solution.name, step.job.workload.uuid)
                    ended.add(key)
                    _take(by_name[key[0]], step, time.monotonic() - began[key])
            except (BenchError, OSError) as error:
                self.close()
                struck = {name for name, uuid in began if (name, uuid) not in ended}
                struck = struck or {job.solution.name for job in planned}
                for name in struck:
                    by_name[name].fault = (_cause_of(error), str(error))
                planned = [
                    job
                    for job in planned
                    if job.solution.name not in struck
                    and (job.solution.name, job.workload.uuid) not in ended
                ]
            else:
                return

    def _steps(self, plan: Plan, began: dict[tuple[str, str], float]) -> Iterator[Step]:
        def observe(event: Progress) -> None:
            if isinstance(event, Started):
                began[event.job.solution.name, event.job.workload.uuid] = time.monotonic()

        benchmark = self._require_benchmark()
        try:
            yield from benchmark.run(plan, dump_traces=False, observe=observe)
        finally:
            self._scratch.traces.clear()

    def _verdict(
        self, subject: _JudgedKernel, split: Split, total: int, began_s: float
    ) -> KernelVerdict:
        fault = subject.fault
        if (
            fault is None
            and subject.traces
            and all(e.evaluation and e.evaluation.task_notes for e in subject.traces)
        ):
            fault = ("dataset", "every workload of this split is weak: less than the work passes")
        if fault is not None:
            return _without_verdict(subject.solution, split, fault, began_s, subject)
        found = verdict_of(
            subject.solution,
            split,
            subject.traces,
            total=total,
            stopped=subject.stopped,
            is_audited=self._config.audit,
        )
        return replace(found, cost=_cost(subject, began_s))


def judge(
    code: str | Path | Solution,
    definition: str,
    split: str = "train",
    budget: JudgeBudget | None = None,
    *,
    dataset: TraceSet | str | Path | None = None,
    device: str = "auto",
) -> KernelVerdict:
    """Judge one kernel and end the workers; a loop keeps a `KernelJudge`, whose workers stay."""
    with KernelJudge(dataset, device=device) as judging:
        return judging.judge(code, definition, split, budget)


def _take(subject: _JudgedKernel, step: Step, seconds: float) -> None:
    subject.device_seconds += seconds
    if step.trace is not None:
        subject.traces.append(step.trace)
        return
    match step.outcome:
        case Skipped(reason=reason):
            subject.fault = ("machine", reason)
        case DatasetFault(explanation=explanation):
            subject.fault = ("dataset", explanation)
        case _:
            subject.fault = ("worker", "the job left no trace")


def _why_stopped(subject: _JudgedKernel, limits: JudgeBudget) -> str | None:
    """Say why a kernel is not tried on the rest; None to go on. Sets a fault where the budget was too small."""
    ended = [each.evaluation for each in subject.traces if each.evaluation is not None]
    hopeless = [each.status.value for each in ended if each.status.value in _HOPELESS]
    if hopeless:
        return f"{hopeless[0]} on one workload"
    if any(violations_of(each) for each in ended):
        return "it broke a rule of evaluation"
    upper = [p.speedup_interval[1] for e in ended if (p := e.performance) and p.speedup_interval]
    if upper and upper[0] < _LOSES:
        return f"on the first workload it is slower than {_LOSES:g} times the reference's speed, with 95%"
    if subject.device_seconds < limits.device_seconds:
        return None
    spent = f"{limits.device_seconds:g} device seconds were spent after {len(ended)} workloads"
    if any(value < 1 for value in upper) or len(upper) < len(ended):
        return spent
    subject.fault = (
        "budget",
        f"{spent}, and the kernel is not slower than the reference: raise the budget",
    )
    return None


def _cause_of(error: BaseException) -> Cause:
    if isinstance(error, StorageError) or (
        isinstance(error, OSError) and not isinstance(error, BenchError)
    ):
        return "disk"
    return "device" if isinstance(error, DeviceError | UsageError) else "worker"


def _without_verdict(
    solution: Solution,
    split: Split,
    fault: tuple[Cause, str],
    began_s: float,
    subject: _JudgedKernel | None = None,
) -> KernelVerdict:
    return KernelVerdict(
        candidate=solution.hash(),
        definition=solution.definition,
        split=split,
        reward=None,
        cause=fault[0],
        no_verdict=fault[1],
        cost=_cost(subject, began_s),
    )


def _cost(subject: _JudgedKernel | None, began_s: float) -> JudgeCost:
    wall_seconds = time.monotonic() - began_s
    if subject is None:
        return JudgeCost(wall_seconds=wall_seconds)
    built_ms = [
        e.performance.build_ms or 0.0
        for t in subject.traces
        if (e := t.evaluation) and e.performance is not None
    ]
    return JudgeCost(
        subject.device_seconds, wall_seconds, subject.builds, max(built_ms, default=0.0) / 1e3
    )
