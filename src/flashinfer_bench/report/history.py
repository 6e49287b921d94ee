"""One solution's times over runs, and where they changed."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.compare.ratios import Basis, is_timed, recorded
from flashinfer_bench.report.standing import instant
from flashinfer_bench.stats.between_runs import (
    BetweenRunVariance,
    Evidence,
    Part,
    between_run_variance,
    mean_of_parts,
    of_repeats,
)
from flashinfer_bench.stats.change_points import (
    FALSE_ALARMS,
    ChangePoint,
    change_points,
    least_runs,
    least_side,
)
from flashinfer_bench.stats.means import geometric_mean
from flashinfer_bench.stats.shifts import quotient
from flashinfer_bench.stats.verdicts import THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.stats.between_runs import Uncertain
    from flashinfer_bench.stats.intervals import Interval

_DAY = len("2026-01-02")


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One run of the solution."""

    run: str
    """Its label, else its id; the day where traces name no run."""
    id: str | None
    began: str
    commit: str | None
    solution_hash: str | None
    has_new_code: bool
    """Whether the solution is not what the run before ran."""
    passed: int
    failed: int
    latency_ms: float | None
    """Geometric mean over the workloads that every run timed."""
    against_first: float | None
    """How many times faster than the first run, geometric mean over the workloads of both."""
    interval: Interval | None
    """95%; it knows how runs of the same code differ from one another in this history."""


@dataclass(frozen=True, slots=True)
class Series:
    """One workload over runs, or all of them together."""

    workload: str | None
    """None is all together."""
    axes: dict[str, int]
    latencies_ms: tuple[float | None, ...]
    """By run; of all together there is none."""
    speeds: tuple[float | None, ...]
    """By run; against the median over runs."""
    changes: tuple[ChangePoint, ...]
    """Counted in runs of the history."""


@dataclass(frozen=True, slots=True)
class History:
    """A solution on one kind of hardware."""

    hardware: str
    definition: str
    basis: Basis
    runs: tuple[HistoryRun, ...]
    series: tuple[Series, ...]
    """All together first."""
    false_alarms: float
    """Share of histories without a change in which any series gets a mark, at most."""
    runs_needed: int
    """Runs it takes before any change can be told: more for more workloads, which share the false alarms."""
    runs_needed_after: int | None
    """Runs that a change needs after it, and before it, to be told; None: there are too few."""


def histories(
    rows: Iterable[TraceRow], *, by: Basis | None = None, threshold: float = THRESHOLD
) -> tuple[History, ...]:
    """Lay a solution's traces out by hardware and run; interpreted ones say nothing."""
    groups: defaultdict[tuple[str, str], list[TraceRow]] = defaultdict(list)
    for row in rows:
        if not row.interpreted:
            groups[row.hardware, row.definition].append(row)
    return tuple(_history(key, group, by, threshold) for key, group in sorted(groups.items()))


def _history(
    key: tuple[str, str], rows: list[TraceRow], by: Basis | None, threshold: float
) -> History:
    runs = _runs(rows)
    basis = by or _basis(rows)
    table = [_by_workload(each) for each in runs]
    workloads = sorted(
        {uuid for each in table for uuid in each}, key=lambda uuid: _order(table, uuid)
    )
    share = FALSE_ALARMS / (len(workloads) + 1 if len(workloads) > 1 else 1)
    each = [_series(uuid, table, basis, share, threshold) for uuid in workloads]
    together = _together(each, len(runs), share, threshold)
    needed = least_side(sum(speed is not None for speed in together.speeds), share)
    return History(
        hardware=key[0],
        definition=key[1],
        basis=basis,
        runs=_described(runs, table, basis),
        series=(together, *each) if len(each) > 1 else tuple(each),
        false_alarms=FALSE_ALARMS,
        runs_needed=least_runs(share),
        runs_needed_after=needed,
    )


