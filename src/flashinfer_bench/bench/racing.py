"""What `--racing` compares with: the best speedup that a trace has for a job's workload, under the same conditions."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from flashinfer_bench.bench.choices import LATENCY_KINDS, clock_name
from flashinfer_bench.data.rows import row_of_trace
from flashinfer_bench.data.wording import instant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.data import Trace, TraceSet
    from flashinfer_bench.data.rows import Describe, TraceRow

_NOBODY: Describe = lambda _: (None, None)  # noqa: E731  # authors and languages do not matter here


class _RacedTask(NamedTuple):
    """What two speedups must have in common to be compared."""

    definition: str
    """Its hash: another reference makes another speedup."""
    workload: str
    axes: tuple[tuple[str, int], ...]
    hardware: str
    threads: int | None
    is_cold: bool
    launch: str
    latency_kind: str


class BestKnown:
    """The best known speedups. `learn` reads traces, `note` adds one; any thread may ask `speedup`."""

    def __init__(self, trace_set: TraceSet) -> None:
        self._trace_set = trace_set
        self._best: dict[_RacedTask, float] = {}
        self._lock = threading.Lock()

    def learn(self, jobs: Iterable[Job]) -> None:
        """Read what traces say of the definitions of those jobs that race."""
        for name in dict.fromkeys(job.definition.name for job in jobs if job.config.racing):
            rows = [row for _, row in self._trace_set.traces.rows(name, _NOBODY)]
            rows.sort(key=lambda row: instant(row.timestamp))
            newest = {(row.solution, row.solution_hash, _task_of(row)): row for row in rows}
            for row in newest.values():
                self._take(row)

    def note(self, trace: Trace) -> None:
        """Take in a trace of this run."""
        row = row_of_trace(trace, _NOBODY)
        if row is not None:
            self._take(row)

    def speedup(self, job: Job) -> float | None:
        """Give the best known speedup on a job's workload; None where none is known, or the job does not race."""
        if not job.config.racing:
            return None
        with self._lock:
            return self._best.get(_task_of_job(job))

    def _take(self, row: TraceRow) -> None:
        task = _task_of(row)
        if task is None or row.speedup is None or not _counts(row):
            return
        with self._lock:
            self._best[task] = max(row.speedup, self._best.get(task, 0.0))


def _counts(row: TraceRow) -> bool:
    """Tell whether a row's speedup is one to beat: of a weak task, or of an interpreted kernel, it is not."""
    return row.is_passed and not row.interpreted and not row.task_notes


def _task_of(row: TraceRow) -> _RacedTask | None:
    if row.definition_hash is None or row.is_cold is None or row.latency_kind is None:
        return None
    return _RacedTask(
        row.definition_hash,
        row.workload_uuid,
        tuple(sorted(row.axes.items())),
        row.hardware,
        row.threads,
        row.is_cold,
        row.launch or "stream",
        row.latency_kind,
    )


def _task_of_job(job: Job) -> _RacedTask:
    target = job.target
    assert target is not None
    clock = target.clock or clock_name(target.kind, job.config.clock)
    return _RacedTask(
        job.definition.hash(),
        job.workload.uuid,
        tuple(sorted(job.workload.axes.items())),
        target.hardware,
        target.threads,
        job.config.is_cold_on(target.kind),
        job.config.launch,
        LATENCY_KINDS[clock],
    )
