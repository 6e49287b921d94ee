"""A solution's history as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.report.compare.ratios import Basis
from flashinfer_bench.text.numbers import count_text, latency_text, percent_text, speedup_text
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.report.history import History, HistoryRun, Series
    from flashinfer_bench.stats.change_points import ChangePoint

_COLUMNS = (
    Column("run"),
    Column("began"),
    Column("commit"),
    Column("code"),
    Column("passed", is_number=True),
    Column("latency", is_number=True),
    Column("against the first", is_number=True),
    Column("speed"),
    Column("change"),
)
_MINUTE = len("2026-01-02T10:00")
_SHORT = 8
_BAR = 16
_MARK = "<--"


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
    blocks = [
        heading(f"{solution} as {history.definition}, on {history.hardware}"),
        paragraph(over),
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
        axes = ", ".join(f"{name}={value}" for name, value in series.axes.items())
        twins = sum(each.axes == series.axes for each in history.series if each.workload) > 1
        short = series.workload[:_SHORT]
        what = f"{axes} ({short})" if axes and twins else axes or short
    code = ", with new code" if run.has_new_code else ", with the same code"
    commit = f", commit {run.commit[:_SHORT]}" if run.commit else ""
    ratio = speedup_text(change.ratio, change.interval)
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
        f"{found}a change is told from the ranks of the runs before and after, {history.runs_needed_after} or more "
        f"each; where nothing changed, a mark appears in {rate} of histories at most"
    )
    return [text]
