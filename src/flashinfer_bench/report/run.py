"""What one run did, as a value and as a page."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flashinfer_bench.report.jobs import job_line, result_blocks
from flashinfer_bench.report.logs import headline, log_excerpt, log_lines
from flashinfer_bench.text.numbers import count_text, duration_text
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.report.jobs import JobResult, SolutionResult

_MOST_FAILURES = 12
_MOST_NAMED = 5
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
    hardware: str = ""
    """The hardware it was planned for."""


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
    hardware: str = ""


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """What one device did in a run."""

    device: str
    hardware: str
    jobs: int
    """Jobs that left a trace."""
    lost: str | None = None
    """Why it did no more before the run was over; None where it went on."""


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
    failed_before: int = 0
    """Those of them that had failed."""
    failed_before_by_solution: dict[str, int] = field(default_factory=dict)
    devices: tuple[DeviceResult, ...] = ()

    @property
    def passed(self) -> int:
        """Jobs that passed."""
        return sum(job.is_passed for job in self.jobs)

    @property
    def failed(self) -> int:
        """Jobs that did not pass."""
        return len(self.jobs) - self.passed


def faults_for_document(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Cut what references said to what a document holds of it."""
    return tuple(
        replace(each, explanation=log_excerpt(each.explanation, whole=None)) for each in faults
    )


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
    failed_before: int = 0


def run_page(report: RunReport, *, lists_failures: bool) -> Page:
    """Show results by definition, then what did not run, then where it all went.

    `lists_failures` names each failed job, for where its line has not been printed before.
    """
    blocks = list(result_blocks(report.jobs))
    if lists_failures:
        blocks += _failure_blocks([job for job in report.jobs if not job.is_passed])
    blocks += skipped_blocks(report.skipped)
    blocks += fault_blocks(report.dataset_faults)
    blocks += _lost_blocks(report.devices)
    return (*blocks, heading(_headline(report)), *_saved_blocks(report), *_recorded_blocks(report))


def dry_run_page(planned: DryRun) -> Page:
    """Show a plan."""
    counts: dict[tuple[str, ...], int] = {}
    is_mixed = len({job.hardware for job in planned.jobs}) > 1
    for job in planned.jobs:
        key: tuple[str, ...] = (job.definition, job.solution, job.language)
        key += (job.hardware,) if is_mixed else ()
        counts[key] = counts.get(key, 0) + 1
    done = "".join(f", {each}" for each in _done_parts(planned))
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
        columns = (*_PLAN[:-1], Column("hardware"), _PLAN[-1]) if is_mixed else _PLAN
        blocks.append(table(columns, [(*key, str(count)) for key, count in counts.items()]))
    return (*blocks, *skipped_blocks(planned.skipped))


def _headline(report: RunReport) -> str:
    parts = [f"{report.passed:,} of {count_text(len(report.jobs), 'job')} passed"]
    if report.failed:
        parts.append(f"{report.failed:,} failed")
    if report.skipped:
        parts.append(f"{len(report.skipped):,} skipped")
    if behind := sum(job.is_behind for job in report.jobs):
        parts.append(f"{behind:,} stopped early, far behind the best known")
    parts += _done_parts(report)
    if not report.is_complete:
        parts.append("stopped early")
    return f"{', '.join(parts)}, in {duration_text(report.elapsed_s)}"


def _done_parts(report: RunReport | DryRun) -> list[str]:
    """Say what a resume left out, and how much of it had failed."""
    if not report.done_before:
        return []
    failed = f" ({report.failed_before:,} of them failed)" if report.failed_before else ""
    return [f"{report.done_before:,} done before{failed}"]


def _recorded_blocks(report: RunReport) -> list[Block]:
    if not report.failed_before:
        return []
    stands = "recorded failure stands" if report.failed_before == 1 else "recorded failures stand"
    counts = report.failed_before_by_solution
    named = [f"{name} ({count_text(count, 'workload')})" for name, count in counts.items()]
    more = len(named) - _MOST_NAMED
    which = ", ".join(named[:_MOST_NAMED]) + (f", and {more} more" if more > 0 else "")
    lines = [f"{report.failed_before:,} {stands}{f': {which}' if which else ''}"]
    lines.append("`show SOLUTION` lists its traces; --retry-failed runs what failed again")
    return [paragraph(*lines)]


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
    is_mixed = len({job.hardware for job in skipped}) > 1
    counts: dict[tuple[str, str, str], int] = {}
    for job in skipped:
        where = f" on {job.hardware}" if is_mixed else ""
        key = (job.solution, where, job.reason)
        counts[key] = counts.get(key, 0) + 1
    lines = [
        f"{solution}{where} ({count_text(count, 'workload')}): {reason}"
        for (solution, where, reason), count in counts.items()
    ]
    return [heading("Skipped: this machine cannot run them"), paragraph(*lines)]


def fault_blocks(faults: Sequence[Fault]) -> list[Block]:
    """Say what is wrong with the dataset; nothing where nothing is."""
    if not faults:
        return []
    lines = [log_lines(_fault_text(each, each.explanation)) for each in faults]
    return [heading("Faults of the dataset"), paragraph(*itertools.chain.from_iterable(lines))]


def faults_line(faults: Sequence[Fault]) -> str:
    """Say in one line that the dataset is at fault, and how, first of all."""
    first = _fault_text(faults[0], headline(faults[0].explanation))
    more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"the dataset is at fault: {first}{more}"


def _fault_text(fault: Fault, explanation: str) -> str:
    return f"{fault.definition} [{fault.workload}]: {explanation}"


def _lost_blocks(devices: Sequence[DeviceResult]) -> list[Block]:
    """Say which devices did not go on to the end, and why; nothing where all did."""
    lines = [
        f"{each.device} ({each.hardware}), after {count_text(each.jobs, 'job')}: {headline(each.lost)}"
        for each in devices
        if each.lost is not None
    ]
    return [heading("Devices that were lost"), paragraph(*lines)] if lines else []
