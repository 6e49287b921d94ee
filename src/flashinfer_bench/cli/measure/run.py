"""`flashinfer-bench run`: benchmark the solutions of a dataset and record traces."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.boundary import fault_of
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import dataset_paths, load_dataset, require_writable_place
from flashinfer_bench.cli.measure.progress import JsonLines, choose_view
from flashinfer_bench.cli.measure.running import (
    Collected,
    exit_code_of,
    measure,
    skipped_job,
    warn_of_faults,
)
from flashinfer_bench.cli.options import (
    dataset_options,
    json_option,
    log_level_option,
    warn_missing_measures,
)
from flashinfer_bench.cli.setting_options import setting_options, settings_about
from flashinfer_bench.errors import BenchError, DeviceError, UsageError
from flashinfer_bench.report.jobs import for_document, solution_results
from flashinfer_bench.report.run import (
    DeviceResult,
    DryRun,
    PlannedJob,
    RunReport,
    dry_run_page,
    faults_for_document,
    job_counts,
    run_page,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flashinfer_bench.bench.benchmark import Benchmark
    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.plan import Plan
    from flashinfer_bench.bench.resuming import Resume
    from flashinfer_bench.cli.boundary import CommandFault
    from flashinfer_bench.cli.measure.progress import ProgressView
    from flashinfer_bench.data import TraceSet


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the user asked for; None and empty where nothing was said."""

    local: tuple[str, ...]
    output: str | None
    device: str
    pool: str
    config: str | None
    settings: dict[str, Any]
    """Settings that were given as options."""
    resume: bool
    retry_failed: bool
    save_results: bool
    dry_run: bool
    fail_fast: bool
    exit_zero: bool
    as_json: bool
    progress: str


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench run --local examples/dataset",
        "flashinfer-bench run --local examples/dataset --definitions 'rmsnorm*' softmax_v128256 \\",
        "    --authors cpp --output /tmp/traces",
        "flashinfer-bench run --local examples/dataset --workload-class full --dry-run",
        "flashinfer-bench run --local examples/dataset --until-interval 1% --time-budget 10s",
        "flashinfer-bench run --local examples/dataset --resume --label nightly --json",
        "flashinfer-bench run --local examples/dataset --json --progress ndjson",
        "flashinfer-bench run --hub flashinfer-ai/flashinfer-trace --op-types rmsnorm --output my_traces",
    ],
)
@dataset_options
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Traces go there; the dataset stays untouched.  [default: into the dataset; needed with --hub]",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAMES",
    help="cpu, cuda:0, or several as cuda:0,cuda:1; auto takes every GPU that CUDA_VISIBLE_DEVICES "
    "leaves, else the CPU.",
)
@click.option(
    "--pool",
    default="local",
    show_default=True,
    metavar="WHERE",
    help="local: this machine's devices; ray, or ray://HOST:PORT: those of a Ray cluster (docs/scale.md).",
)
@setting_options(*settings_about("selected"))
@click.option("--config", metavar="YAML", help="Settings in a file; options override it.")
@setting_options(*settings_about("measured", "judged", "run"))
@click.option(
    "--resume",
    is_flag=True,
    help="Leave out jobs that a trace of the same code, definition, workload, settings and hardware answers. "
    "A trace that does not say all of these does not count.",
)
@click.option("--retry-failed", is_flag=True, help="Resume, but run failed jobs again.")
@click.option(
    "--save-results/--no-save-results",
    default=True,
    show_default=True,
    help="Record traces.",
)
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first job that does not pass.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even when jobs did not pass.")
@json_option
@click.option(
    "--progress",
    type=click.Choice(["auto", "ndjson"]),
    default="auto",
    show_default=True,
    help="ndjson, with --json: one JSON object a line on stdout as things happen (planned, building, waiting, "
    "started, finished, lost); the last, ended, is the document.",
)
@log_level_option
def run(**options: Any) -> None:
    """Benchmark the solutions of a dataset and record traces.

    Every job, one solution on one workload, is built, judged against the definition's reference and
    timed in processes of its own. Each trace is on disk before the next job starts. On a terminal
    progress is shown while jobs run; on a pipe each finished job is one line.

    Exits with 1 when a job did not pass (one that --resume leaves out, too), with 3 when a definition or
    a workload is at fault, and with 4 when nothing ran because this machine can run none of the jobs, or
    when a device failed.

    Where devices are of different models, each model gets every job. A device that fails twice at a
    job does no more, and the others do what it left.
    """
    exit_code = _run(RunOptions(**options))
    click.get_current_context().exit(exit_code)


