"""Submit a solution to a server, wait for it, and show what became of it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.options import SECONDS, json_option, log_level_option
from flashinfer_bench.report.jobs import for_document, job_line
from flashinfer_bench.serve.commands.connecting import server_options
from flashinfer_bench.serve.commands.kernels import submitted_options
from flashinfer_bench.serve.kernel_submissions import submitted_solution
from flashinfer_bench.serve.screens import (
    event_line,
    submission_exit_code,
    submission_failure,
    submission_page,
    submission_report,
)
from flashinfer_bench.serve.states import ENDED

if TYPE_CHECKING:
    from flashinfer_bench.data import Solution
    from flashinfer_bench.serve.client import ServiceClient
    from flashinfer_bench.serve.messages import TaskState


@click.command(
    cls=Command,
    document={"submit": "flashinfer_bench.serve.screens:SubmissionReport"},
    examples=[
        "flashinfer-bench submit kernel.py --definition rmsnorm_h4096",
        "flashinfer-bench submit kernel.cu --server http://farm:8000 --token-file my.token --definition gemm --json",
        "flashinfer-bench submit solution.json --fresh --hardware each",
    ],
)
@click.argument("kernel", metavar="FILE")
@server_options
@submitted_options
@click.option("--author", metavar="NAME", help="Who wrote it; with a token, its tenant.")
@click.option("--workloads", cls=ManyOption, metavar="UUID...", help="Workloads to run on.")
@click.option(
    "--hardware",
    default="any",
    show_default=True,
    metavar="NAME",
    help="any worker, each hardware the server knows, or one by name.",
)
@click.option(
    "--fresh", is_flag=True, help="Evaluate again, with other inputs, what was evaluated before."
)
@click.option("--no-wait", is_flag=True, help="Print the task's id, and do not wait for its end.")
@click.option(
    "--wait",
    "most_s",
    type=SECONDS,
    metavar="SECONDS",
    help="Wait no longer; the task goes on.  [default: as long as it takes]",
)
@json_option
@log_level_option
def submit(  # noqa: PLR0917  # click passes options by name
    kernel: str,
    server: str,
    token: str | None,
    definition: str | None,
    name: str | None,
    author: str | None,
    language: str | None,
    entry_point: str | None,
    workloads: tuple[str, ...],
    hardware: str,
    fresh: bool,
    no_wait: bool,
    most_s: float | None,
    as_json: bool,
) -> None:
    """Submit a solution to a server, wait for it, and show what became of it.

    FILE is a kernel as `check` takes it, a folder with a `solution.toml`, or a solution's JSON file. Progress
    goes to stderr. Ctrl-C ends the waiting and not the task.

    Exits with 1 when a workload did not pass, and with 4 when the service could not evaluate it.
    """
    from flashinfer_bench.serve.client import ServiceClient  # noqa: PLC0415  # pydantic

    with ServiceClient(server, token) as client:
        solution = submitted_solution(client, kernel, definition, name, language, entry_point)
        solution = solution.model_copy(update={"author": author or solution.author})
        submitted = client.submit(solution, workloads=workloads, hardware=hardware, fresh=fresh)
        log.inform(f"task {submitted.task_id} on {client.server}")
        task = submitted.task_id
        state = client.task(task) if no_wait else _awaited(client, task, most_s)
    _show(state, client.server, solution, as_json=as_json)


def _awaited(client: ServiceClient, task: str, most_s: float | None) -> TaskState:
    """Tell what happens to a task until it has ended."""
    until_s = time.monotonic() + (most_s or float("inf"))
    state = client.task(task)
    if state.status not in ENDED:
        if state.waiting_for:
            log.warn(f"it waits for {state.waiting_for}")
        for event in client.events(task, most_s=until_s - time.monotonic()):
            log.inform(event_line(event))
            if time.monotonic() > until_s:
                break
        state = client.wait(task, most_s=max(0.0, until_s - time.monotonic()))
    return state


def _show(state: TaskState, server: str, solution: Solution, *, as_json: bool) -> None:
    report = submission_report(state, server, solution)
    failure = submission_failure(report)
    exit_code = submission_exit_code(report)
    if as_json:
        told = replace(report, jobs=for_document(report.jobs))
        screen.show_json({"schema_version": 1, "submit": told}, exit_code)
    else:
        for result in report.jobs:
            log.inform(job_line(result))
        screen.show(submission_page(report))
    if failure is not None:
        raise failure
    click.get_current_context().exit(exit_code)
