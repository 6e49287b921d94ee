"""How candidates did: what the engine found, in KernelBench's own keys and ours beside them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench.record import samples_of
from flashinfer_bench.kernelbench.library import label_of
from flashinfer_bench.report.jobs import JobResult, solution_results
from flashinfer_bench.report.logs import log_excerpt
from flashinfer_bench.report.run import faults_for_document
from flashinfer_bench.report.scores import measures
from flashinfer_bench.report.scores.measures import KERNELBENCH, pass_at_k

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.kernelbench.samples import Candidate
    from flashinfer_bench.kernelbench.tasks import ProblemTask
    from flashinfer_bench.report.run import Fault, SkippedJob
    from flashinfer_bench.stats.intervals import Interval


_NOT_MEASURED = -1.0
"""What KernelBench writes where there is no time."""


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """How many times faster than a baseline."""

    speedup: float
    speedup_interval: Interval | None
    baseline_latency_ms: float | None


@dataclass(frozen=True, slots=True)
class SampleReport:
    """One candidate; the first block of keys is KernelBench's, times in milliseconds."""

    level: int | None
    problem_id: int | None
    sample_id: int
    compiled: bool
    correctness: bool
    runtime: float
    runtime_stats: dict[str, Any]
    ref_runtime: float
    ref_runtime_stats: dict[str, Any]
    metadata: dict[str, Any]

    problem: str
    path: str
    status: str
    latency_ms: float | None
    latency_interval_ms: Interval | None
    speedups: dict[str, AgainstBaseline]
    max_absolute_error: float | None
    max_relative_error: float | None
    violations: tuple[str, ...]
    notes: tuple[str, ...]
    log: str
    interpreted: bool = False


@dataclass(frozen=True, slots=True)
class BaselineReport:
    """A baseline on one problem."""

    problem: str
    name: str
    status: str
    latency_ms: float | None
    latency_interval_ms: Interval | None
    log: str


@dataclass(frozen=True, slots=True)
class ProblemReport:
    """What is known of one problem, and how its candidates were judged."""

    problem: str
    path: str
    atol: float
    rtol: float
    parameters: int
    is_random: bool
    scaled_inputs: tuple[str, ...]
    """Inputs that are what `get_inputs` made under the seed, times another factor in every call."""
    fixed_inputs: tuple[str, ...]
    """Inputs that hold the same in every call, as `get_inputs` made them under the seed."""
    is_same_in_every_call: bool
    """Whether all inputs do, so that a candidate that remembers its answer is not found out."""


@dataclass(frozen=True, slots=True)
class FastShare:
    """Which share of the samples is right and more than `threshold` times as fast as a baseline."""

    baseline: str
    threshold: float
    share: float
    surely: float
    """The same, where all of the speedup's interval lies beyond the threshold."""
    comparison: str = "speedup > threshold"


@dataclass(frozen=True, slots=True)
class EvalReport:
    """What one evaluation found."""

    hardware: str
    device: str
    seeds: tuple[int, ...]
    problems: tuple[ProblemReport, ...]
    samples: tuple[SampleReport, ...]
    baselines: tuple[BaselineReport, ...]
    fast_p: tuple[FastShare, ...]
    pass_at_k: dict[int, float]
    skipped: tuple[SkippedJob, ...] = ()
    faults: tuple[Fault, ...] = field(default=())
    log_file: str | None = None
    """All of the logs of what is not right."""


def for_document(report: EvalReport) -> EvalReport:
    """Cut logs to what a document holds of them."""

    def cut(log: str) -> str:
        return log_excerpt(log, whole=report.log_file)

    return replace(
        report,
        samples=tuple(replace(each, log=cut(each.log)) for each in report.samples),
        baselines=tuple(replace(each, log=cut(each.log)) for each in report.baselines),
        faults=faults_for_document(report.faults),
    )


