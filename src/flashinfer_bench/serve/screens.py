"""What `submit` and `tasks` show, as values and as pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.jobs import result_blocks
from flashinfer_bench.report.logs import log_lines
from flashinfer_bench.serve.states import ENDED
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Column, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.report.jobs import JobResult
    from flashinfer_bench.text.tables import Block, Page


@dataclass(frozen=True, slots=True)
class NotRun:
    """A workload that left no trace."""

    workload: str
    reason: str


@dataclass(frozen=True, slots=True)
class SubmissionReport:
    """What became of a submission."""

    server: str
    task: str
    status: str
    outcome: str | None
    definition: str
    solution: str
    """The name its traces carry."""
    cached: bool
    """Whether the traces are of an earlier task with the same content."""
    error: str | None
    jobs: tuple[JobResult, ...]
    not_run: tuple[NotRun, ...]


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task in a list."""

    task: str
    status: str
    outcome: str | None
    definition: str
    solution: str
    age_s: float


def submission_page(report: SubmissionReport) -> Page:
    """Show one line per solution as `run` does, and the log of each failure."""
    blocks: list[Block] = []
    if report.cached:
        blocks.append(
            paragraph("known from an earlier task with the same content; --fresh evaluates again")
        )
    blocks += result_blocks(report.jobs)
    for job in report.jobs:
        if not job.is_passed:
            blocks += [
                heading(f"{job.status} with {axes_text(job.axes)}"),
                paragraph(*log_lines(job.log)),
            ]
    if report.not_run:
        lines = [f"{each.workload}: {each.reason}" for each in report.not_run]
        blocks += [heading("Not run"), paragraph(*lines)]
    passed = sum(job.is_passed for job in report.jobs)
    count = len(report.jobs) + len(report.not_run)
    ended = f"{passed} of {count_text(count, 'workload')} passed"
    if report.status not in ENDED:
        ended = f"{report.status}: `flashinfer-bench tasks` says when it has ended; submit it again for its results"
    blocks.append(heading(f"task {report.task}: {ended}"))
    return tuple(blocks)


def tasks_page(tasks: Sequence[ListedTask]) -> Page:
    """Show a line for each task, the newest first."""
    if not tasks:
        return (paragraph("no tasks"),)
    columns = [
        Column("task"),
        Column("status"),
        Column("definition"),
        Column("solution"),
        Column("age", is_number=True),
    ]
    rows = [
        [
            each.task,
            each.outcome if each.status == "failed" and each.outcome else each.status,
            each.definition,
            each.solution,
            f"{each.age_s:.0f} s",
        ]
        for each in tasks
    ]
    return (table(columns, rows),)