def _run(options: RunOptions) -> int:
    from flashinfer_bench.bench import Benchmark  # noqa: PLC0415  # `--help` does without pydantic

    if options.progress == "ndjson" and not options.as_json:
        raise UsageError("--progress ndjson writes JSON: give --json with it")
    config = _config(options)
    trace_set = load_dataset(options.local, output=options.output)
    with Benchmark(trace_set, config, device=options.device, pool=options.pool) as benchmark:
        return _plan_and_run(benchmark, trace_set, options)


def _plan_and_run(benchmark: Benchmark, trace_set: TraceSet, options: RunOptions) -> int:
    plan = benchmark.plan(resume=_resume(options))
    for text in plan.warnings:
        log.warn(text)
    if not (plan.jobs or plan.skipped or plan.done_count):
        raise UsageError(f"nothing to run: {_emptiness(trace_set, plan)}")
    if options.dry_run:
        _show_dry_run(benchmark, plan, as_json=options.as_json)
        return 0
    targets = _targets(trace_set) if options.save_results else ()
    require_writable_place(targets)
    for folder in targets:
        _require_writable(folder)
    return _measure_and_show(benchmark, plan, options, targets)


def _measure_and_show(
    benchmark: Benchmark, plan: Plan, options: RunOptions, targets: Sequence[Path]
) -> int:
    """Run the plan; whatever stops it, show what was finished first."""
    collected = Collected(plan, saves=options.save_results)
    view = _view(plan, options)
    stopped: BenchError | OSError | KeyboardInterrupt | None = None
    try:
        measure(
            benchmark,
            collected,
            view,
            stops_at=lambda _: options.fail_fast and collected.has_failed,
        )
    except (BenchError, OSError, KeyboardInterrupt) as error:
        stopped = error
    exit_code = exit_code_of(collected, only_compiles=benchmark.config.arch is not None)
    exit_code = 0 if options.exit_zero and exit_code == 1 else exit_code
    report = _report(
        collected,
        options,
        targets,
        devices=collected.devices(benchmark.targets),
        is_complete=stopped is None and collected.is_done,
    )
    ended_by = stopped or _nothing_ran(collected, exit_code)
    if options.as_json:
        warn_of_faults(report.dataset_faults)
        fault = None if ended_by is None else fault_of(ended_by)
        written = document(report, exit_code if fault is None else fault.exit_code, fault)
        if options.progress == "ndjson":
            screen.show_json_line({"event": "ended", **written})
        else:
            screen.show_json(written, fault.exit_code if fault else exit_code)
    elif stopped is None or report.jobs:
        _show(report, view)
    warn_missing_measures(collected.missing_measures)
    if stopped is not None:
        raise stopped
    if ended_by is not None:
        log.warn(str(ended_by))
    return exit_code


def _nothing_ran(collected: Collected, exit_code: int) -> DeviceError | None:
    if exit_code != DeviceError.exit_code or collected.has_lost_a_device:
        return None
    return DeviceError("nothing ran: this machine can run none of the jobs")


def _view(plan: Plan, options: RunOptions) -> ProgressView:
    if options.progress == "ndjson":
        return JsonLines(len(plan.jobs), len(plan.skipped))
    return choose_view(len(plan.jobs), as_json=options.as_json)


def _show(report: RunReport, view: ProgressView) -> None:
    has_lines = report.jobs if not screen.is_terminal() else report.failed and view.shows_failures
    if has_lines:
        click.echo()  # sets the page apart from the jobs' lines
    screen.show(run_page(report, lists_failures=not view.shows_failures))


