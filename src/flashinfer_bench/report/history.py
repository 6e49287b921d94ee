"""One solution's times over runs, and where they changed, as values and as a page."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text, instant
from flashinfer_bench.report.compare.ratios import Basis, is_timed, recorded
from flashinfer_bench.stats.between_runs import (
    BetweenRuns,
    Part,
    mean_of_parts,
    repeats,
    spread,
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
from flashinfer_bench.text.numbers import count_text, latency_text, percent_text, speedup_text
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.stats.between_runs import Uncertain
    from flashinfer_bench.stats.intervals import Interval

_COLUMNS = (
    Column("run"),
    Column("began"),
    Column("commit"),
    Column("code"),
    Column("passed", is_number=True),
    Column("mean latency", is_number=True),
    Column("against the first", is_number=True),
    Column("speed"),
    Column("change"),
)
_DAY = len("2026-01-02")
_MINUTE = len("2026-01-02T10:00")
_SHORT = 8
_BAR = 16
_MARK = "<--"


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
    by_run = [_by_workload(each) for each in runs]
    workloads = sorted(
        {uuid for each in by_run for uuid in each}, key=lambda uuid: _order(by_run, uuid)
    )
    share = FALSE_ALARMS / (len(workloads) + 1 if len(workloads) > 1 else 1)
    each = [_series(uuid, by_run, basis, share, threshold) for uuid in workloads]
    together = _together(each, len(runs), share, threshold)
    needed = least_side(sum(speed is not None for speed in together.speeds), share)
    return History(
        hardware=key[0],
        definition=key[1],
        basis=basis,
        runs=_described(runs, by_run, basis),
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
        (
            *(row.definition_hash, row.libs.get("torch"), row.threads),
            *(row.latency_kind, row.is_cold, row.launch),
        )
        for row in passed
    }
    is_same = len(about) == 1 and all(row.speedup for row in passed)
    return Basis.SPEEDUP if is_same else Basis.LATENCY


def _order(by_run: Sequence[Mapping[str, TraceRow]], uuid: str) -> tuple[object, ...]:
    row = next(each[uuid] for each in by_run if uuid in each)
    return (sorted(row.axes.items()), uuid)


def _series(
    uuid: str,
    by_run: Sequence[Mapping[str, TraceRow]],
    basis: Basis,
    false_alarms: float,
    threshold: float,
) -> Series:
    rows = [each.get(uuid) for each in by_run]
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
    runs: Sequence[Sequence[TraceRow]], by_run: Sequence[Mapping[str, TraceRow]], basis: Basis
) -> tuple[HistoryRun, ...]:
    timed = [each for each in by_run if each]
    known = _between_runs(timed, basis)
    common = set.intersection(*(set(each) for each in timed)) if timed else set()
    described: list[HistoryRun] = []
    for rows, passed in zip(runs, by_run, strict=True):
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
    known: BetweenRuns,
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
    known_ratios = [
        (ratio, known.widened(ratio, interval)) for ratio, interval in ratios if interval
    ]
    return mean_of_parts(
        [Part(ratio, found.interval, found.shared, "") for ratio, found in known_ratios]
    )


def _between_runs(by_run: Sequence[Mapping[str, TraceRow]], basis: Basis) -> BetweenRuns:
    """Ask runs of the same code how much they differ."""
    by_job: defaultdict[tuple[str | None, str], list[Uncertain]] = defaultdict(list)
    for run in by_run:
        for uuid, row in run.items():
            if is_timed(row, basis):
                by_job[row.solution_hash, uuid].append(recorded(row, basis))
    found = [
        observation
        for (code, _), values in by_job.items()
        for observation in repeats(values, code or "")
    ]
    return BetweenRuns(repeats=spread(found))


def history_page(solution: str, found: Sequence[History]) -> Page:
    """Show a line a run, the changes marked, then what is known of each change."""
    if not found:
        return (
            heading(f"No traces of {solution} yet"),
            paragraph("`flashinfer-bench run` measures the solutions of a dataset"),
        )
    blocks: list[Block] = []
    for history in found:
        blocks += _history_blocks(solution, history)
    return tuple(blocks)


def _history_blocks(solution: str, history: History) -> list[Block]:
    workloads = [each for each in history.series if each.workload is not None]
    by = {
        Basis.SPEEDUP: "speed: against the reference timed beside it",
        Basis.LATENCY: "speed: by latency alone",
    }[history.basis]
    over = f"{count_text(len(history.runs), 'run')}, {count_text(len(workloads), 'workload')}; {by}"
    mean = "mean latency: geometric mean over workloads that every run timed; `run` and `report best` show the median"
    blocks = [
        heading(f"{solution} as {history.definition}, on {history.hardware}"),
        paragraph(over, mean, "against the first: speed over the first run's, geometric mean too"),
        table(_COLUMNS, _rows(history)),
    ]
    changes = [(each, change) for each in history.series for change in each.changes]
    if changes:
        blocks.append(heading("Changes"))
        blocks.append(paragraph(*(_change_text(history, *each) for each in changes)))
    return [*blocks, paragraph("", *_method(history, has_changes=bool(changes)))]


def _rows(history: History) -> list[tuple[str, ...]]:
    marked = {change.at: change for each in reversed(history.series) for change in each.changes}
    fastest = max((run.against_first or 0.0 for run in history.runs), default=0.0)
    return [_cells(run, marked.get(index), fastest) for index, run in enumerate(history.runs)]


def _cells(run: HistoryRun, change: ChangePoint | None, fastest: float) -> tuple[str, ...]:
    bar = "#" * round(_BAR * (run.against_first or 0.0) / fastest) if fastest else ""
    return (
        run.run if run.run != run.id else run.run[:_SHORT],
        run.began[:_MINUTE].replace("T", " "),
        (run.commit or "")[:_SHORT],
        "new" if run.has_new_code else "",
        f"{run.passed}/{run.passed + run.failed}",
        latency_text(run.latency_ms),
        speedup_text(run.against_first, run.interval, least_decimals=2).split(" ")[0],
        bar,
        f"{_MARK} {change.verdict}" if change else "",
    )


def _change_text(history: History, series: Series, change: ChangePoint) -> str:
    run = history.runs[change.at]
    what = "all workloads"
    if series.workload is not None:
        axes = axes_text(series.axes, none="")
        twins = sum(each.axes == series.axes for each in history.series if each.workload) > 1
        short = series.workload[:_SHORT]
        what = f"{axes} ({short})" if axes and twins else axes or short
    code = ", with new code" if run.has_new_code else ", with the same code"
    commit = f", commit {run.commit[:_SHORT]}" if run.commit else ""
    ratio = speedup_text(change.ratio, change.interval, knows_processes=True)
    return f"{run.run}: {change.verdict}, {ratio} ({what}{code}{commit})"


def _method(history: History, *, has_changes: bool) -> list[str]:
    rate = percent_text(history.false_alarms)
    timed = sum(speed is not None for speed in history.series[0].speeds) if history.series else 0
    if not timed and history.basis is Basis.SPEEDUP:
        return ["no run was timed beside the reference: `--by latency` follows times as they were"]
    if history.runs_needed_after is None:
        text = (
            f"{count_text(timed, 'run')}: too few to tell a change, which takes {history.runs_needed}; "
            "`report compare run:A run:B` compares two"
        )
        return [text]
    found = "" if has_changes else "no change found; "
    text = (
        f"{found}changes are detected by a rank test, which needs {history.runs_needed_after} runs before and after; "
        f"where nothing changed, a mark appears in {rate} of histories at most"
    )
    return [text]
