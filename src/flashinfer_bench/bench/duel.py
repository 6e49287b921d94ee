"""Two solutions timed against each other: in alternating blocks of one job, in fresh processes every round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from flashinfer_bench.bench.outcomes import DatasetFault, Outcome, Passed, RivalFailed
from flashinfer_bench.bench.timing.statistics import block_ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.bench.plan import Job
    from flashinfer_bench.bench.pool import Finished, Pool, Progress
    from flashinfer_bench.bench.protocol import Errors
    from flashinfer_bench.data import Solution, Workload

ROUNDS = 12
"""The third smallest and the third largest of twelve medians enclose the truth with 96%."""

Blocks = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Round:
    """One workload in one pair of processes: both right, and timed in turns."""

    workload: Workload
    hardware: str
    old_ns: Blocks
    new_ns: Blocks
    old_errors: Errors
    new_errors: Errors
    calls_per_sample: int

    @property
    def ratios(self) -> list[float]:
        """How many times faster the new one was, block by block."""
        return block_ratios(self.old_ns, self.new_ns)


@dataclass(frozen=True, slots=True)
class Ended:
    """A workload is out: one of the two failed, cannot run here, or the dataset is at fault."""

    workload: Workload
    whose: Literal["old", "new", "dataset"]
    outcome: Outcome


def duel(
    jobs: Sequence[Job],
    new: Solution,
    pool: Pool,
    *,
    rounds: int = ROUNDS,
    observe: Callable[[Progress], None] = lambda _: None,
) -> Iterator[Round | Ended]:
    """Time the jobs' solution, the old one, against a new one.

    Every round starts both processes anew, and every other round in the other order: where memory lands
    and which process came first is luck that must not decide. A workload with a failure is not repeated.
    """
    left = list(jobs)
    for number in range(rounds):
        is_swapped = number % 2 == 1
        if not left:
            return
        batch = [
            replace(job, solution=new, rival=job.solution)
            if is_swapped
            else replace(job, rival=new)
            for job in left
        ]
        for finished in pool.run([batch], observe):
            step = _step(finished, is_swapped=is_swapped)
            if isinstance(step, Ended):
                left = [job for job in left if job.workload.uuid != step.workload.uuid]
            yield step


def _step(finished: Finished, *, is_swapped: bool) -> Round | Ended:
    workload, outcome = finished.job.workload, finished.outcome
    match outcome:
        case Passed():
            return _round(finished, outcome, is_swapped=is_swapped)
        case RivalFailed(outcome=DatasetFault() as fault):
            return Ended(workload, "dataset", fault)
        case DatasetFault():
            return Ended(workload, "dataset", outcome)
        case RivalFailed(outcome=inner):
            return Ended(workload, "old" if is_swapped else "new", inner)
        case _:
            return Ended(workload, "new" if is_swapped else "old", outcome)


def _round(finished: Finished, passed: Passed, *, is_swapped: bool) -> Round:
    result = passed.result
    first, second = (samples for samples in result.samples if not samples.is_reference)
    errors = (result.errors, result.rival_errors or result.errors)
    old, new = (second, first) if is_swapped else (first, second)
    old_errors, new_errors = errors[::-1] if is_swapped else errors
    return Round(
        workload=finished.job.workload,
        hardware=finished.device.hardware,
        old_ns=old.blocks_ns,
        new_ns=new.blocks_ns,
        old_errors=old_errors,
        new_errors=new_errors,
        calls_per_sample=first.calls_per_sample,
    )