def _report(
    collected: Collected,
    options: RunOptions,
    targets: Sequence[Path],
    *,
    devices: tuple[DeviceResult, ...],
    is_complete: bool,
) -> RunReport:
    results = collected.results
    saved_to = tuple(str(folder / "traces") for folder in targets) if results else ()
    return RunReport(
        jobs=tuple(results),
        solutions=solution_results(results),
        skipped=collected.skipped,
        dataset_faults=tuple(collected.faults.values()),
        planned=len(collected.plan.jobs),
        done_before=collected.plan.done_count,
        failed_before=collected.plan.failed_count,
        failed_before_by_solution=dict(Counter(collected.plan.failed_before)),
        elapsed_s=time.monotonic() - collected.began_s,
        is_complete=is_complete and not collected.is_cut_short,
        saved_to=saved_to,
        next_command=_next_command(options) if saved_to else None,
        devices=devices,
    )


def _config(options: RunOptions) -> BenchmarkConfig:
    """Lay the options that were given over the file, or over the defaults."""
    from flashinfer_bench.bench import BenchmarkConfig  # noqa: PLC0415  # as above

    if options.config is not None:
        return BenchmarkConfig.from_yaml(options.config, **options.settings)
    return BenchmarkConfig.default(**options.settings)


def _resume(options: RunOptions) -> Resume | None:
    from flashinfer_bench.bench.resuming import Resume  # noqa: PLC0415  # as above

    if not options.resume and not options.retry_failed:
        return None
    return Resume(retries_failed=options.retry_failed)


def _emptiness(trace_set: TraceSet, plan: Plan) -> str:
    where = ", ".join(str(root) for root in trace_set.roots)
    if not trace_set.definitions:
        return f"{where} holds no definitions; a dataset has definitions/, solutions/, workloads/"
    if not any(trace_set.solutions.values()):
        return f"{where} holds no solutions"
    if plan.other_class_count:
        return (
            f"none of the selected workloads is of class {plan.workload_class!r}; "
            "--workload-class all takes every one"
        )
    return "no solution with workloads is left of what was selected"


def _targets(trace_set: TraceSet) -> tuple[Path, ...]:
    """Name the folders that may take traces."""
    return (trace_set.output,) if trace_set.output is not None else trace_set.roots


def _require_writable(folder: Path) -> None:
    """Refuse to start when what is measured could not be recorded."""
    from flashinfer_bench.tensors.system import why_unwritable  # noqa: PLC0415  # psutil

    reason = why_unwritable(folder / "traces")
    if reason is not None:
        raise UsageError(
            f"{reason}, so traces cannot be recorded there; "
            "use --output DIR to record them elsewhere, or --no-save-results"
        )


def _next_command(options: RunOptions) -> str:
    folders = [
        *map(str, dataset_paths(options.local)),
        *([options.output] if options.output else []),
    ]
    arguments = " ".join(f"--local {shlex.quote(folder)}" for folder in dict.fromkeys(folders))
    return f"flashinfer-bench report summary {arguments}"


def document(
    report: RunReport, exit_code: int, fault: CommandFault | None = None
) -> dict[str, object]:
    """Make the JSON document of a run: counts first, then all of it; `error` says what stopped it."""
    counts = {
        "planned": report.planned,
        **job_counts(report.jobs, report.skipped, report.dataset_faults),
        "done_before": report.done_before,
        "failed_before": report.failed_before,
    }
    stopped = {} if fault is None else {"error": fault}
    return {
        "schema_version": 1,
        "exit_code": exit_code,
        **stopped,
        "counts": counts,
        "run": replace(
            report,
            jobs=for_document(report.jobs),
            dataset_faults=faults_for_document(report.dataset_faults),
        ),
    }


def _show_dry_run(benchmark: Benchmark, plan: Plan, *, as_json: bool) -> None:
    planned = DryRun(
        jobs=tuple(
            PlannedJob(
                job.definition.name,
                job.solution.name,
                job.solution.spec.language.value,
                job.workload.uuid,
                "" if job.target is None else job.target.hardware,
            )
            for job in plan.jobs
        ),
        skipped=tuple(skipped_job(job, reason) for job, reason in plan.skipped),
        done_before=plan.done_count,
        failed_before=plan.failed_count,
        devices=benchmark.devices,
        workload_class=plan.workload_class,
        other_class=plan.other_class_count,
    )
    if as_json:
        screen.show_json({"schema_version": 1, "dry_run": planned})
    else:
        screen.show(dry_run_page(planned))
