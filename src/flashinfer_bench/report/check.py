"""What a quick check of one kernel found, as a value and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.judging.diagnosis import cause_lines
from flashinfer_bench.report.beside import beside_columns, beside_legend
from flashinfer_bench.report.jobs import INTERPRETED_LEGEND, note_legend, sol_text
from flashinfer_bench.report.logs import log_lines
from flashinfer_bench.report.run import fault_blocks, skipped_blocks
from flashinfer_bench.text.numbers import (
    NOTHING,
    ONE_PAIR_LEGEND,
    count_text,
    error_text,
    latency_text,
    size_text,
    speedup_text,
)
from flashinfer_bench.text.tables import (
    Block,
    Page,
    RowColumn,
    heading,
    paragraph,
    rows_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.report.beside import BesideLatency
    from flashinfer_bench.report.jobs import JobResult
    from flashinfer_bench.report.run import Fault, SkippedJob


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a quick check of one kernel found."""

    kernel: str
    definition: str
    language: str
    entry_point: str
    calling_style: str
    """`into` where outputs are passed in, `returns` where they are given back."""
    num_trials: int
    iterations: int
    warmup_runs: int
    jobs: tuple[JobResult, ...]
    skipped: tuple[SkippedJob, ...]
    dataset_faults: tuple[Fault, ...]
    log_file: str | None = None
    """Where the whole logs of the workloads that failed are."""
    not_tried: int = 0
    """Workloads that were left when a time-out, or a failure with `--fail-fast`, ended the check."""


def check_page(report: CheckReport) -> Page:
    """Show one line per workload, then the log of each failure once."""
    blocks: list[Block] = [heading(f"{report.kernel} as {report.definition}")]
    blocks.append(paragraph(*_settings(report)))
    if report.jobs:
        blocks += [paragraph(""), rows_table(_COLUMNS, report.jobs)]
    is_compared = any(job.is_timed and job.speedup is not None for job in report.jobs)
    legend = [_SPEEDUP_LEGEND, ONE_PAIR_LEGEND] if is_compared else []
    legend += beside_legend([job.beside for job in report.jobs if job.is_timed])
    legend += note_legend(report.jobs)
    if legend:
        blocks.append(paragraph("", *legend))
    blocks += _unsteady_blocks(report.jobs)
    blocks += _note_blocks(report.jobs)
    blocks += _bits_blocks(report.jobs)
    blocks += _log_blocks([job for job in report.jobs if not job.is_passed], report.log_file)
    blocks += skipped_blocks(report.skipped)
    blocks += fault_blocks(report.dataset_faults)
    if report.jobs:
        passed = sum(job.is_passed for job in report.jobs)
        ended = f"{passed} of {count_text(len(report.jobs) + report.not_tried, 'workload')} passed"
        blocks.append(heading(ended + _not_tried(report)))
    return tuple(blocks)


_SPEEDUP_LEGEND = "speedup: reference / solution, median over blocks (not of the two medians)"


def _not_tried(report: CheckReport) -> str:
    if not report.not_tried:
        return ""
    is_timeout = report.jobs[-1].status == "TIMEOUT"
    hint = "after a time-out (--keep-going tries all)" if is_timeout else "(--fail-fast)"
    return f"; {report.not_tried} not tried {hint}"


def _settings(report: CheckReport) -> list[str]:
    style = {
        "into": "writing into the outputs it is given",
        "returns": "returning its outputs",
    }[report.calling_style]
    is_interpreted = any(job.interpreted for job in report.jobs)
    hardware = f", on {report.jobs[0].hardware}" if report.jobs else ""
    return [
        f"{report.language}, {report.entry_point}, {style}{hardware}",
        INTERPRETED_LEGEND
        if is_interpreted
        else (
            f"quick settings: {count_text(report.num_trials, 'trial')} of {report.iterations} samples, "
            f"{count_text(report.warmup_runs, 'warm-up call')}; `run` measures thoroughly"
        ),
    ]


def _if_timed(text: Callable[[JobResult], str]) -> Callable[[JobResult], str]:
    return lambda job: text(job) if job.is_timed else NOTHING


