"""What one run did, as a value and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.jobs import job_line, result_blocks
from flashinfer_bench.text.numbers import count_text, duration_text
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.report.jobs import JobResult, SolutionResult

_MOST_FAILURES = 12
_PLAN = (
    Column("definition"),
    Column("solution"),
    Column("language"),
    Column("workloads", is_number=True),
)


@dataclass(frozen=True, slots=True)
class SkippedJob:
    """A job that this machine cannot run."""

    definition: str
    solution: str
    workload: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with a definition or a workload."""

    definition: str
    workload: str
    explanation: str


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job that would run."""

    definition: str
    solution: str
    language: str
    workload: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run did."""

    jobs: tuple[JobResult, ...]
    solutions: tuple[SolutionResult, ...]
    skipped: tuple[SkippedJob, ...]
    dataset_faults: tuple[Fault, ...]
    planned: int
    done_before: int
    """Jobs a resume left out, since traces answer them."""
    elapsed_s: float
    is_complete: bool
    """False where the run was stopped."""
    saved_to: tuple[str, ...]
    """Folders that took the traces."""
    next_command: str | None

    @property
    def passed(self) -> int:
        """Jobs that passed."""
        return sum(job.is_passed for job in self.jobs)

    @property
    def failed(self) -> int:
        """Jobs that did not pass."""
        return len(self.jobs) - self.passed


def job_counts(
    jobs: Sequence[JobResult], skipped: Sequence[SkippedJob], faults: Sequence[Fault]
) -> dict[str, int]:
    """Count how jobs ended; a definition or workload at fault counts once."""
    passed = sum(job.is_passed for job in jobs)
    return {
        "passed": passed,
        "failed": len(jobs) - passed,
        "skipped": len(skipped),
        "dataset_faults": len(faults),
    }


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a run would do."""

    jobs: tuple[PlannedJob, ...]
    skipped: tuple[SkippedJob, ...]
    done_before: int
    devices: tuple[str, ...]
    workload_class: str = "all"
    other_class: int = 0
    """Jobs left out because their workload is of another class."""


def run_page(report: RunReport, *, lists_failures: bool) -> Page:
    """Show results by definition, then what did not run, then where it all went.

    `lists_failures` names each failed job, for where its line has not been printed before.
    """
    blocks = list(result_blocks(report.jobs))
    if lists_failures:
        blocks += _failure_blocks([job for job in report.jobs if not job.is_passed])
    blocks += skipped_blocks(report.skipped)
    blocks += fault_blocks(report.dataset_faults)
    return (*blocks, heading(_headline(report)), *_saved_blocks(report))


def dry_run_page(planned: DryRun) -> Page:
    """Show a plan."""
    counts: dict[tuple[str, str, str], int] = {}
    for job in planned.jobs:
        key = (job.definition, job.solution, job.language)
        counts[key] = counts.get(key, 0) + 1
    done = f", {planned.done_before:,} done before" if planned.done_before else ""
    where = ", ".join(planned.devices)
    blocks = [heading(f"{count_text(len(planned.jobs), 'job')} to run on {where}{done}")]
    if planned.other_class:
        left_out = count_text(planned.other_class, "job")
        blocks.append(
            paragraph(
                f"workloads of class {planned.workload_class}; --workload-class all adds {left_out}"
            )
        )
    if counts:
        blocks.append(table(_PLAN, [(*key, str(count)) for key, count in counts.items()]))
    return (*blocks, *skipped_blocks(planned.skipped))


def _headline(report: RunReport) -> str:
    parts = [f"{report.passed:,} of {count_text(len(report.jobs), 'job')} passed"]
    if report.failed:
        parts.append(f"{report.failed:,} failed")
    if report.skipped:
        parts.append(f"{len(report.skipped):,} skipped")
    if report.done_before:
        parts.append(f"{report.done_before:,} done before")
    if not report.is_complete:
        parts.append("stopped early")
    return f"{', '.join(parts)}, in {duration_text(report.elapsed_s)}"


def _saved_blocks(report: RunReport) -> list[Block]:
    if not report.jobs:
        return []
    if not report.saved_to:
        return [paragraph("traces were not saved")]
    lines = [f"traces saved under {', '.join(report.saved_to)}"]
    if not report.is_complete:
        lines.append("the same command with --resume does the rest")
    if report.next_command:
        lines.append(f"more: {report.next_command}")
    return [paragraph(*lines)]


def _failure_blocks(failed: Sequence[JobResult]) -> list[Block]:
    if not failed:
        return []
    lines = [job_line(job) for job in failed[:_MOST_FAILURES]]
    if len(failed) > _MOST_FAILURES:
        lines.append(f"and {len(failed) - _MOST_FAILURES} more; their traces hold the logs")
    return [heading("Failed"), paragraph(*lines)]


def skipped_blocks(skipped: Sequence[SkippedJob]) -> list[Block]:
    """Say what did not run, and why; nothing where everything did."""
    if not skipped:
        return []
    counts: dict[tuple[str, str], int] = {}
    for job in skipped:
        counts[job.solution, job.reason] = counts.get((job.solution, job.reason), 0) + 1
    lines = [
        f"{solution} ({count_text(count, 'workload')}): {reason}"
        for (solution, reason), count in counts.items()
    ]
    return [heading("Skipped: this machine cannot run them"), paragraph(*lines)]


def fault_blocks(faults: Sequence[Fault]) -> list[Block]:
    """Say what is wrong with the dataset; nothing where nothing is."""
    if not faults:
        return []
    lines = [f"{each.definition} [{each.workload}]: {each.explanation}" for each in faults]
    return [heading("Faults of the dataset"), paragraph(*lines)]
