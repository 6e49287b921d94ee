"""`judge` on the workers of a service: the same rules and the same number, from traces that others measured."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from flashinfer_bench.data import Solution, TraceSet, settings
from flashinfer_bench.errors import DeviceError, UnknownNameError, UsageError
from flashinfer_bench.rl.candidates import candidate_of
from flashinfer_bench.rl.judged_kernel import (
    JudgedKernel,
    unjudged,
    verdict_of_kernel,
    why_stopped,
    without_function,
)
from flashinfer_bench.rl.splits import DeclaredSplits, chosen, require_split
from flashinfer_bench.rl.verdicts import JudgeBudget
from flashinfer_bench.serve.client import ServiceClient
from flashinfer_bench.serve.states import ENDED

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.data import Workload
    from flashinfer_bench.rl.verdicts import Cause, KernelVerdict, Split
    from flashinfer_bench.serve.messages import TaskState

_FULL = "full"
_SMALL = "small"


class ServiceJudge:
    """Judges kernels on a server's workers; splits are those of the dataset here, a copy of the server's.

    Every workload is run before losers are told from winners: it costs the service more than it costs a `KernelJudge`.
    Device seconds are not known here, so that `JudgeBudget.device_seconds` bounds nothing. Equal content is answered
    by the service from what it has recorded.
    """

    def __init__(
        self,
        server: str,
        dataset: TraceSet | str | Path | None = None,
        *,
        token: str | None = None,
        most_wait_s: float = 3600.0,
    ) -> None:
        found = settings.dataset_path() if dataset is None else dataset
        self.trace_set = found if isinstance(found, TraceSet) else TraceSet.from_path(str(found))
        self.splits = DeclaredSplits.of(self.trace_set.roots)
        self._client = ServiceClient(server, token)
        self._most_wait_s = most_wait_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections; tasks go on."""
        self._client.close()

    def judge(
        self,
        code: str | Path | Solution,
        definition: str,
        split: str = "train",
        budget: JudgeBudget | None = None,
    ) -> KernelVerdict:
        """Judge one kernel; a server that does not answer, or has not ended in time, is no verdict."""
        began_s = time.monotonic()
        if definition not in self.trace_set.definitions:
            raise UnknownNameError("definition", definition, self.trace_set.definitions)
        task, of = self.trace_set.definitions[definition], require_split(split)
        try:
            kinds = self._client.kinds()
            taken = self._workloads(definition, of, kinds)[: (budget or JudgeBudget()).workloads]
            try:
                solution = candidate_of(code, task, kinds=("cpu", "cuda"))
            except UsageError as error:
                if not isinstance(code, str):
                    raise
                return without_function(code, definition, of, str(error), len(taken))
            uuids = [each.uuid for each in taken]
            submitted = self._client.submit(solution, workloads=uuids)
            state = self._client.wait(submitted.task_id, most_s=self._most_wait_s)
        except DeviceError as error:
            return unjudged(code, definition, of, ("service", str(error)), began_s)
        fault = _fault_of(state)
        if fault is not None:
            return unjudged(solution, definition, of, fault, began_s)
        subject = _replayed(solution, taken, state)
        return verdict_of_kernel(subject, of, total=len(taken), began_s=began_s, is_audited=True)

    def _workloads(self, definition: str, split: Split, kinds: list[str]) -> list[Workload]:
        of_class = _FULL if "cuda" in kinds else _SMALL
        own = [each.workload for each in self.trace_set.workloads.get(definition, [])]
        fitting = [each for each in own if each.is_of_class(of_class)]
        return chosen(self.trace_set.definitions[definition], fitting, split, self.splits)


def _fault_of(state: TaskState) -> tuple[Cause, str] | None:
    if state.status not in ENDED:
        return "service", f"task {state.task_id} has not ended: it waits for {state.waiting_for}"
    if state.outcome == "infra_failed":
        return "worker", state.error or "the service's workers failed"
    if state.outcome != "evaluated" or not state.traces:
        return "service", state.error or f"task {state.task_id} ended as {state.outcome}"
    if state.left_out:
        return (
            "worker",
            f"{len(state.left_out)} workloads left no trace: {state.left_out[0].reason}",
        )
    return None


def _replayed(solution: Solution, taken: list[Workload], state: TaskState) -> JudgedKernel:
    """Stop where a `KernelJudge` would have stopped, for the same number."""
    traces = {each.workload.uuid: each for each in state.traces or ()}
    subject = JudgedKernel(solution, list(taken))
    count = 1
    while subject.is_open:
        batch, subject.workloads = subject.workloads[:count], subject.workloads[count:]
        subject.traces += [traces[each.uuid] for each in batch if each.uuid in traces]
        subject.stopped = why_stopped(subject, JudgeBudget(device_seconds=float("inf")))
        count *= 2
    return subject
