"""What became faster, where and by whom: solutions that beat the best of all earlier runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from flashinfer_bench.stats.means import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.page.content import Content

_MOST = 12
_DAY = len("2026-01-02")
"""Of traces that name no run, those of a day are one."""
_MARGIN = 1.05
"""How much faster a time without an interval has to be."""


@dataclass(frozen=True, slots=True)
class Advance:
    """A solution that was faster than all before it."""

    when: str
    hardware: str
    definition: str
    solution: str
    author: str | None
    factor: float
    """The best speedup before into this one's, geometric mean over the workloads where it was faster."""
    speedup: float
    """Over the reference, on the same workloads."""
    workloads: int


def advances(content: Content) -> dict[str, list[Advance]]:
    """Find what became faster on each kind of hardware, the newest first."""
    found: dict[str, list[Advance]] = {}
    for jobs in content.jobs.values():
        rows = [job.row for job in jobs if _counts(job.row)]
        for hardware in sorted({row.hardware for row in rows}):
            here = [row for row in rows if row.hardware == hardware]
            found.setdefault(hardware, []).extend(_advances(here, hardware))
    return {
        hardware: sorted(each, key=lambda one: (one.when, one.definition), reverse=True)[:_MOST]
        for hardware, each in found.items()
        if each
    }


def _counts(row: TraceRow) -> bool:
    return row.is_passed and not row.interpreted and bool(row.speedup)


def _advances(rows: Sequence[TraceRow], hardware: str) -> Iterable[Advance]:
    """Walk over runs in their order; what a run holds is held against the best before it, not against itself."""
    runs: dict[str, dict[tuple[str, str], TraceRow]] = {}
    for row in sorted(rows, key=attrgetter("timestamp")):
        run = runs.setdefault(row.run_id or row.timestamp[:_DAY], {})
        run[row.solution, row.workload_uuid] = row
    best: dict[str, TraceRow] = {}
    for run in runs.values():
        faster = [
            row for row in run.values() if _is_first_or_faster(row, best.get(row.workload_uuid))
        ]
        yield from _by_solution(faster, best, hardware)
        best |= {row.workload_uuid: row for row in sorted(faster, key=_speedup)}


def _by_solution(
    faster: Iterable[TraceRow], best: Mapping[str, TraceRow], hardware: str
) -> Iterable[Advance]:
    """Sum up for each solution of a run what it beat of what was there before."""
    ordered = sorted(faster, key=attrgetter("solution"))
    for solution, group in itertools.groupby(ordered, key=attrgetter("solution")):
        beaten = [(row, best[row.workload_uuid]) for row in group if row.workload_uuid in best]
        gains = [row.speedup / old.speedup for row, old in beaten if row.speedup and old.speedup]
        reached = [row.speedup for row, _ in beaten if row.speedup]
        factor, speedup = geometric_mean(gains), geometric_mean(reached)
        if factor is not None and speedup is not None:
            first = beaten[0][0]
            yield Advance(
                first.timestamp,
                hardware,
                first.definition,
                solution,
                first.author,
                factor,
                speedup,
                len(gains),
            )


def _speedup(row: TraceRow) -> float:
    return row.speedup or 0.0


def _is_first_or_faster(row: TraceRow, best: TraceRow | None) -> bool:
    """Whether it beats the best by more than both intervals; the same code again beats nothing."""
    if best is None:
        return True
    if (row.solution, row.solution_hash) == (best.solution, best.solution_hash):
        return False
    if row.speedup_interval and best.speedup_interval:
        return row.speedup_interval[0] > best.speedup_interval[1]
    return (row.speedup or 0.0) > _MARGIN * (best.speedup or 0.0)
