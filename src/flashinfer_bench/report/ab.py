"""What two solutions timed against each other showed, as a value and as a page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.logs import log_excerpt, log_lines
from flashinfer_bench.report.run import fault_blocks, faults_for_document, skipped_blocks
from flashinfer_bench.text.numbers import (
    count_text,
    error_text,
    latency_text,
    speedup_text,
)
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.report.failures import Failure
    from flashinfer_bench.report.run import Fault, SkippedJob
    from flashinfer_bench.stats.intervals import Interval


@dataclass(frozen=True, slots=True)
class AbWorkload:
    """One workload on which both were right."""

    workload: str
    axes: dict[str, int]
    old_latency_ms: float
    new_latency_ms: float
    ratio: float | None
    """Old time over new time: above 1 the new one is faster."""
    interval: Interval | None
    verdict: str
    old_max_absolute_error: float
    new_max_absolute_error: float
    rounds: int
    blocks: int
    calls_per_sample: int
    stopped_by: str = "iterations"
    """Why no more rounds were played: `iterations`, `interval`, `time_budget` or `most_blocks`."""


@dataclass(frozen=True, slots=True)
class AbFailure:
    """One of the two failed."""

    whose: str
    """`old` or `new`."""
    workload: str
    axes: dict[str, int]
    status: str
    log: str
    violations: tuple[str, ...] = ()
    """Codes of the rules it broke."""
    failure: Failure | None = None
    """The log as values."""


@dataclass(frozen=True, slots=True)
class AbReport:
    """What two solutions timed against each other showed."""

    old: str
    new: str
    """As they were named."""
    is_same_code: bool
    remarks: tuple[str, ...]
    """What makes their times hard to compare."""
    definition: str
    hardware: str
    threshold: float
    rounds: int
    iterations: int
    """Samples of each in a round."""
    warmup_runs: int
    seed: str
    """Run key of the inputs, 16 hexadecimal digits."""
    workloads: tuple[AbWorkload, ...]
    overall_ratio: float | None
    overall_interval: Interval | None
    overall_verdict: str
    failures: tuple[AbFailure, ...]
    skipped: tuple[SkippedJob, ...]
    dataset_faults: tuple[Fault, ...]
    log_file: str | None = None
    """All of the failures' logs."""


def for_document(report: AbReport) -> AbReport:
    """Cut logs to what a document holds of them."""
    return replace(
        report,
        failures=tuple(
            replace(each, log=log_excerpt(each.log, whole=report.log_file))
            for each in report.failures
        ),
        dataset_faults=faults_for_document(report.dataset_faults),
    )


def ab_page(report: AbReport) -> Page:
    """Show one line per workload, what failed, then one line over all."""
    where = f", on {report.hardware}" if report.hardware else ""
    blocks: list[Block] = [heading(f"{report.old} -> {report.new} as {report.definition}{where}")]
    blocks.append(paragraph(*_settings(report)))
    if report.workloads:
        blocks += [paragraph(""), rows_table(_COLUMNS, report.workloads)]
    blocks += _failure_blocks(report.failures, report.log_file)
    blocks += skipped_blocks(report.skipped)
    blocks += fault_blocks(report.dataset_faults)
    return (*blocks, heading(_headline(report)))


def _settings(report: AbReport) -> list[str]:
    lines = [
        (
            f"{count_text(report.rounds, 'round')} of fresh processes, each {report.iterations} samples of "
            f"both in alternating blocks; differences up to {100 * report.threshold:.3g}% are treated as equal"
        ),
    ]
    if report.is_same_code:
        lines.append("old and new are the same code: what differs is the machine's noise")
    return [*lines, *report.remarks]


_COLUMNS: tuple[RowColumn[AbWorkload], ...] = (
    RowColumn("workload", lambda row: axes_text(row.axes)),
    RowColumn("old", lambda row: latency_text(row.old_latency_ms), is_number=True),
    RowColumn("new", lambda row: latency_text(row.new_latency_ms), is_number=True),
    RowColumn(
        "new is [95%]",
        lambda row: speedup_text(row.ratio, row.interval, knows_processes=True),
        is_number=True,
    ),
    RowColumn("verdict", lambda row: row.verdict),
    RowColumn("abs error old", lambda row: error_text(row.old_max_absolute_error), is_number=True),
    RowColumn("abs error new", lambda row: error_text(row.new_max_absolute_error), is_number=True),
)
_FAILURE_COLUMNS: tuple[RowColumn[AbFailure], ...] = (
    RowColumn("whose", lambda each: each.whose),
    RowColumn("workload", lambda each: axes_text(each.axes)),
    RowColumn("status", lambda each: each.status),
    RowColumn("violations", lambda each: ", ".join(each.violations)),
)


def _failure_blocks(failures: Sequence[AbFailure], log_file: str | None) -> list[Block]:
    """Show a line for each, then each log once, under the workloads that ended with it."""
    blocks: list[Block] = []
    if failures:
        blocks += [paragraph(""), rows_table(_FAILURE_COLUMNS, failures)]
    axes: dict[tuple[str, str], list[str]] = {}
    for each in failures:
        axes.setdefault((each.whose, each.log), []).append(axes_text(each.axes))
    for (whose, log), places in axes.items():
        title = f"The {whose} one is wrong with {'; '.join(places)}"
        blocks += [heading(title), paragraph(*log_lines(log, whole=log_file))]
    return blocks


def _headline(report: AbReport) -> str:
    if report.failures:
        wrong = " and ".join(sorted({each.whose for each in report.failures}, reverse=True))
        return f"No verdict: {wrong} failed"
    if not report.workloads:
        return "No verdict: nothing was timed"
    ratio = speedup_text(report.overall_ratio, report.overall_interval, knows_processes=True)
    counts: dict[str, int] = {}
    for row in report.workloads:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    each = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    over = f" over {count_text(len(report.workloads), 'workload')} ({each})"
    return f"{report.overall_verdict}: {ratio}{over if len(report.workloads) > 1 else ''}"
