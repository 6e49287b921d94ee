"""`flashinfer-bench replay`: run one recorded job again with its seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import find_definition
from flashinfer_bench.cli.measure.kept_logs import keep_log
from flashinfer_bench.cli.measure.progress import waiting_text
from flashinfer_bench.cli.measure.recorded import find_trace, solution_of
from flashinfer_bench.cli.measure.running import missing_measures
from flashinfer_bench.cli.options import (
    SHARE,
    json_option,
    local_option,
    log_level_option,
    warn_missing_measures,
)
from flashinfer_bench.cli.setting_options import setting_options
from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.errors import DatasetError, DeviceError, UsageError
from flashinfer_bench.report.replay import (
    LATENCY_THRESHOLD,
    ReplayReport,
    compare_evaluations,
    evaluation_failure,
    for_document,
    replay_page,
)

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.bench.tools.replay import Replay
    from flashinfer_bench.data import Definition, Evaluation, Solution, Trace, TraceSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What the user asked for."""

    trace: str | None
    trace_id: str | None
    local: tuple[str, ...]
    device: str | None
    settings: dict[str, Any]
    threshold: float
    reproducer: str | None
    as_json: bool


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench replay dataset/traces/me/rmsnorm/rmsnorm_h4096.jsonl:7",
        "flashinfer-bench replay --trace-id 4f1c9a --local dataset",
        "flashinfer-bench replay --trace-id 4f1c9a --local dataset --reproducer failure.py",
    ],
)
@click.argument("trace", metavar="[FILE[:LINE]]", required=False)
@click.option(
    "--trace-id", metavar="ID", help="Which trace; its first six characters or more will do."
)
@local_option
@click.option(
    "--device", metavar="NAME", help="cpu, or cuda:0.  [default: the kind it was recorded on]"
)
@click.option(
    "--threshold",
    type=SHARE,
    default=LATENCY_THRESHOLD,
    metavar="SHARE",
    help="Latencies this close agree even where their intervals do not overlap.  [default: 25%]",
)
@click.option(
    "--reproducer",
    metavar="FILE",
    help="Write a script that shows the same failure on its own: torch, these sources, this seed.",
)
@setting_options("timeout_seconds", "sandbox")
@json_option
@log_level_option
def replay(**options: Any) -> None:
    """Run one recorded job again with its seed.

    FILE is a file of traces, LINE the line of the job; without --local the dataset is the one that holds
    the file. Inputs, settings, threads and the choice of checked calls are those of the recorded job, as
    far as its trace tells them. Status and errors must be the same, latencies nearly; nothing is recorded.
    Of a job that fails, the first mismatches and a histogram of the errors are shown, and --reproducer
    writes a script that shows them without this package.

    Exits with 0 when it ended as recorded, with 1 when it did not.
    """
    click.get_current_context().exit(_replay(ReplayOptions(**options)))


def _replay(options: ReplayOptions) -> int:
    trace_set, trace = find_trace(options.trace, options.trace_id, options.local)
    definition = find_definition(trace_set, trace.definition)
    solution = solution_of(trace_set, trace)
    if options.reproducer is not None:
        from flashinfer_bench.bench.several_ranks import (  # noqa: PLC0415  # as below
            require_one_rank,
        )

        require_one_rank(definition, "--reproducer")
        _require_seed(trace)
        _require_place(Path(options.reproducer))
    step, plan = _run(trace_set, trace, definition, solution, options)
    report = _report(trace, step, _warnings(trace_set, trace, definition, solution, plan), options)
    if options.reproducer is not None:
        text = _reproducer(trace_set, trace, definition, solution, plan=plan, said=report.log)
        _write(Path(options.reproducer), text)
        log.inform(f"{options.reproducer} written: run it with `python {options.reproducer}`")
    exit_code = 0 if report.agrees else 1
    if options.as_json:
        screen.show_json({"schema_version": 1, "replay": for_document(report)}, exit_code)
    else:
        screen.show(replay_page(report))
    warn_missing_measures(missing_measures(step.trace) if step.trace else ())
    return exit_code


def _run(
    trace_set: TraceSet,
    trace: Trace,
    definition: Definition,
    solution: Solution,
    options: ReplayOptions,
) -> tuple[Step, Replay]:
    """Run the job; what leaves no trace is an error that says whose."""
    from flashinfer_bench.bench import Benchmark  # noqa: PLC0415  # pydantic
    from flashinfer_bench.bench.outcomes import DatasetFault  # noqa: PLC0415  # pydantic
    from flashinfer_bench.bench.tools.replay import (  # noqa: PLC0415  # pydantic
        recorded_device,
        replay_of,
        run_again,
    )

    assert trace.evaluation is not None
    device = options.device or recorded_device(trace.evaluation)
    target = Benchmark(trace_set, device=device).target
    plan = replay_of(trace, definition, solution, target, options.settings)
    log.inform(_what_runs(trace, plan))
    step = run_again(
        trace, trace_set, definition, solution, plan, device=device, observe=_report_waiting
    )
    if isinstance(step, str):
        raise DeviceError(f"this machine cannot run {solution.name}: {step}")
    if isinstance(step.outcome, DatasetFault):
        raise DatasetError(step.outcome.explanation)
    if step.trace is None:
        raise DeviceError(f"{solution.name} was skipped: {getattr(step.outcome, 'reason', '')}")
    return step, plan


def _what_runs(trace: Trace, plan: Replay) -> str:
    """Say what is waited for, and how long at most."""
    evaluation = trace.evaluation
    assert evaluation is not None
    limit = f"for {plan.config.timeout_seconds:g} s at most (--timeout)"
    ended = f"recorded as {evaluation.status.value}"
    return f"running {trace.solution} [{axes_text(trace.workload.axes)}], {ended}, {limit}"


