"""What `--racing` compares with: the best speedup that traces have of a job's workload, with the same settings.

Of each solution the newest trace counts, and of its speedup the low end of the 95% interval: of many equal solutions
the luckiest median is no speed that one could reach.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, NamedTuple

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

    definition: str | None
    """Its hash: another reference makes another speedup."""
    workload: str
    axes: tuple[tuple[str, int], ...]
    hardware: str
    config: str | None
    """Hash of the settings but `racing`: tolerances, audit, counts, clock, caches, launch, threads."""


class BestKnown:
    """The best known speedups. `learn` reads traces, `note` adds one; any thread may ask `speedup`."""

    def __init__(self, trace_set: TraceSet) -> None:
        self._trace_set = trace_set
        self._newest: dict[_RacedTask, dict[tuple[str, str | None], float | None]] = {}
        self._unraced: dict[str, str] = {}
        self._lock = threading.Lock()

    def learn(self, jobs: Iterable[Job]) -> None:
        """Read what traces say of the workloads of those jobs that race."""
        racing = [job for job in jobs if job.config.racing]
        self._unraced |= {job.config_hash: job.unraced_hash for job in racing}
        inputs = {job.workload.uuid: job.workload.inputs for job in racing}
        traces = self._trace_set.traces
        for name in dict.fromkeys(job.definition.name for job in racing):
            rows = {
                index: row
                for index, row in traces.rows(name, _NOBODY)
                if row.workload_uuid in inputs
            }
            same = {
                index
                for index, workload in traces.workloads_of(name, rows)
                if workload.inputs == inputs[workload.uuid]
            }
            kept = [row for index, row in rows.items() if index in same]
            for row in sorted(kept, key=lambda row: instant(row.timestamp)):
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
        target = job.target
        assert target is not None
        axes = tuple(sorted(job.workload.axes.items()))
        task = _RacedTask(
            job.definition.hash(), job.workload.uuid, axes, target.hardware, job.unraced_hash
        )
        with self._lock:
            known = self._newest.get(task, {}).values()
            return max((each for each in known if each is not None), default=None)

    def _take(self, row: TraceRow) -> None:
        """Let the newest trace of a solution take the place of its older ones, whatever it says."""
        config = self._unraced.get(row.config_hash or "", row.config_hash)
        axes = tuple(sorted(row.axes.items()))
        task = _RacedTask(row.definition_hash, row.workload_uuid, axes, row.hardware, config)
        with self._lock:
            of_task = self._newest.setdefault(task, {})
            of_task[row.solution, row.solution_hash] = _low_end(row) if _counts(row) else None


def _low_end(row: TraceRow) -> float | None:
    low = math.nan if row.speedup_interval is None else row.speedup_interval[0]
    return low if math.isfinite(low) else None


def _counts(row: TraceRow) -> bool:
    """Tell whether a row's speedup is one to beat: of a weak task, or of an interpreted kernel, it is not."""
    return row.is_passed and not row.interpreted and not row.task_notes
