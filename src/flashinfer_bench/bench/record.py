"""A job and how it ended become a line of the record."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench.outcomes import (
    Crashed,
    DatasetFault,
    Misshapen,
    NotBuilt,
    OpponentFailed,
    Outcome,
    Passed,
    Skipped,
    TimedOut,
    Wrong,
)
from flashinfer_bench.bench.plan import is_stand_in
from flashinfer_bench.bench.several_ranks import UNCHECKED, backend_of
from flashinfer_bench.data import (
    ClockInfo,
    Correctness,
    DeviceInfo,
    EnergyInfo,
    Environment,
    Evaluation,
    EvaluationStatus,
    HotTiming,
    Note,
    Performance,
    Provenance,
    RanksInfo,
    RunInfo,
    StoppingInfo,
    Trace,
)
from flashinfer_bench.data.exchange.hub import commit_of
from flashinfer_bench.stats import blocks as spread
from flashinfer_bench.stats.intervals import median_ratio, series_interval
from flashinfer_bench.tensors import machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flashinfer_bench.bench import outcomes
    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.outcomes import Energy, Errors, Samples
    from flashinfer_bench.bench.parent.pool import FinishedJob
    from flashinfer_bench.bench.protocol import Opened

_NANOSECONDS_PER_MS = 1e6
_LOG_END_CHARACTERS = 40_000


@dataclass(frozen=True, slots=True)
class Run:
    """What all traces of one run share."""

    id: str
    threads: int
    label: str | None = None
    dataset_revision: str | None = None
    solution_commit: str | None = None
    is_dirty: bool | None = None


def begin_run(
    *,
    threads: int,
    label: str | None,
    root: Path | None,
    roots: Sequence[Path] = (),
) -> Run:
    """Give a run its identity, and look up the git state, or the revision on the hub, of the dataset it reads."""
    commit, is_dirty = _git_state(root)
    return Run(
        uuid.uuid4().hex,
        threads,
        label,
        dataset_revision=next(filter(None, map(commit_of, roots)), commit),
        solution_commit=commit,
        is_dirty=is_dirty,
    )


def record(finished: FinishedJob, run: Run, *, is_strict: bool = False) -> Trace | None:
    """Return the trace of a finished job; `None` where nothing is to be recorded.

    `is_strict` turns notes into failures.
    """
    job, outcome = finished.job, finished.outcome
    environment = _environment(finished, run)
    provenance = _provenance(finished, run)
    evaluation = _evaluation(outcome, finished.device, environment, provenance)
    if evaluation is None:
        return None
    if evaluation.performance is not None:
        ranks, clock = _ranks(job, finished.device), evaluation.performance.clock
        if ranks is not None and clock is not None:
            version = finished.device.clock_version_of_ranks
            clock = clock.model_copy(update={"version": version})
        known = {
            "build_ms": finished.build_ms,
            "launch": _launch(job),
            "ranks": ranks,
            "clock": clock,
        }
        performance = evaluation.performance.model_copy(update=known)
        evaluation = evaluation.model_copy(update={"performance": performance})
    if is_strict and evaluation.notes and evaluation.status is EvaluationStatus.PASSED:
        evaluation = _failed_by_notes(evaluation)
    return Trace(
        definition=job.definition.name,
        workload=job.workload,
        solution=job.solution.name,
        evaluation=evaluation,
    )


def _launch(job: Job) -> str | None:
    return "graph" if job.config.launch == "graph" else None


def _ranks(job: Job, device: Opened) -> RanksInfo | None:
    """Say how many ranks there were, and what is not looked at in such a job."""
    if job.definition.world_size is None:
        return None
    return RanksInfo(
        world_size=job.definition.world_size,
        backend=backend_of("cpu" if device.cuda is None else "cuda"),
        unchecked=list(UNCHECKED),
    )


def samples_of(outcome: Outcome) -> dict[str, list[float]] | None:
    """Return the raw samples of a passed job in milliseconds, by participant."""
    if not isinstance(outcome, Passed):
        return None
    by_role = _by_role(outcome.samples)
    found = {role: _flat_ms(samples) for role, samples in by_role.items()}
    hot = _by_role(outcome.hot_samples)
    return found | {f"{role}_hot": _flat_ms(samples) for role, samples in hot.items()}


def status_and_log(outcome: Outcome) -> tuple[EvaluationStatus | None, str]:
    """Say what an outcome would be called on disk, and its log; no status where it leaves no trace."""
    status, log, _ = _parts(outcome)
    return status, _capped(log)


def violations_of(outcome: Outcome) -> list[str]:
    """Name the rules a solution broke."""
    return [each.code for each in outcome.violations] if isinstance(outcome, Wrong) else []


def _evaluation(
    outcome: Outcome, device: Opened, environment: Environment, provenance: Provenance
) -> Evaluation | None:
    status, log, parts = _parts(outcome)
    if status is None:
        return None
    if isinstance(outcome, Passed):
        parts["performance"] = _performance(outcome, device)
    return Evaluation(
        status=status,
        environment=environment,
        timestamp=datetime.now(UTC).isoformat(),
        log=_capped(log),
        provenance=provenance,
        **parts,
    )


def _parts(outcome: Outcome) -> tuple[EvaluationStatus | None, str, dict[str, Any]]:
    """Say what an outcome is called on disk, its log, and what else it carries but how fast it was."""
    match outcome:
        case Passed():
            parts = {
                "correctness": _correctness(outcome.errors),
                "notes": _notes(outcome.notes),
                "task_notes": _notes(outcome.task_notes or ()),
            }
            return EvaluationStatus.PASSED, outcome.log, parts
        case Wrong():
            correctness = _correctness(outcome.errors, outcome.violations)
            parts = {"correctness": correctness, "notes": _notes(outcome.notes)}
            violations = _violations_text(outcome.violations)
            text = _joined(violations, outcome.explanation, outcome.log)
            return EvaluationStatus.INCORRECT_NUMERICAL, text, parts
        case Misshapen(kind="shape", explanation=explanation, log=log):
            return EvaluationStatus.INCORRECT_SHAPE, _joined(explanation, log), {}
        case Misshapen(explanation=explanation, log=log):
            return EvaluationStatus.INCORRECT_DTYPE, _joined(explanation, log), {}
        case Crashed(explanation=explanation, log=log):
            return EvaluationStatus.RUNTIME_ERROR, _joined(explanation, log), {}
        case TimedOut(explanation=explanation, log=log):
            return EvaluationStatus.TIMEOUT, _joined(explanation, log), {}
        case NotBuilt(explanation=explanation, log=log):
            return EvaluationStatus.COMPILE_ERROR, _joined(explanation, log), {}
        case Skipped() | DatasetFault() | OpponentFailed():
            return None, "", {}


def _correctness(errors: Errors, violations: Sequence[outcomes.JobNote] = ()) -> Correctness:
    extra: dict[str, Any] = dict(errors.extra)
    if errors.matched_ratio < 1.0 or "matched_ratio" in extra:
        extra["matched_ratio"] = errors.matched_ratio
    if errors.precision is not None:
        extra["precision"] = errors.precision
    if violations:
        extra["violations"] = [{"code": v.code, "evidence": v.evidence} for v in violations]
    return Correctness(
        max_relative_error=errors.max_relative,
        max_absolute_error=errors.max_absolute,
        extra=extra or None,
        bitwise_repeatable=errors.is_repeatable,
    )


def _performance(result: Passed, device: Opened) -> Performance:
    by_role = _by_role(result.samples)
    solution, reference = by_role["solution"], by_role.get("reference")
    samples_ms = _flat_ms(solution)
    middles_ms = _block_medians_ms(solution)
    roofline = result.roofline
    return Performance(
        latency_ms=statistics.median(samples_ms),
        latency_interval_ms=series_interval(middles_ms),
        quartiles_ms=spread.quartiles(samples_ms),
        sample_count=len(samples_ms),
        noise=spread.noise(samples_ms),
        clock=ClockInfo(
            name=device.clock,
            version=device.clock_version,
            overhead_ns=device.clock_overhead_ns,
            calls_per_sample=solution.calls_per_sample,
            reference_calls_per_sample=None if reference is None else reference.calls_per_sample,
        ),
        latency_kind=device.latency_kind,
        is_cold=device.is_cold,
        block_count=len(solution.blocks_ns),
        stopping=StoppingInfo(rule=result.stopping_rule, reason=result.stopped_by),
        interval_scope="one_process",
        peak_memory_bytes=result.peak_memory_bytes,
        host_overhead_ms=(
            None if solution.host_ns is None else solution.host_ns / _NANOSECONDS_PER_MS
        ),
        unaccounted_ms=(
            None if result.unaccounted_ns is None else result.unaccounted_ns / _NANOSECONDS_PER_MS
        ),
        prepare_ms=result.prepare_ms,
        plan_ms=result.plan_ms,
        bytes_moved=result.bytes_moved if roofline is None else roofline.bytes_moved,
        flops=None if roofline is None else roofline.flops,
        sol_fraction=None if roofline is None else roofline.sol_fraction,
        ceilings=None if roofline is None else roofline.ceilings,
        blocks_discarded=result.machine.blocks_discarded,
        blocks_begun_again=result.machine.begun_again or None,
        conditions=result.machine.gauges or None,
        blocks_disturbed=result.machine.disturbed or None,
        launches_per_call=solution.launches,
        hot=_hot(result.hot_samples),
        energy=_energy(result.energy),
        **_against_reference(solution, reference),
    )


def _hot(samples: Sequence[Samples]) -> HotTiming | None:
    if not samples:
        return None
    by_role = _by_role(samples)
    solution = by_role["solution"]
    samples_ms = _flat_ms(solution)
    return HotTiming(
        latency_ms=statistics.median(samples_ms),
        latency_interval_ms=series_interval(_block_medians_ms(solution)),
        sample_count=len(samples_ms),
        block_count=len(solution.blocks_ns),
        calls_per_sample=solution.calls_per_sample,
        **_against_reference(solution, by_role.get("reference")),
    )


def _energy(found: Energy | None) -> EnergyInfo | None:
    if found is None:
        return None
    if found.missing is not None:
        return EnergyInfo(missing=found.missing)
    return EnergyInfo(
        source=found.source,
        call_mj=found.call_mj,
        call_interval_mj=series_interval(found.segments_mj),
        power_w=found.power_w,
        call_ms=found.call_ns / _NANOSECONDS_PER_MS,
        seconds=found.seconds,
    )


def _against_reference(solution: Samples, reference: Samples | None) -> dict[str, Any]:
    if reference is None:
        return {}
    ratios = spread.block_ratios(reference.blocks_ns, solution.blocks_ns)
    return {
        "reference_latency_ms": statistics.median(_flat_ms(reference)),
        "reference_interval_ms": series_interval(_block_medians_ms(reference)),
        "speedup_factor": median_ratio(ratios) if ratios else None,
        "speedup_interval": series_interval(ratios),
    }


def _by_role(samples: Sequence[Samples]) -> Mapping[str, Samples]:
    return {"reference" if each.is_reference else "solution": each for each in samples}


def _flat_ms(samples: Samples) -> list[float]:
    flat = itertools.chain.from_iterable(samples.blocks_ns)
    return [value / _NANOSECONDS_PER_MS for value in flat]


def _block_medians_ms(samples: Samples) -> list[float]:
    return [statistics.median(block) / _NANOSECONDS_PER_MS for block in samples.blocks_ns if block]


def _environment(finished: FinishedJob, run: Run) -> Environment:
    opened, target = finished.device, finished.job.target
    libs = opened.libs | dict(finished.packages or machine.package_versions())
    return Environment(
        hardware=opened.hardware,
        libs=libs,
        device=DeviceInfo(
            uuid=opened.uuid, name=opened.hardware, driver=opened.driver, cuda=opened.cuda
        ),
        threads=run.threads if target is None else target.threads,
        calibration=opened.calibration,
        locked_clock_mhz=opened.locked_clock_mhz,
    )


def _provenance(finished: FinishedJob, run: Run) -> Provenance:
    job, device = finished.job, finished.device
    return Provenance(
        trace_id=uuid.uuid4().hex,
        solution_hash=job.solution.hash(),
        definition_hash=job.definition.hash(),
        config_hash=job.config_hash,
        settings=job.config.model_dump(mode="json", exclude_defaults=True),
        seed=f"{finished.attempt.key:016x}",
        seed_given=finished.attempt.follows_seed,
        attempt=finished.attempt.number,
        run=RunInfo(
            id=run.id, label=run.label, solution_commit=run.solution_commit, dirty=run.is_dirty
        ),
        dataset_revision=run.dataset_revision,
        sandbox=finished.sandbox.name,
        sandbox_missing=[each.measure for each in finished.sandbox.missing] or None,
        late_inputs=device.rewrites_late and job.definition.world_size is None,
        interpreted=is_stand_in(job.solution, "cpu" if device.cuda is None else "cuda"),
    )


def _failed_by_notes(evaluation: Evaluation) -> Evaluation:
    codes = ", ".join(note.code for note in evaluation.notes)
    return evaluation.model_copy(
        update={
            "status": EvaluationStatus.INCORRECT_NUMERICAL,
            "performance": None,
            "log": _joined(f"notes count as failures here: {codes}", evaluation.log),
        }
    )


def _notes(notes: Sequence[outcomes.JobNote]) -> list[Note]:
    return [Note(code=note.code, evidence=note.evidence) for note in notes]


def _violations_text(violations: Sequence[outcomes.JobNote]) -> str:
    return "\n".join(f"violation {v.code}: {v.evidence}" for v in violations)


def _joined(*texts: str) -> str:
    return "\n".join(text.rstrip() for text in texts if text.strip())


def _capped(log: str) -> str:
    """Keep both ends: an exception's text may be as long as its author likes."""
    surplus = len(log) - 2 * _LOG_END_CHARACTERS
    if surplus <= 0:
        return log
    cut = f"\n[… {surplus} characters left out …]\n"
    return log[:_LOG_END_CHARACTERS] + cut + log[-_LOG_END_CHARACTERS:]


def _git_state(root: Path | None) -> tuple[str | None, bool | None]:
    """Return commit and dirtiness of the repository a folder is in; nothing where there is none."""
    if root is None:
        return None, None
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--", ".") if commit else None
    return commit, None if changes is None else bool(changes)


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
