"""`flashinfer-bench replay`: run one recorded job again with its seed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.options import SHARE, json_option, local_option, log_level_option
from flashinfer_bench.cli.progress import waiting_text
from flashinfer_bench.cli.versions import find_definition
from flashinfer_bench.errors import DatasetError, DeviceError, UnknownNameError, UsageError
from flashinfer_bench.report.replay import (
    LATENCY_THRESHOLD,
    ReplayReport,
    compare_evaluations,
    replay_page,
)

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.bench.pool import Progress
    from flashinfer_bench.bench.replay import Replay
    from flashinfer_bench.data import Definition, Evaluation, Solution, Trace, TraceSet

_WITH_LINE = re.compile(r"(?P<path>.+):(?P<line>\d+)")
_SHORTEST_ID = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What the user asked for."""

    trace: str | None
    trace_id: str | None
    local: tuple[str, ...]
    device: str | None
    timeout: float | None
    threshold: float
    as_json: bool


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench replay dataset/traces/me/rmsnorm/rmsnorm_h4096.jsonl:7",
        "flashinfer-bench replay --trace-id 4f1c9a --local dataset",
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
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long the solution may take.  [default: 300]",
)
@click.option(
    "--threshold",
    type=SHARE,
    default=LATENCY_THRESHOLD,
    show_default="25%",
    metavar="SHARE",
    help="Latencies this close agree even where their intervals do not overlap.",
)
@json_option
@log_level_option
def replay(**options: Any) -> None:
    """Run one recorded job again with its seed.

    FILE is a file of traces, LINE the line of the job; without --local the dataset is the one that holds
    the file. Inputs, settings, threads and the choice of checked calls are those of the recorded job, as
    far as its trace tells them. Status and errors must be the same, latencies nearly; nothing is recorded.

    Exits with 0 when it ended as recorded, with 1 when it did not.
    """
    click.get_current_context().exit(_replay(ReplayOptions(**options)))


def _replay(options: ReplayOptions) -> int:
    trace_set, trace = _find(options)
    definition = find_definition(trace_set, trace.definition)
    solution = _solution_of(trace_set, trace)
    step, plan = _run(trace_set, trace, definition, solution, options)
    report = _report(trace, step, _warnings(trace_set, trace, definition, solution, plan), options)
    exit_code = 0 if report.agrees else 1
    if options.as_json:
        screen.show_json({"schema_version": 1, "exit_code": exit_code, "replay": report})
    else:
        screen.show(replay_page(report))
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
    from flashinfer_bench.bench.replay import (  # noqa: PLC0415  # pydantic
        recorded_device,
        replay_of,
        run_again,
    )

    assert trace.evaluation is not None
    device = options.device or recorded_device(trace.evaluation)
    target = Benchmark(trace_set, device=device).target
    plan = replay_of(trace, definition, solution, target, timeout_seconds=options.timeout)
    step = run_again(
        trace, trace_set, definition, solution, plan, device=device, observe=_tell_waiting
    )
    if isinstance(step, str):
        raise DeviceError(f"this machine cannot run {solution.name}: {step}")
    if isinstance(step.outcome, DatasetFault):
        raise DatasetError(step.outcome.explanation)
    if step.trace is None:
        raise DeviceError(f"{solution.name} was skipped: {getattr(step.outcome, 'reason', '')}")
    return step, plan


def _report(
    trace: Trace, step: Step, warnings: tuple[str, ...], options: ReplayOptions
) -> ReplayReport:
    recorded, now = trace.evaluation, step.trace.evaluation if step.trace else None
    assert recorded is not None
    assert now is not None
    provenance = recorded.provenance
    compared = compare_evaluations(
        recorded, now, has_same_inputs=provenance is not None, threshold=options.threshold
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
    )


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


def _find(options: ReplayOptions) -> tuple[TraceSet, Trace]:
    if options.trace is None and options.trace_id is None:
        raise UsageError("name a trace: FILE:LINE, or --trace-id ID")
    if options.trace_id is not None and len(options.trace_id) < _SHORTEST_ID:
        raise UsageError(f"--trace-id needs {_SHORTEST_ID} characters or more")
    if options.trace is not None:
        path, line = _place(options.trace)
        trace = _trace_in(path, line, options.trace_id)
        return load_dataset(options.local or _dataset_of(path)), trace
    trace_set = load_dataset(options.local)
    return trace_set, _trace_with(trace_set, options.trace_id or "")


def _place(text: str) -> tuple[Path, int | None]:
    match = None if Path(text).exists() else _WITH_LINE.fullmatch(text)
    path = Path(match["path"]) if match else Path(text)
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    return path, int(match["line"]) if match else None


def _dataset_of(path: Path) -> tuple[str, ...]:
    """Find the dataset that holds a file of traces."""
    folders = path.resolve().parents
    root = next((each for each in folders if (each / "definitions").is_dir()), None)
    if root is None:
        raise UsageError(f"{path} lies in no dataset; name the one it was made from with --local")
    return (str(root),)


def _trace_in(path: Path, line: int | None, trace_id: str | None) -> Trace:
    """Read one trace of a file; its only one where no line is named."""
    from flashinfer_bench.data import Trace, load_jsonl_file  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.files import read_bytes, whole_lines  # noqa: PLC0415  # pydantic

    numbers = [number for number, _ in whole_lines(read_bytes(path), path)]
    traces = dict(zip(numbers, load_jsonl_file(Trace, path), strict=True))
    if line is not None:
        traces = {number: trace for number, trace in traces.items() if number == line}
    if trace_id is not None:
        traces = {n: trace for n, trace in traces.items() if _id_of(trace).startswith(trace_id)}
    evaluated = {n: trace for n, trace in traces.items() if trace.evaluation is not None}
    if not evaluated:
        where = f"line {line} of {path}" if line is not None else str(path)
        raise UsageError(f"{where} holds no trace of a job" + (" with that id" * bool(trace_id)))
    if len(evaluated) > 1:
        first, *_, last = sorted(evaluated)
        raise UsageError(
            f"{path} holds {len(evaluated)} traces: name one, from {path}:{first} to {path}:{last}"
        )
    return next(iter(evaluated.values()))


def _trace_with(trace_set: TraceSet, trace_id: str) -> Trace:
    matching = [
        (name, index)
        for name in trace_set.traces
        for index, row in trace_set.traces.rows(name, lambda _: (None, None))
        if row.trace_id is not None and row.trace_id.startswith(trace_id)
    ]
    if not matching:
        raise UsageError(f"no trace of the dataset has an id that begins with {trace_id!r}")
    if len(matching) > 1:
        raise UsageError(f"{len(matching)} traces have ids that begin with {trace_id!r}")
    return trace_set.traces.trace_at(*matching[0])


def _id_of(trace: Trace) -> str:
    provenance = trace.evaluation.provenance if trace.evaluation else None
    return provenance.trace_id if provenance else ""


def _solution_of(trace_set: TraceSet, trace: Trace) -> Solution:
    solution = trace_set.get_solution(trace.solution or "")
    if solution is None:
        known = [each.name for group in trace_set.solutions.values() for each in group]
        raise UnknownNameError("solution", trace.solution or "", known)
    return solution


def _tell_waiting(event: Progress) -> None:
    from flashinfer_bench.bench.pool import Waiting  # noqa: PLC0415  # pydantic

    if isinstance(event, Waiting):
        log.inform(waiting_text(event.device))
