"""What `submit` and `tasks` show, as values and as pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.errors import DeviceError, UsageError
from flashinfer_bench.report.jobs import job_result, result_blocks
from flashinfer_bench.report.logs import log_lines
from flashinfer_bench.serve.states import ENDED
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Column, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Solution
    from flashinfer_bench.errors import BenchError
    from flashinfer_bench.report.jobs import JobResult
    from flashinfer_bench.serve.messages import TaskEvent, TaskLine, TaskState
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


def submission_report(state: TaskState, server: str, solution: Solution) -> SubmissionReport:
    """Put together what became of a submission."""
    return SubmissionReport(
        server=server,
        task=state.task_id,
        status=state.status,
        outcome=state.outcome,
        definition=state.definition,
        solution=state.solution,
        cached=state.cached,
        error=state.error,
        jobs=tuple(
            job_result(trace, solution, device="", is_saved=True) for trace in state.traces or ()
        ),
        not_run=tuple(NotRun(each.workload, each.reason) for each in state.left_out),
    )


def submission_failure(report: SubmissionReport) -> BenchError | None:
    """Say why the service could not evaluate it; None where it could, or has not ended."""
    if report.status != "failed":
        return None
    sentence = f"task {report.task} failed: {report.error}"
    is_users = report.outcome in {"cancelled", "no_workloads"}
    return UsageError(sentence) if is_users else DeviceError(sentence)


def submission_exit_code(report: SubmissionReport) -> int:
    """Give 0 where all workloads passed, 1 where one did not, and that of the failure where there is one."""
    failure = submission_failure(report)
    if failure is not None:
        return failure.exit_code
    return 1 if report.not_run or any(not job.is_passed for job in report.jobs) else 0


def listed_tasks(tasks: Sequence[TaskLine], now_s: float) -> list[ListedTask]:
    """Put together a list of tasks; `now_s` are seconds since 1970."""
    return [
        ListedTask(
            task=each.task_id,
            status=each.status,
            outcome=each.outcome,
            definition=each.definition,
            solution=each.solution,
            age_s=max(0.0, now_s - each.created_s),
        )
        for each in tasks
    ]


def event_line(event: TaskEvent) -> str:
    """Say what happened in one line."""
    data = event.data
    match event.kind:
        case "queued":
            return f"queued, {data['place']} in the queue"
        case "leased":
            return f"taken by {data['hardware']}, attempt {data['attempt']}"
        case "started":
            return f"started {data['axes']}"
        case "trial":
            return f"trial {data['trial']} of {data['trials']}"
        case "finished":
            return f"{data['status'] or 'no trace'} {data['axes']}"
        case "requeued" | "given_up":
            return f"{event.kind.replace('_', ' ')}: {data['reason']}"
        case _:
            return event.kind


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