def _beside(job: JobResult) -> BesideLatency | None:
    return job.beside if job.is_timed else None


_COLUMNS: tuple[RowColumn[JobResult], ...] = (
    RowColumn("workload", lambda job: axes_text(job.axes)),
    RowColumn("status", lambda job: job.status),
    RowColumn(
        "latency",
        _if_timed(lambda job: latency_text(job.latency_ms, job.latency_interval_ms)),
        is_number=True,
    ),
    RowColumn(
        "reference",
        _if_timed(lambda job: latency_text(job.reference_latency_ms, job.reference_interval_ms)),
        is_number=True,
    ),
    RowColumn(
        "speedup (95%)",
        _if_timed(lambda job: speedup_text(job.speedup, job.speedup_interval)),
        is_number=True,
    ),
    *beside_columns(_beside),
    RowColumn("abs error", lambda job: error_text(job.errors[0]), is_number=True),
    RowColumn("rel error", lambda job: error_text(job.errors[1]), is_number=True),
    RowColumn(
        "of speed of light",
        lambda job: sol_text(job.sol_fraction if job.is_timed else None),
        is_number=True,
    ),
    RowColumn(
        "peak memory",
        lambda job: "" if job.peak_memory_bytes is None else size_text(job.peak_memory_bytes),
        is_number=True,
    ),
    RowColumn(
        "build",
        lambda job: "" if job.build_ms is None else latency_text(job.build_ms),
        is_number=True,
    ),
    RowColumn("violations", lambda job: ", ".join(job.violations)),
    RowColumn("notes", lambda job: ", ".join(job.remarks)),
)


def _unsteady_blocks(jobs: Sequence[JobResult]) -> list[Block]:
    """Say which speedups may be others next time, why, and what to do."""
    lines = [f"with {axes_text(job.axes)}: {_unsteadiness(job)}" for job in jobs if job.is_unsteady]
    if not lines:
        return []
    remedy = "check again when nothing else runs, or with more samples, such as --iterations 200"
    return [heading("Unsteady: the next check may say another speedup"), paragraph(*lines, remedy)]


def _unsteadiness(job: JobResult) -> str:
    """Give the reference's interval, which is what moves a speedup unseen, and what disturbed the machine."""
    low, high = job.reference_interval_ms or (None, None)
    took = "" if low is None else f"the reference took {latency_text(low)} to {latency_text(high)}"
    return "; ".join(filter(None, [took, *job.disturbed]))


def _note_blocks(jobs: Sequence[JobResult]) -> list[Block]:
    """Say what each note saw, once, and with which workloads."""
    axes_by_note: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        for note in job.note_evidence.items():
            axes_by_note.setdefault(note, []).append(axes_text(job.axes))
    lines = [
        f"{code} with {'; '.join(axes)}: {evidence}"
        for (code, evidence), axes in axes_by_note.items()
    ]
    return [heading("Notes"), paragraph(*lines)] if lines else []


def _bits_blocks(jobs: Sequence[JobResult]) -> list[Block]:
    """Say where the same inputs gave other bits: no fault, and worth knowing to whoever compares runs."""
    axes = [axes_text(job.axes) for job in jobs if job.bitwise_repeatable is False]
    if not axes:
        return []
    return [
        heading("Not bitwise repeatable"),
        paragraph(f"two calls on the same inputs gave other bits with {'; '.join(axes)}"),
    ]


def _log_blocks(failed: Sequence[JobResult], log_file: str | None) -> list[Block]:
    """Show each log once, under the workloads that ended with it."""
    jobs_by_log: dict[str, list[JobResult]] = {}
    for job in failed:
        jobs_by_log.setdefault(job.log, []).append(job)
    blocks: list[Block] = []
    for log, jobs in jobs_by_log.items():
        blocks.append(heading(f"Failed with {'; '.join(axes_text(job.axes) for job in jobs)}"))
        suspected = cause_lines(jobs[0].failure.diagnosis if jobs[0].failure else None)
        blocks += [paragraph(*suspected, "")] if suspected else []
        blocks.append(paragraph(*log_lines(log, whole=log_file)))
    return blocks
