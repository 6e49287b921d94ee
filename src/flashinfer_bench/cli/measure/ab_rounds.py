"""The rounds of `ab`: played on one device, with a line on a terminal that says how far they are; then summed up."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.measure.kept_logs import keep_logs
from flashinfer_bench.cli.measure.progress import waiting_text
from flashinfer_bench.cli.measure.running import skipped_job
from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.ab import AbFailure, AbReport, AbWorkload
from flashinfer_bench.report.failures import failure_of
from flashinfer_bench.report.run import Fault, SkippedJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.benchmark import Benchmark
    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.bench.plan import Plan
    from flashinfer_bench.bench.tools.ab import Blocks, Ended, Limits, Round
    from flashinfer_bench.data import Definition, Solution
    from flashinfer_bench.stats.verdicts import Ratio

_NANOSECONDS_PER_MS = 1e6


@dataclass(slots=True)
class AbOutcomes:
    """What became of the workloads so far."""

    interpreted: tuple[str, ...] = ()
    """Which of the two run in a way whose times mean nothing."""
    seed: int = 0
    rounds: dict[str, list[Round]] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)

    def add(self, step: Round | Ended) -> None:
        """Keep a round; a workload that ended has none."""
        from flashinfer_bench.bench.tools.ab import Ended  # noqa: PLC0415  # pydantic

        if isinstance(step, Ended):
            self.ended.append(step)
            self.rounds.pop(step.workload.uuid, None)
        else:
            self.rounds.setdefault(step.workload.uuid, []).append(step)


def play(
    benchmark: Benchmark, plan: Plan, new: Solution, limits: Limits, found: AbOutcomes
) -> None:
    """Run all rounds on one device; one is enough where times mean nothing."""
    from flashinfer_bench.bench.parent.pool import LocalPool  # noqa: PLC0415  # pydantic
    from flashinfer_bench.bench.tools.ab import Limits, run_ab  # noqa: PLC0415  # pydantic

    jobs = _jobs(plan)
    if found.interpreted:
        limits = Limits(1)
    pool = LocalPool(
        benchmark.devices[:1],
        config=benchmark.config,
        roots=benchmark.get_trace_set().roots,
        threads=benchmark.target.threads,
    )
    found.seed = pool.key
    ticker = _Ticker(limits.rounds * len(jobs))
    try:
        for step in run_ab(jobs, new, pool, limits=limits, observe=ticker.observe):
            found.add(step)
            ticker.count()
    finally:
        ticker.wipe()
        pool.close()


def _jobs(plan: Plan) -> list[Job]:
    """Take the jobs of the old one, with as few samples as either of the two is to have."""
    configs = {job.workload.uuid: job.config for job in plan.jobs if job.solution.name == "new"}
    return [
        replace(
            job,
            config=min(job.config, configs[job.workload.uuid], key=lambda each: each.iterations),
        )
        for job in plan.jobs
        if job.solution.name == "old"
    ]


class _Ticker:
    """One line on a terminal's stderr that says how far it is."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._is_shown = screen.has_live_stderr() and not log.is_quiet(click.get_current_context())

    def observe(self, event: Progress) -> None:
        """Say what waits, or what runs."""
        from flashinfer_bench.bench.parent.events import (  # noqa: PLC0415  # pydantic
            Building,
            Lost,
            Reached,
            Started,
            Waiting,
        )

        match event:
            case Waiting(device=device, holder=holder):
                log.inform(waiting_text(device, holder))
            case Started(job=job) if self._is_shown:
                axes = axes_text(job.workload.axes, none="")
                click.echo(f"\r\x1b[K{self._done}/{self._total} {axes}", nl=False, err=True)
            case Started() | Building() | Reached() | Lost():
                pass

    def count(self) -> None:
        """A job is done."""
        self._done += 1

    def wipe(self) -> None:
        """Leave nothing behind."""
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was compared, and how."""

    old: str
    new: str
    is_same_code: bool
    threshold: float
    iterations: int
    warmup_runs: int
    limits: Limits


def ab_report(
    question: Question, definition: Definition, plan: Plan, found: AbOutcomes
) -> AbReport:
    """Sum the rounds up; without a verdict where times mean nothing."""
    from flashinfer_bench.stats.verdicts import Verdict, overall, ratio_of  # noqa: PLC0415  # pydantic

    threshold = question.threshold
    ratios = [
        ratio_of([each.ratios for each in rounds], threshold=threshold)
        for rounds in found.rounds.values()
    ]
    whole = overall(ratios, threshold=threshold)
    if found.interpreted:
        ratios = [replace(ratio, verdict=Verdict.UNDECIDED) for ratio in ratios]
        whole = replace(whole, verdict=Verdict.UNDECIDED)
    failures = tuple(_failures(found))
    every = [each for rounds in found.rounds.values() for each in rounds]
    return AbReport(
        old=question.old,
        new=question.new,
        is_same_code=question.is_same_code,
        definition=definition.name,
        hardware=every[0].hardware if every else "",
        threshold=threshold,
        remarks=(*_remarks(found), *plan.warnings),
        rounds=max(map(len, found.rounds.values()), default=question.limits.rounds),
        iterations=sum(map(len, every[0].old_ns)) if every else question.iterations,
        warmup_runs=question.warmup_runs,
        seed=f"{found.seed:016x}",
        workloads=tuple(
            _workload(rounds, ratio, question.limits)
            for rounds, ratio in zip(found.rounds.values(), ratios, strict=True)
        ),
        overall_ratio=whole.value,
        overall_interval=whole.interval,
        overall_verdict=whole.verdict.value,
        failures=failures,
        skipped=(*(skipped_job(job, reason) for job, reason in plan.skipped), *_skipped(found)),
        dataset_faults=tuple(_faults(found, definition)),
        log_file=_keep_logs(failures, question),
    )


def _keep_logs(failures: Sequence[AbFailure], question: Question) -> str | None:
    """Write the logs to a file, one for each pair that is compared; None where both were right."""
    logs = [
        (f"{each.whose}: {each.status} with {axes_text(each.axes)}", each.log) for each in failures
    ]
    return keep_logs("ab", f"{question.old}\n{question.new}", logs)


def _remarks(found: AbOutcomes) -> list[str]:
    return [
        f"the {name} one is interpreted here: its times mean nothing, so there is no verdict"
        for name in found.interpreted
    ]


def _workload(rounds: list[Round], ratio: Ratio, limits: Limits) -> AbWorkload:
    first = rounds[0]
    return AbWorkload(
        workload=first.workload.uuid,
        axes=dict(first.workload.axes),
        old_latency_ms=_median_ms([each.old_ns for each in rounds]),
        new_latency_ms=_median_ms([each.new_ns for each in rounds]),
        ratio=ratio.value,
        interval=ratio.interval,
        verdict=ratio.verdict.value,
        old_max_absolute_error=max(each.old_errors.max_absolute for each in rounds),
        new_max_absolute_error=max(each.new_errors.max_absolute for each in rounds),
        rounds=len(rounds),
        blocks=sum(len(each.old_ns) for each in rounds),
        calls_per_sample=first.calls_per_sample,
        stopped_by=limits.reason_to_stop(rounds) or "iterations",
    )


def _median_ms(rounds: list[Blocks]) -> float:
    samples = [sample for blocks in rounds for block in blocks for sample in block]
    return statistics.median(samples) / _NANOSECONDS_PER_MS


def _failures(found: AbOutcomes) -> list[AbFailure]:
    from flashinfer_bench.bench.record import (  # noqa: PLC0415  # pydantic
        status_and_log,
        violations_of,
    )

    failures = []
    for each in found.ended:
        status, said = status_and_log(each.outcome)
        if status is not None:
            axes = dict(each.workload.axes)
            violations = tuple(violations_of(each.outcome))
            failures.append(
                AbFailure(
                    each.whose,
                    each.workload.uuid,
                    axes,
                    status.value,
                    said,
                    violations,
                    failure_of(status.value, said, violations),
                )
            )
    return failures


def _skipped(found: AbOutcomes) -> list[SkippedJob]:
    from flashinfer_bench.bench.outcomes import Skipped  # noqa: PLC0415  # pydantic

    return [
        SkippedJob("", each.whose, each.workload.uuid, each.outcome.reason)
        for each in found.ended
        if isinstance(each.outcome, Skipped)
    ]


def _faults(found: AbOutcomes, definition: Definition) -> list[Fault]:
    from flashinfer_bench.bench.outcomes import DatasetFault  # noqa: PLC0415  # pydantic

    return [
        Fault(definition.name, each.workload.uuid, each.outcome.explanation)
        for each in found.ended
        if isinstance(each.outcome, DatasetFault)
    ]
