"""A recorded job again: its seed and settings, as far as its trace tells them."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench.benchmark import Benchmark, Step
from flashinfer_bench.bench.config import BenchmarkConfig, EvalConfig, ResolvedEvalConfig
from flashinfer_bench.bench.plan import Plan, jobs_for, skip_reason
from flashinfer_bench.data import EvaluationStatus, TraceSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from flashinfer_bench.bench.jobs import Job, Target
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.data import Definition, Evaluation, Solution, Trace


_LIMIT = re.compile(r"(?P<seconds>[0-9.e+-]+) s \(--(?P<build>(?:build-)?)timeout\)")


@dataclass(frozen=True, slots=True)
class Replay:
    """What will be run, and whether its settings are the recorded ones."""

    config: BenchmarkConfig
    has_recorded_settings: bool


def recorded_device(evaluation: Evaluation) -> str:
    """Name the kind of device a trace was made on; `auto` where it does not say."""
    device = evaluation.environment.device
    if device is None:
        return "auto"
    return "cpu" if device.uuid == "cpu" else "cuda:0"


def replay_of(
    trace: Trace,
    definition: Definition,
    solution: Solution,
    target: Target,
    own: Mapping[str, Any] | None = None,
) -> Replay:
    """Find the settings a trace was made with; the hash of the settings tells whether they are those.

    What a trace does not say is left at its default, and `own` goes before: settings that no hash depends on.
    """
    evaluation = trace.evaluation
    assert evaluation is not None
    candidates = list(_candidates(evaluation, definition, own or {}))
    wanted = evaluation.provenance.config_hash if evaluation.provenance else None
    for config in candidates:
        (job,) = jobs_for(
            definition, solution, [trace.workload], config, _as_recorded(target, evaluation)
        )
        if job.config_hash == wanted:
            return Replay(config, has_recorded_settings=True)
    return Replay(candidates[0], has_recorded_settings=False)


def run_again(
    trace: Trace,
    trace_set: TraceSet,
    definition: Definition,
    solution: Solution,
    replay: Replay,
    *,
    device: str,
    observe: Callable[[Progress], None] = lambda _: None,
) -> Step | str:
    """Run the job on one device and record nothing; a reason where this machine cannot run it."""
    with Benchmark(
        _scratch(trace_set, definition, solution), replay.config, device=device
    ) as again:
        again.devices = again.devices[:1]
        (job,) = jobs_for(definition, solution, [trace.workload], replay.config, again.target)
        reason = skip_reason(solution, again.target, is_strict=False)
        if reason is not None:
            return reason
        planned = Plan((_as_then(job, trace),))
        (step,) = again.run(planned, dump_traces=False, observe=observe)
        return step


def _candidates(
    evaluation: Evaluation, definition: Definition, own: Mapping[str, Any]
) -> Iterator[BenchmarkConfig]:
    """Give configurations that fit what was recorded; whether it was audited or strict is not told."""
    provenance = evaluation.provenance
    threads = {"threads": evaluation.environment.threads}
    common: dict[str, Any] = {**threads, **_recorded_limit(evaluation), **own}
    settings = provenance.settings if provenance else None
    for audit, strict in itertools.product((True, False), (False, True)):
        given = common | {"audit": audit, "strict": strict}
        if settings is None:
            yield BenchmarkConfig.default(**given)
            continue
        resolved = ResolvedEvalConfig(**settings)
        said = {
            name: "off" if value is None else value for name, value in resolved.model_dump().items()
        }
        no_layer = {definition.op_type: EvalConfig()}
        yield BenchmarkConfig(op_type_config=no_layer, **said, **given)


def _recorded_limit(evaluation: Evaluation) -> dict[str, float]:
    """Find the limit that ended a job, which its log names first; nothing where none did."""
    if evaluation.status not in {EvaluationStatus.TIMEOUT, EvaluationStatus.COMPILE_ERROR}:
        return {}
    found = _LIMIT.search(evaluation.log.partition("\n")[0])
    if found is None:
        return {}
    return {f"{found['build'].replace('-', '_')}timeout_seconds": float(found["seconds"])}


def _as_recorded(target: Target, evaluation: Evaluation) -> Target:
    """Take clock and threads from the trace: they are part of the hash of the settings."""
    clock = evaluation.performance.clock if evaluation.performance else None
    return replace(
        target,
        threads=evaluation.environment.threads or target.threads,
        clock=clock.name if clock else target.clock,
    )


def _as_then(job: Job, trace: Trace) -> Job:
    """Give the job its recorded key, and time as many calls together: which are checked depends on both."""
    provenance = trace.evaluation.provenance if trace.evaluation else None
    if provenance is not None:
        job = replace(job, key=int(provenance.seed, 16))
    performance = trace.evaluation.performance if trace.evaluation else None
    clock = performance.clock if performance else None
    return job if clock is None else replace(job, calls_per_sample=max(1, clock.calls_per_sample))


def _scratch(trace_set: TraceSet, definition: Definition, solution: Solution) -> TraceSet:
    """Make a trace set of this one solution; it reads files of the dataset and writes none."""
    scratch = TraceSet(trace_set.root, {definition.name: definition}, {definition.name: [solution]})
    scratch.roots = trace_set.roots
    return scratch