def _report(
    trace: Trace, step: Step, warnings: tuple[str, ...], options: ReplayOptions
) -> ReplayReport:
    recorded, now = trace.evaluation, step.trace.evaluation if step.trace else None
    assert recorded is not None
    assert now is not None
    provenance = recorded.provenance
    compared = compare_evaluations(
        recorded, now, has_same_inputs=_has_same_calls(recorded, now), threshold=options.threshold
    )
    return ReplayReport(
        trace_id=provenance.trace_id if provenance else None,
        definition=trace.definition,
        solution=trace.solution or "",
        workload=trace.workload.uuid,
        axes=dict(trace.workload.axes),
        seed=provenance.seed if provenance else None,
        hardware=now.environment.hardware,
        recorded_hardware=recorded.environment.hardware,
        recorded_at=recorded.timestamp,
        agrees=all(each.agrees is not False for each in compared),
        compared=compared,
        warnings=warnings,
        recorded_log=recorded.log,
        log=now.log,
        has_failed=now.status != "PASSED",
        recorded_failure=evaluation_failure(recorded),
        failure=evaluation_failure(now),
        log_file=_keep_log(trace, now),
    )


def _keep_log(recorded: Trace, now: Evaluation) -> str | None:
    """Write what the job says now to a file, one for each recorded job; None where it passed."""
    if now.status == "PASSED":
        return None
    job = f"{recorded.definition}/{recorded.solution}/{recorded.workload.uuid}"
    return keep_log("replay", job, now.log)


def _has_same_calls(recorded: Evaluation, now: Evaluation) -> bool:
    """Tell whether the same calls were made: a stopping rule, or a block timed again, lets the machine decide."""
    if recorded.provenance is None or now.provenance is None:
        return False
    if recorded.provenance.late_inputs != now.provenance.late_inputs:
        return False
    settings = recorded.provenance.settings or {}
    done = [each.performance for each in (recorded, now) if each.performance is not None]
    has_rule = bool({"until_interval", "time_budget_seconds", "racing"} & settings.keys())
    return not has_rule and not any(
        each.blocks_discarded or each.blocks_begun_again for each in done
    )


def _require_seed(trace: Trace) -> None:
    if trace.evaluation is None or trace.evaluation.provenance is None:
        raise UsageError("the trace has no provenance: without its seed nothing can be reproduced")


def _reproducer(
    trace_set: TraceSet,
    trace: Trace,
    definition: Definition,
    solution: Solution,
    *,
    plan: Replay,
    said: str,
) -> str:
    """Write the script for the call that is wrong now, or was when it was recorded."""
    from flashinfer_bench.bench.tools.reproducer import (  # noqa: PLC0415  # pydantic
        Subject,
        failing_call,
        reproducer,
    )

    recorded = trace.evaluation
    assert recorded is not None
    subject = Subject(
        definition=definition,
        solution=solution,
        workload=trace.workload,
        config=plan.config.resolve_eval_config(definition, trace.workload),
        recorded=recorded,
        roots=tuple(str(root.resolve()) for root in trace_set.roots),
    )
    return reproducer(subject, failing=failing_call(said, recorded.log))


def _require_place(path: Path) -> None:
    """Refuse before anything runs what could not be written."""
    from flashinfer_bench.tensors.system import why_unwritable  # noqa: PLC0415  # psutil

    reason = f"no folder {path.parent}" if not path.parent.exists() else why_unwritable(path.parent)
    reason = "it is a folder" if path.is_dir() else reason
    if reason is not None:
        raise UsageError(f"cannot write {path}: {reason}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _warnings(
    trace_set: TraceSet, trace: Trace, definition: Definition, solution: Solution, plan: Replay
) -> tuple[str, ...]:
    """Say what has changed since, and what the trace does not tell."""
    evaluation = trace.evaluation
    assert evaluation is not None
    provenance = evaluation.provenance
    if provenance is None:
        return ("the trace has no provenance: seed, settings and code are not those recorded",)
    found = []
    if provenance.solution_hash != solution.hash():
        found.append(f"solution {solution.name} is not the code that was recorded")
    if provenance.definition_hash is None:
        found.append("the trace does not say which version of the definition it was judged by")
    elif provenance.definition_hash != definition.hash():
        found.append(f"definition {definition.name} has changed since")
    if not plan.has_recorded_settings:
        found.append(
            "settings differ from the recorded ones, which the trace does not tell in full: "
            "errors may differ too"
        )
    if _has_changed(trace_set, trace):
        found.append("the dataset's workload has changed since; the recorded one was run")
    return (*found, *_other_versions(evaluation))


def _other_versions(evaluation: Evaluation) -> list[str]:
    import platform  # noqa: PLC0415  # rarely asked

    recorded = evaluation.environment.libs
    installed = {"python": platform.python_version(), "torch": _version_of("torch")}
    return [
        f"recorded with {name} {recorded[name]}; this is {version}"
        for name, version in installed.items()
        if name in recorded and version and recorded[name].partition("+")[0] != version
    ]


def _version_of(distribution: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # rarely asked

    try:
        return version(distribution).partition("+")[0]
    except PackageNotFoundError:
        return None


def _has_changed(trace_set: TraceSet, trace: Trace) -> bool:
    known = trace_set.workloads.get(trace.definition, [])
    same = [each.workload for each in known if each.workload.uuid == trace.workload.uuid]
    return any(each.to_dict() != trace.workload.to_dict() for each in same)


def _report_waiting(event: Progress) -> None:
    from flashinfer_bench.bench.parent.events import Waiting  # noqa: PLC0415  # pydantic

    if isinstance(event, Waiting):
        log.inform(waiting_text(event.device, event.holder))
