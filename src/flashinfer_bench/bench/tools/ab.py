"""Two solutions timed against each other: in alternating blocks of one job, in fresh processes every round."""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from flashinfer_bench.bench.outcomes import DatasetFault, OpponentFailed, Outcome, Passed
from flashinfer_bench.bench.timing.stopping import (
    AnyOf,
    IntervalWithin,
    SampleCount,
    StoppingRule,
    Taken,
    TimeBudget,
)
from flashinfer_bench.stats.blocks import block_ratios
from flashinfer_bench.stats.intervals import median_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.outcomes import Errors
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.bench.parent.pool import FinishedJob, Pool
    from flashinfer_bench.bench.timing.stopping import Reason
    from flashinfer_bench.data import Solution, Workload

ROUNDS = 12
"""The third smallest and the third largest of twelve medians enclose the truth with 96%."""

_MOST_ROUNDS_FACTOR = 5
_LEAST_ROUNDS = 6  # with fewer the interval does not know how processes differ

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
    seconds: float = 0.0
    """How long it took, processes included."""

    @property
    def ratios(self) -> list[float]:
        """How many times faster the new one was, block by block."""
        return block_ratios(self.old_ns, self.new_ns)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many rounds a workload is played: so many, or as the stopping rules say."""

    rounds: int = ROUNDS
    until_interval: float | None = None
    """Then more rounds follow until the ratio's interval is no wider, five times as many at most."""
    time_budget_seconds: float | None = None

    @property
    def most_rounds(self) -> int:
        """More are never played."""
        return self.rounds * (1 if self.until_interval is None else _MOST_ROUNDS_FACTOR)

    def reason_to_stop(self, played: Sequence[Round]) -> Reason | None:
        """Say why a workload needs no more rounds; `None` while it does."""
        ratios = [median_ratio(each.ratios) for each in played if each.ratios]
        taken = Taken(len(played), ratios, math.fsum(each.seconds for each in played))
        return self._rule.reason_to_stop(taken)

    @property
    def _rule(self) -> StoppingRule:
        rules: list[StoppingRule] = [SampleCount(self.rounds)]
        if self.until_interval is not None:
            narrow = IntervalWithin(self.until_interval, self.rounds, self.most_rounds)
            rules = [narrow, SampleCount(self.most_rounds)]
        if self.time_budget_seconds is not None:
            rules.append(TimeBudget(self.time_budget_seconds, min(self.rounds, _LEAST_ROUNDS)))
        return AnyOf(tuple(rules))


@dataclass(frozen=True, slots=True)
class Ended:
    """A workload is out: one of the two failed, cannot run here, or the dataset is at fault."""

    workload: Workload
    whose: Literal["old", "new", "dataset"]
    outcome: Outcome


def run_ab(
    jobs: Sequence[Job],
    new: Solution,
    pool: Pool,
    *,
    limits: Limits | None = None,
    observe: Callable[[Progress], None] = lambda _: None,
) -> Iterator[Round | Ended]:
    """Time the jobs' solution, the old one, against a new one.

    Every round starts both processes anew, and every other round in the other order: where memory lands
    and which process came first is luck that must not decide. A workload with a failure is not repeated.
    """
    limits = limits or Limits()
    left, played = list(jobs), defaultdict[str, list[Round]](list)
    for is_swapped in itertools.cycle((False, True)):
        if not left:
            return
        began_s = time.monotonic()
        for finished in pool.run([_batch(left, new, is_swapped=is_swapped)], observe):
            step = _step(finished, is_swapped=is_swapped)
            uuid = step.workload.uuid
            if isinstance(step, Round):
                step = replace(step, seconds=time.monotonic() - began_s)
                played[uuid].append(step)
            began_s = time.monotonic()
            if isinstance(step, Ended) or limits.reason_to_stop(played[uuid]) is not None:
                left = [job for job in left if job.workload.uuid != uuid]
            yield step


def _batch(jobs: Sequence[Job], new: Solution, *, is_swapped: bool) -> list[Job]:
    if is_swapped:
        return [replace(job, solution=new, opponent=job.solution) for job in jobs]
    return [replace(job, opponent=new) for job in jobs]


def _step(finished: FinishedJob, *, is_swapped: bool) -> Round | Ended:
    workload, outcome = finished.job.workload, finished.outcome
    match outcome:
        case Passed():
            return _round(finished, outcome, is_swapped=is_swapped)
        case OpponentFailed(outcome=DatasetFault() as fault):
            return Ended(workload, "dataset", fault)
        case DatasetFault():
            return Ended(workload, "dataset", outcome)
        case OpponentFailed(outcome=inner):
            return Ended(workload, "old" if is_swapped else "new", inner)
        case _:
            return Ended(workload, "new" if is_swapped else "old", outcome)


def _round(finished: FinishedJob, passed: Passed, *, is_swapped: bool) -> Round:
    first, second = (samples for samples in passed.samples if not samples.is_reference)
    errors = (passed.errors, passed.opponent_errors or passed.errors)
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