EAGER, COMPILE = "eager", "compile"
_PASSED = "PASSED"
_NOT_COMPILED = "COMPILE_ERROR"
_METADATA_KEYS = {
    _NOT_COMPILED: "compilation_error",
    "RUNTIME_ERROR": "runtime_error",
    "TIMEOUT": "runtime_error",
}
_LONGEST_METADATA = 4000
_THRESHOLDS = KERNELBENCH.thresholds
"""The p of fast_p: right, and more than p times as fast as the baseline."""
_TRIES = (1, 5, 10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that left a trace: our flat result, and what the engine said of it."""

    job: JobResult
    step: Step


def problem_report(task: ProblemTask, atol: float | None, rtol: float | None) -> ProblemReport:
    """Say what is known of a problem, and the tolerances in force."""
    found = task.description
    return ProblemReport(
        problem=label_of(task.problem),
        path=str(task.problem),
        atol=found.atol if atol is None else atol,
        rtol=found.rtol if rtol is None else rtol,
        parameters=found.parameters,
        is_random=found.is_random,
        scaled_inputs=found.scaled,
        fixed_inputs=found.fixed,
        is_same_in_every_call=found.is_same_in_every_call,
    )


def sample_report(
    candidate: Candidate,
    jobs: Sequence[EndedJob],
    compiled_baseline: Sequence[EndedJob],
    baselines: Sequence[str],
    device: str,
) -> SampleReport:
    """Sum a candidate's jobs up, one for each seed of the weights; the first one's times are its times."""
    worst = next((each for each in jobs if not each.job.is_passed), jobs[0])
    first, job = jobs[0], worst.job
    is_right = all(each.job.is_passed for each in jobs)
    is_timed = is_right and first.job.is_timed
    mine, theirs = _stats(first, device) if is_timed else ({}, {})
    return SampleReport(
        level=candidate.level,
        problem_id=candidate.problem_id,
        sample_id=candidate.sample_id,
        compiled=job.status != _NOT_COMPILED,
        correctness=is_right,
        runtime=mine.get("mean", _NOT_MEASURED),
        runtime_stats=mine,
        ref_runtime=theirs.get("mean", _NOT_MEASURED),
        ref_runtime_stats=theirs,
        metadata=_metadata(job, device, trials=len(jobs)),
        problem=label_of(candidate.problem),
        path=str(candidate.path),
        status=job.status,
        latency_ms=first.job.latency_ms if is_timed else None,
        latency_interval_ms=first.job.latency_interval_ms if is_timed else None,
        speedups=_speedups(jobs, compiled_baseline, baselines) if is_timed else {},
        max_absolute_error=job.max_absolute_error,
        max_relative_error=job.max_relative_error,
        violations=tuple(dict.fromkeys(code for each in jobs for code in each.job.violations)),
        notes=tuple(dict.fromkeys(code for each in jobs for code in each.job.notes)),
        log=job.log,
        interpreted=job.interpreted,
    )


def baseline_report(
    task: ProblemTask, name: str, jobs: Sequence[EndedJob], reference: Sequence[EndedJob]
) -> BaselineReport:
    """Say how a baseline did; eager is the reference, timed beside the first candidate that passed."""
    problem = label_of(task.problem)
    if name == EAGER:
        timed = next((each.job for each in reference if each.job.reference_latency_ms), None)
        status = _PASSED if timed else "not timed: no candidate passed"
        return BaselineReport(
            problem, name, status, timed.reference_latency_ms if timed else None, None, ""
        )
    if not jobs:
        return BaselineReport(problem, name, "skipped", None, None, "")
    job = next((each.job for each in jobs if not each.job.is_passed), jobs[0].job)
    return BaselineReport(
        problem, name, job.status, job.latency_ms, job.latency_interval_ms, job.log
    )


def fast_shares(samples: Sequence[SampleReport], baselines: Sequence[str]) -> tuple[FastShare, ...]:
    """Count who is right and fast, by baseline and threshold; nothing where times mean nothing."""
    shares: list[FastShare] = []
    if any(sample.interpreted for sample in samples):
        return ()
    for baseline in baselines:
        middle = _by_problem(samples, lambda each, name=baseline: _speedup(each, name))
        lowest = _by_problem(samples, lambda each, name=baseline: _lowest(each, name))
        shares += [
            FastShare(baseline, p, fast_p(middle, p), fast_p(lowest, p)) for p in _THRESHOLDS
        ]
    return tuple(shares)


def pass_shares(samples: Sequence[SampleReport]) -> dict[int, float]:
    """Estimate pass@k for the k that there are samples for."""
    are_right = _by_problem(samples, lambda each: each.correctness)
    return {k: pass_at_k(are_right, k) for k in tries(are_right)}


def _by_problem(samples: Sequence[SampleReport], value: Any) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for sample in samples:
        grouped.setdefault(sample.problem, []).append(value(sample))
    return grouped


def _speedup(sample: SampleReport, baseline: str) -> float | None:
    found = sample.speedups.get(baseline)
    return found.speedup if found else None


def _lowest(sample: SampleReport, baseline: str) -> float | None:
    found = sample.speedups.get(baseline)
    return found.speedup_interval[0] if found and found.speedup_interval else None


def _speedups(
    jobs: Sequence[EndedJob], compiled: Sequence[EndedJob], baselines: Sequence[str]
) -> dict[str, AgainstBaseline]:
    (mine,) = solution_results(each.job for each in jobs)
    found: dict[str, AgainstBaseline] = {}
    if mine.speedup is None:
        return found
    if EAGER in baselines:
        reference_ms = jobs[0].job.reference_latency_ms
        found[EAGER] = AgainstBaseline(mine.speedup, mine.speedup_interval, reference_ms)
    if COMPILE in baselines and compiled and all(each.job.is_timed for each in compiled):
        (other,) = solution_results(each.job for each in compiled)
        if other.speedup:
            interval = _divided(mine.speedup_interval, other.speedup_interval)
            speedup = mine.speedup / other.speedup
            found[COMPILE] = AgainstBaseline(speedup, interval, other.latency_ms)
    return found


def _divided(mine: Interval | None, other: Interval | None) -> Interval | None:
    """Divide intervals so that the quotient lies inside whatever the two are: both were measured apart."""
    if mine is None or other is None or other[0] <= 0:
        return None
    return mine[0] / other[1], mine[1] / other[0]


def _stats(ended: EndedJob, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sum up raw samples as KernelBench does, of the candidate and of the reference."""
    samples = samples_of(ended.step.outcome) or {}
    about = {"hardware": ended.job.hardware, "device": device}
    return tuple(  # type: ignore[return-value]  # two of them
        _summed_up(samples.get(role, [])) | about if samples.get(role) else {}
        for role in ("solution", "reference")
    )


def _summed_up(times_ms: Sequence[float]) -> dict[str, Any]:
    return {
        "mean": statistics.fmean(times_ms),
        "std": statistics.pstdev(times_ms),
        "min": min(times_ms),
        "max": max(times_ms),
        "num_trials": len(times_ms),
    }


def _metadata(job: JobResult, device: str, *, trials: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {"hardware": job.hardware, "device": device}
    if job.is_passed:
        return metadata | {"correctness_trials": f"({trials} / {trials})"}
    said = job.log[:_LONGEST_METADATA]
    key = _METADATA_KEYS.get(job.status)
    if key is not None:
        return metadata | {key: said}
    found = {"correctness_issue": said}
    if job.max_absolute_error is not None:
        found["max_difference"] = [f"{job.max_absolute_error:.6f}"]  # type: ignore[assignment]  # a list there
    return metadata | found


def fast_p(speedups: Mapping[str, Sequence[float | None]], threshold: float) -> float:
    """Give the share of samples that are right and *more than* `threshold` times as fast, averaged over problems.

    `speedups` holds, for each problem, one entry a sample: None for one that is wrong.

    >>> fast_p({"a": [2.0, None], "b": [1.0]}, 1.0)
    0.25
    """
    return measures.fast_p(speedups, threshold, KERNELBENCH.beyond)


def tries(are_right: Mapping[str, Sequence[bool]]) -> tuple[int, ...]:
    """Choose the k for which every problem has samples enough."""
    fewest = min((len(each) for each in are_right.values()), default=0)
    return tuple(sorted({k for k in (*_TRIES, fewest) if 1 <= k <= fewest}))
