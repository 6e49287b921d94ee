"""After a solution has passed its workloads: what it does on configurations that it never saw.

They are jobs of its batch like others, before the last one, and run if all before them passed. They leave no
trace of their own: what was found is a part of the last job's.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flashinfer_bench.bench.outcomes import DatasetFault, OpponentFailed, Skipped
from flashinfer_bench.bench.unseen_sizes import DrawnConfigurations, draw_unseen, size_bytes
from flashinfer_bench.data import UnseenConfiguration, UnseenInfo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.outcomes import Outcome
    from flashinfer_bench.data import Trace

    Interval = tuple[float, float]
    Verdict = Literal["as_predicted", "wrong", "slow", "not_compared", "not_tried"]

_SLOW = 0.5
"""Less than this share of the predicted speedup is slow."""
_EVIDENCE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class SeenSpeedup:
    """How a solution did on a workload of the dataset."""

    bytes: int
    interval: Interval


@dataclass(slots=True)
class _OfBatch:
    """What is known of one solution's batch so far."""

    last: Job
    drawn: DrawnConfigurations
    has_failed: bool = False
    seen: list[SeenSpeedup] = field(default_factory=list)
    found: list[tuple[Trace | None, Outcome, Job]] = field(default_factory=list)


class UnseenJobs:
    """The further jobs of a run's batches, and what becomes of them; nothing where none are wanted."""

    def __init__(self, batches: Sequence[Sequence[Job]], *, count: int, seed: int | None) -> None:
        secret = secrets.token_bytes(16) if seed is None else seed.to_bytes(8, "little")
        self._by_batch: dict[tuple[str, str, object], _OfBatch] = {}
        self.batches = [self._extended(batch, count, secret) for batch in batches]

    def _extended(self, batch: Sequence[Job], count: int, secret: bytes) -> Sequence[Job]:
        if not count or not batch or batch[0].opponent is not None:
            return batch
        last = batch[-1]
        subject = f"{last.definition.name}\0{last.solution.name}\0{last.solution.hash()}"
        chance = random.Random(hmac.digest(secret, subject.encode(), hashlib.sha256))  # noqa: S311  # seeded by a secret
        seen = [job.workload for job in batch]
        drawn = draw_unseen(last.definition, seen, count=count, chance=chance)
        self._by_batch[_batch_of(last)] = _OfBatch(last, drawn)
        more = [replace(last, workload=each, is_unseen=True) for each in drawn.workloads]
        return [*batch[:-1], *more, last]

    def note(self, job: Job, outcome: Outcome, trace: Trace | None) -> None:
        """Keep what became of an unseen job; `trace` is what would have been recorded."""
        self._by_batch[_batch_of(job)].found.append((trace, outcome, job))

    def with_findings(self, trace: Trace, job: Job) -> Trace:
        """Note a job of the dataset, and give its trace with what was found, where it is the last and all passed."""
        batch = self._by_batch.get(_batch_of(job))
        evaluation = trace.evaluation
        if batch is None or evaluation is None:
            return trace
        batch.has_failed |= not trace.is_successful()
        performance = evaluation.performance
        is_empty = 0 in job.workload.axes.values()
        if performance is not None and performance.speedup_interval is not None and not is_empty:
            size = size_bytes(job.definition, job.workload)
            batch.seen.append(SeenSpeedup(size, performance.speedup_interval))
        if job is not batch.last or batch.has_failed:
            return trace
        update = {"unseen": _info(batch)}
        return trace.model_copy(update={"evaluation": evaluation.model_copy(update=update)})


def _batch_of(job: Job) -> tuple[str, str, object]:
    return job.definition.name, job.solution.name, job.target


def _info(batch: _OfBatch) -> UnseenInfo:
    found = [_configuration(*each, batch.seen) for each in batch.found]
    return UnseenInfo(
        specialised=any(each.verdict in ("wrong", "slow") for each in found),
        configurations=found,
        missing=batch.drawn.missing,
    )


def _configuration(
    trace: Trace | None, outcome: Outcome, job: Job, seen: Sequence[SeenSpeedup]
) -> UnseenConfiguration:
    evaluation = None if trace is None else trace.evaluation
    if evaluation is None:
        return UnseenConfiguration(
            workload=job.workload, verdict="not_tried", evidence=_why_not(outcome)
        )
    seed = None if evaluation.provenance is None else evaluation.provenance.seed
    performance = evaluation.performance
    if performance is None:
        return UnseenConfiguration(
            workload=job.workload,
            verdict="wrong",
            status=evaluation.status,
            evidence=_said(evaluation.log),
            seed=seed,
        )
    is_interpreted = evaluation.provenance is not None and evaluation.provenance.interpreted
    predicted = None if is_interpreted else predicted_speedup(job, seen)
    interval = None if is_interpreted else performance.speedup_interval
    return UnseenConfiguration(
        workload=job.workload,
        verdict=verdict_on(interval, predicted),
        status=evaluation.status,
        speedup_factor=None if is_interpreted else performance.speedup_factor,
        speedup_interval=interval,
        predicted_speedup=predicted,
        seed=seed,
    )


def verdict_on(interval: Interval | None, predicted: float | None) -> Verdict:
    """Judge the speedup of a configuration that passed by what is predicted.

    >>> verdict_on((0.8, 1.0), 2.1), verdict_on((0.8, 1.1), 2.1), verdict_on(None, 2.1)
    ('slow', 'as_predicted', 'not_compared')
    """
    if interval is None or predicted is None:
        return "not_compared"
    return "slow" if interval[1] < _SLOW * predicted else "as_predicted"


def predicted_speedup(job: Job, seen: Sequence[SeenSpeedup]) -> float | None:
    """Give the least that the workloads nearest in bytes, on each side, lead to expect; None where none was compared.

    Where both times are a constant plus a rate times the size, the speedup of a size between two others lies between
    theirs, and at half or twice a size it is no less than half (docs/adr/0012).
    """
    size = size_bytes(job.definition, job.workload)
    below = max((each for each in seen if each.bytes <= size), key=_bytes, default=None)
    above = min((each for each in seen if each.bytes >= size), key=_bytes, default=None)
    return min((each.interval[0] for each in (below, above) if each is not None), default=None)


def _bytes(seen: SeenSpeedup) -> int:
    return seen.bytes


def _why_not(outcome: Outcome) -> str:
    match outcome:
        case Skipped(reason=reason):
            return _said(reason)
        case DatasetFault(explanation=explanation):
            return f"the reference, or its inputs: {_said(explanation)}"
        case OpponentFailed():
            return "its opponent failed"
        case _:
            return "it left no trace"


def _said(text: str) -> str:
    """Give the line that says most: what a traceback ends with, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    has_traceback = any(line.startswith("Traceback") for line in lines)
    return lines[-1 if has_traceback else 0][:_EVIDENCE_CHARACTERS] if lines else ""
