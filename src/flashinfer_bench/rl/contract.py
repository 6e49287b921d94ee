"""`judge`: a kernel's worth on a split of a definition's workloads, or why there is no verdict."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from flashinfer_bench import __version__
from flashinfer_bench.bench.benchmark import Benchmark
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.parent.events import Started
from flashinfer_bench.bench.plan import Plan, Selection, jobs_for, skip_reason
from flashinfer_bench.data import Solution, TraceSet, settings
from flashinfer_bench.errors import (
    BenchError,
    UnknownNameError,
    UsageError,
)
from flashinfer_bench.rl.candidates import candidate_of
from flashinfer_bench.rl.judged_kernel import (
    JudgedKernel,
    cause_of,
    take,
    unjudged,
    verdict_of_kernel,
    why_stopped,
    without_function,
)
from flashinfer_bench.rl.known_kernels import known_tasks
from flashinfer_bench.rl.ledger import VerdictLedger, verdict_key
from flashinfer_bench.rl.self_check import require_expected, self_check
from flashinfer_bench.rl.splits import DeclaredSplits, chosen, require_split
from flashinfer_bench.rl.verdicts import JudgeBudget, JudgeCost, KernelVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.rl.verdicts import Cause, Split

QUICK = {
    "warmup_runs": 3,
    "iterations": 20,
    "num_trials": 1,
    "timeout_seconds": 20,
    "build_timeout_seconds": 120,
}
"""Settings of a verdict where nothing else is said: those of `check`."""


class KernelJudge:
    """Judges kernels on one device; its workers stay until `close`, or the end of a `with` block.

    With `ledger`, a folder, equal content is judged once by all judges that name it.
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
        ledger: Path | str | None = None,
        self_check: bool = False,
    ) -> None:
        found = settings.dataset_path() if dataset is None else dataset
        self.trace_set = found if isinstance(found, TraceSet) else TraceSet.from_path(str(found))
        self.splits = DeclaredSplits.of(self.trace_set.roots)
        self._device = device
        self._config = config or BenchmarkConfig.default(**QUICK)
        self._is_unchecked = self_check
        self._benchmark: Benchmark | None = None
        self._scratch = TraceSet()
        self._known: dict[str, KernelVerdict] = {}
        self._ledger = None if ledger is None else VerdictLedger(Path(ledger))

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
        task, of = self.definition(definition), require_split(split)
        limits = budget or JudgeBudget()
        try:
            self.device_kind()
        except BenchError as error:
            fault: tuple[Cause, str] = ("device", str(error))
            return [unjudged(each, definition, of, fault, began_s) for each in codes]
        taken = self.workloads(definition, of)[: limits.workloads]
        answers: list[KernelVerdict | None] = []
        solutions: list[Solution] = []
        for code in codes:
            try:
                solutions.append(candidate_of(code, task, kinds=("cpu", "cuda")))
                answers.append(None)
            except UsageError as error:
                if not isinstance(code, str):
                    raise
                answers.append(without_function(code, definition, of, str(error), len(taken)))
        found = iter(
            self._judged(task, solutions, of=of, taken=taken, limits=limits, began_s=began_s)
        )
        return [next(found) if each is None else each for each in answers]

    def workloads(self, definition: str, split: str) -> list[Workload]:
        """Give the workloads of a split for this kind of device; `UsageError` where there are none."""
        task = self.definition(definition)
        own = [each.workload for each in self.trace_set.workloads.get(definition, [])]
        return chosen(task, self._of_class(own), require_split(split), self.splits)

    def shown_workloads(self, definition: str) -> list[Workload]:
        """Give the workloads that a policy may see: those of `train`; none where the definition is sealed."""
        try:
            return self.workloads(definition, "train")
        except UsageError:
            return []

    def _judged(
        self,
        task: Definition,
        solutions: Sequence[Solution],
        *,
        of: Split,
        taken: Sequence[Workload],
        limits: JudgeBudget,
        began_s: float,
    ) -> list[KernelVerdict]:
        keys = [self._key(each, task, of, taken) for each in solutions]
        ledger = self._ledger
        with contextlib.nullcontext() if ledger is None else ledger.holding(keys):
            if ledger is not None:
                self._known |= ledger.find({key for key in keys if key not in self._known})
            new = {
                key: JudgedKernel(each, list(taken))
                for key, each in zip(keys, solutions, strict=True)
                if key not in self._known
            }
            self._run(task, list(new.values()), limits)
            fresh = {
                key: verdict_of_kernel(
                    each, of, total=len(taken), began_s=began_s, is_audited=self._config.audit
                )
                for key, each in new.items()
            }
            kept = {key: each for key, each in fresh.items() if each.no_verdict is None}
            self._known |= kept
            if ledger is not None:
                ledger.keep(kept)
        return [self._answer(key, fresh, began_s) for key in keys]

    def _key(
        self, solution: Solution, task: Definition, of: Split, taken: Sequence[Workload]
    ) -> str:
        uuids = [each.uuid for each in taken]
        settings_text, target = self._config.model_dump_json(), self._require_benchmark().target
        return verdict_key(
            __version__, solution.hash(), task.hash(), of, uuids, settings_text, target
        )

    def _check_itself(self) -> None:
        if self._is_unchecked:
            with KernelJudge(known_tasks(), device=self._device, config=self._config) as known:
                require_expected(self_check(known))
            self._is_unchecked = False

    def _answer(self, key: str, fresh: dict[str, KernelVerdict], began_s: float) -> KernelVerdict:
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

    def _run(self, task: Definition, subjects: Sequence[JudgedKernel], limits: JudgeBudget) -> None:
        """Try one workload of each, stop clear losers, and go on with twice as many."""
        count = 1
        while opened := [each for each in subjects if each.is_open]:
            self._try(task, opened, count)
            for each in opened:
                if each.is_open:
                    each.stopped = why_stopped(each, limits)
            count *= 2

    def _try(self, task: Definition, subjects: Sequence[JudgedKernel], count: int) -> None:
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
                    take(by_name[key[0]], step, time.monotonic() - began[key])
            except (BenchError, OSError) as error:
                self.close()
                left = [
                    job for job in planned if (job.solution.name, job.workload.uuid) not in ended
                ]
                struck = {name for name, uuid in began if (name, uuid) not in ended}
                struck = struck or {job.solution.name for job in left}
                for name in struck:
                    by_name[name].fault = (cause_of(error), str(error))
                planned = [job for job in left if job.solution.name not in struck]
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
