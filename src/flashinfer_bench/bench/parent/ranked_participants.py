"""The processes of a job for several ranks: started together, ended together, and one of them to blame."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.bench.outcomes import (
    Aborted,
    Crashed,
    DatasetFault,
    Decision,
    Misshapen,
    NotBuilt,
    Outcome,
    Passed,
    Skipped,
    Suspect,
    TimedOut,
    Wrong,
)
from flashinfer_bench.bench.parent.attribution import (
    attributed_to_dataset,
    unless_memory_ran_out,
    with_heap_hint,
)
from flashinfer_bench.bench.parent.stacks import sources_of, where_it_was
from flashinfer_bench.bench.protocol import ParticipantPlan
from flashinfer_bench.compile.sources import reference_solution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.parent.candidates import CandidateProcess, Candidates
    from flashinfer_bench.bench.parent.launcher import Launcher, Worker

_NOTICE_S = 0.5
"""When a rank ends, the others raise because their connection closes: who ended is known a moment later."""


class RankedParticipants:
    """The ranks of a solution and of the reference, for one attempt at one job."""

    def __init__(
        self,
        launcher: Launcher,
        candidates: Candidates,
        judge: Worker,
        *,
        is_there: Callable[[], bool],
    ) -> None:
        """Start nothing yet; `is_there` tells whether the judge is still the one they are connected to."""
        self._launcher = launcher
        self._candidates = candidates
        self._judge = judge
        self._is_judge_there = is_there
        self._reference: list[CandidateProcess] = []
        self._solution: list[CandidateProcess] = []
        self.has_lost_a_trusted_one = False

    def __iter__(self) -> Iterator[CandidateProcess]:
        """Give the reference's ranks, then the solution's, each in order."""
        return iter([*self._reference, *self._solution])

    def start(self, job: Job, devices: Sequence[str]) -> Outcome | None:
        """Start all ranks, one on each device; say how the job ends where they do not build."""
        solution = self._candidates.start_ranks(
            job.solution, job, self._judge, is_trusted=False, devices=devices
        )
        if isinstance(solution, NotBuilt | Skipped):
            return solution
        self._solution = solution
        reference = self._candidates.start_ranks(
            reference_solution(job.definition),
            job,
            self._judge,
            is_trusted=True,
            devices=devices,
        )
        if isinstance(reference, NotBuilt | Skipped):
            return attributed_to_dataset(reference)
        self._reference = reference
        return None

    def end(self) -> None:
        """Kill all ranks, and whatever they left running."""
        judge = self._judge if self._is_judge_there() else None
        for process in self:
            self._candidates.end(process, judge)
        self._reference, self._solution = [], []

    def plans(self, job: Job) -> list[ParticipantPlan]:
        """Say for the judge who takes part."""
        return [
            ParticipantPlan(
                each.name,
                is_reference=each in self._reference,
                is_timed=each not in self._reference or job.config.profile_baseline,
                takes_outputs=each.takes_outputs,
                phases=each.phases,
            )
            for each in self
        ]

    def completed(self, decision: Decision) -> Outcome | Suspect:
        """Add to what the judge decided what only the parent knows: logs, who ended, and where others hang."""
        match decision:
            case Passed() | Wrong() | Misshapen() | Suspect():
                return msgspec.structs.replace(decision, log=self._logs())
            case Skipped():
                return decision
            case DatasetFault():
                return self._reference_ended() or decision
            case Crashed() | TimedOut() | Aborted():
                return self._solution_ended() or self._failed(decision)

    def _failed(self, decision: Crashed | TimedOut | Aborted) -> Outcome:
        """No rank of the solution ended: one raised, hangs, or broke its channel."""
        names = [each.name for each in self._reference]
        if decision.participant in names:
            rank = names.index(decision.participant)
            return self._reference_ended() or DatasetFault(
                f"while the reference was timed, rank {rank}: {decision.explanation}"
            )
        rank = [each.name for each in self._solution].index(decision.participant)
        said = f"rank {rank}: {decision.explanation}"
        match decision:
            case TimedOut():
                log = self._logs()
                return TimedOut(f"{said}{self._where_all_were()}", log)
            case _:
                worker = self._solution[rank].worker
                crashed = Crashed(said, self._logs(first=rank))
                return unless_memory_ran_out(crashed, worker.granted_bytes, worker.most_bytes())

    def _solution_ended(self) -> Outcome | None:
        rank = self._ended_one(self._solution)
        if rank is None:
            return None
        worker = self._solution[rank].worker
        crashed = with_heap_hint(Crashed(f"rank {rank}: {worker.ending}", self._logs(first=rank)))
        return unless_memory_ran_out(crashed, worker.granted_bytes, worker.most_bytes())

    def _reference_ended(self) -> DatasetFault | None:
        rank = self._ended_one(self._reference)
        if rank is None:
            return None
        worker = self._reference[rank].worker
        self.has_lost_a_trusted_one = True
        said = f"rank {rank}: {worker.ending}\n{worker.log.take()}"
        return DatasetFault(f"while the reference was timed, {said}")

    def _ended_one(self, processes: Sequence[CandidateProcess]) -> int | None:
        """Name the rank whose process ended; the first one, where several did."""
        until_s = time.monotonic() + _NOTICE_S
        while True:
            for rank, each in enumerate(processes):
                if each.worker.status is not None:
                    each.worker.log.drain()
                    return rank
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not processes:
                return None
            self._launcher.wait_for_end(processes[0].worker, seconds=min(0.05, left_s))

    def _where_all_were(self) -> str:
        """Show where each rank of the solution hangs."""
        told = []
        for rank, each in enumerate(self._solution):
            stack = self._launcher.stack_of(each.worker)
            where = where_it_was(stack, sources_of(each.solution))
            told.append(f"\nrank {rank}{where}")
        return "".join(told)

    def _logs(self, *, first: int = 0) -> str:
        """Put together what the solution's ranks printed; `first` comes first."""
        ranks = sorted(range(len(self._solution)), key=lambda rank: (rank != first, rank))
        parts = []
        for rank in ranks:
            log = self._solution[rank].worker.log
            log.drain()
            text = log.take()
            if text.strip():
                parts.append(f"[rank {rank}]\n{text.rstrip()}\n")
        return "".join(parts)