def _runs(rows: Iterable[TraceRow]) -> list[list[TraceRow]]:
    """Put traces together by run, runs in the order they began."""
    by_run: defaultdict[str, list[TraceRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: instant(row.timestamp)):
        by_run[row.run_id or row.timestamp[:_DAY]].append(row)
    return list(by_run.values())


def _by_workload(rows: Iterable[TraceRow]) -> dict[str, TraceRow]:
    """Take the last trace of each workload that passed."""
    return {row.workload_uuid: row for row in rows if row.is_passed and row.latency_ms}


def _basis(rows: Iterable[TraceRow]) -> Basis:
    """Speedups say more, where every trace was timed beside the same reference."""
    passed = [row for row in rows if row.is_passed]
    about = {
        (row.definition_hash, row.libs.get("torch"), row.threads, row.latency_kind, row.is_cold)
        for row in passed
    }
    is_same = len(about) == 1 and all(row.speedup for row in passed)
    return Basis.SPEEDUP if is_same else Basis.LATENCY


def _order(table: Sequence[Mapping[str, TraceRow]], uuid: str) -> tuple[object, ...]:
    row = next(each[uuid] for each in table if uuid in each)
    return (sorted(row.axes.items()), uuid)


def _series(
    uuid: str,
    table: Sequence[Mapping[str, TraceRow]],
    basis: Basis,
    false_alarms: float,
    threshold: float,
) -> Series:
    rows = [each.get(uuid) for each in table]
    speeds = [
        recorded(row, basis)[0] if row is not None and is_timed(row, basis) else None
        for row in rows
    ]
    known = [speed for speed in speeds if speed is not None]
    middle = statistics.median(known) if known else 1.0
    relative = tuple(None if speed is None else speed / middle for speed in speeds)
    return Series(
        workload=uuid,
        axes=next(row.axes for row in rows if row is not None),
        latencies_ms=tuple(None if row is None else row.latency_ms for row in rows),
        speeds=relative,
        changes=_changes(relative, false_alarms, threshold),
    )


def _together(
    series: Sequence[Series], count: int, false_alarms: float, threshold: float
) -> Series:
    """Average the workloads of each run, each against its own median: a missing one does not matter."""
    speeds = tuple(
        geometric_mean([each.speeds[run] for each in series if each.speeds[run] is not None])  # type: ignore[misc]  # not None
        for run in range(count)
    )
    return Series(None, {}, (), speeds, _changes(speeds, false_alarms, threshold))


def _changes(
    speeds: Sequence[float | None], false_alarms: float, threshold: float
) -> tuple[ChangePoint, ...]:
    """Search the runs that have a time; count in runs of the history."""
    known = [(run, speed) for run, speed in enumerate(speeds) if speed is not None]
    found = change_points(
        [speed for _, speed in known], false_alarms=false_alarms, threshold=threshold
    )
    return tuple(
        ChangePoint(known[each.at][0], each.ratio, each.interval, each.verdict) for each in found
    )


def _described(
    runs: Sequence[Sequence[TraceRow]], table: Sequence[Mapping[str, TraceRow]], basis: Basis
) -> tuple[HistoryRun, ...]:
    timed = [each for each in table if each]
    known = _variance(timed, basis)
    common = set.intersection(*(set(each) for each in timed)) if timed else set()
    described: list[HistoryRun] = []
    for rows, passed in zip(runs, table, strict=True):
        first = rows[0]
        before = described[-1].solution_hash if described else first.solution_hash
        ratio, interval = _against(timed[0], passed, basis, known) if timed else (None, None)
        described.append(
            HistoryRun(
                run=first.run_label or first.run_id or first.timestamp[:_DAY],
                id=first.run_id,
                began=first.timestamp,
                commit=first.commit,
                solution_hash=rows[-1].solution_hash,
                has_new_code=rows[-1].solution_hash != before,
                passed=len(passed),
                failed=len({row.workload_uuid for row in rows} - passed.keys()),
                latency_ms=geometric_mean(
                    [passed[uuid].latency_ms or math.nan for uuid in common if uuid in passed]
                ),
                against_first=ratio,
                interval=interval,
            )
        )
    return tuple(described)


def _against(
    first: Mapping[str, TraceRow],
    run: Mapping[str, TraceRow],
    basis: Basis,
    known: BetweenRunVariance,
) -> tuple[float | None, Interval | None]:
    shared = sorted(
        uuid
        for uuid in first.keys() & run.keys()
        if is_timed(first[uuid], basis) and is_timed(run[uuid], basis)
    )
    if first is run or not shared:
        return (1.0 if shared else None), None
    ratios = [
        quotient(*recorded(run[uuid], basis), *recorded(first[uuid], basis)) for uuid in shared
    ]
    if not all(interval for _, interval in ratios):
        return geometric_mean([ratio for ratio, _ in ratios]), None
    return mean_of_parts(
        [
            Part(ratio, *known.stretched(ratio, interval), "")
            for ratio, interval in ratios
            if interval
        ]
    )


def _variance(table: Sequence[Mapping[str, TraceRow]], basis: Basis) -> BetweenRunVariance:
    """Ask runs of the same code how much they differ."""
    by_code: defaultdict[str | None, defaultdict[str, list[Uncertain]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in table:
        for uuid, row in run.items():
            if not is_timed(row, basis):
                continue
            by_code[row.solution_hash][uuid].append(recorded(row, basis))
    return between_run_variance(
        sum((of_repeats(list(jobs.values())) for jobs in by_code.values()), Evidence())
    )
