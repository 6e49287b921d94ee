"""Whose fault is it? What a job's end means once it is known how it came about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.bench.outcomes import (
    Crashed,
    DatasetFault,
    NotBuilt,
    Outcome,
    Passed,
    RivalFailed,
    Skipped,
    Wrong,
)
from flashinfer_bench.bench.plan import is_stand_in
from flashinfer_bench.bench.protocol import JobSuspect, JobWrong

if TYPE_CHECKING:
    from flashinfer_bench.bench.plan import Job

PLAYS = 3
"""A job is played so often before what looked like a lie each time is held against a solution."""

_NO_GPU_WORDS = (
    "not compiled with CUDA",
    "not linked with support for cuda",
    "no NVIDIA driver",
    "No CUDA GPUs are available",
    "no CUDA-capable device",
)
"""How torch says that there is no GPU."""


@dataclass(frozen=True)
class Suspect:
    """Right, but its claims do not fit what was seen."""

    result: JobSuspect
    log: str
    is_rival: bool

    @property
    def reasons(self) -> str:
        """A line for each, for the log."""
        found = self.result.violations
        return "".join(f"played again because of {v.code}: {v.evidence}\n" for v in found)

    def convicted(self, said: str) -> Outcome:
        """What looked like a lie each time is one."""
        seen = self.result
        explanation = f"seen in each of {PLAYS} plays of the job, each in a fresh process"
        wrong = Wrong(
            JobWrong(
                seen.id, seen.errors, explanation, seen.violations, seen.notes, seen.contestant
            ),
            said + self.log,
        )
        return RivalFailed(wrong) if self.is_rival else wrong


def with_log(outcome: Outcome, said: str) -> Outcome:
    """Let the log of a job that was played more than once say so."""
    if not said or not isinstance(outcome, Passed | Wrong):
        return outcome
    return replace(outcome, log=said + outcome.log)


def unless_it_wants_a_gpu(outcome: Outcome, job: Job, device: str) -> Outcome:
    """Skip what stands in for a GPU's kernel here and whose host code asks for the GPU itself."""
    if not isinstance(outcome, Crashed) or not is_stand_in(job.solution, device.partition(":")[0]):
        return outcome
    lines = [line for line in outcome.explanation.splitlines() if line.strip()]
    said = lines[-1].strip() if lines else ""
    if not any(words in said for words in _NO_GPU_WORDS):
        return outcome
    return Skipped(f"its host code needs a CUDA device: {said}")


def blamed_on_dataset(outcome: Outcome) -> Outcome:
    """A reference that cannot be built is the definition's fault."""
    match outcome:
        case NotBuilt(explanation=explanation, log=log):
            return DatasetFault(f"the reference cannot be built: {explanation}\n{log}")
        case _:
            return outcome
