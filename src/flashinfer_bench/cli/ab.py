"""`flashinfer-bench ab`: two solutions, or two versions of a file, timed against each other."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.kernel_files import Hints
from flashinfer_bench.cli.options import (
    SHARE,
    json_option,
    kernel_options,
    log_level_option,
)
from flashinfer_bench.cli.progress import waiting_text
from flashinfer_bench.cli.running import skipped_job
from flashinfer_bench.cli.versions import find_definition, find_solution
from flashinfer_bench.errors import DatasetError, DeviceError, UsageError
from flashinfer_bench.report.ab import AbFailure, AbReport, AbWorkload, ab_page
from flashinfer_bench.report.run import Fault, SkippedJob

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Benchmark
    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.duel import Blocks, Ended, Round
    from flashinfer_bench.bench.plan import Job, Plan
    from flashinfer_bench.bench.pool import Progress
    from flashinfer_bench.bench.verdicts import Ratio
    from flashinfer_bench.data import Definition, Solution, TraceSet

_ROUNDS = 12
_ITERATIONS = 10
_WARMUP_RUNS = 5
_THRESHOLD = 0.02
_NANOSECONDS_PER_MS = 1e6
_POSITIVE = click.IntRange(min=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbOptions:
    """What the user asked for."""

    old: str
    new: str
    definition: str | None
    local: tuple[str, ...]
    device: str
    language: str | None
    entry_point: str | None
    workloads: tuple[str, ...]
    workload_class: str | None
    rounds: int
    warmup_runs: int
    iterations: int
    threshold: float
    threads: int | None
    seed: int | None
    timeout: float | None
    as_json: bool


@dataclass(slots=True)
class _Found:
    """What became of the workloads so far."""

    interpreted: tuple[str, ...] = ()
    """Which of the two run in a way whose times mean nothing."""
    seed: int = 0
    rounds: dict[str, list[Round]] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)

    def add(self, step: Round | Ended) -> None:
        from flashinfer_bench.bench.duel import Ended  # noqa: PLC0415  # pydantic

        if isinstance(step, Ended):
            self.ended.append(step)
            self.rounds.pop(step.workload.uuid, None)
        else:
            self.rounds.setdefault(step.workload.uuid, []).append(step)


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench ab rmsnorm_h4096_pytorch rmsnorm_h4096_cpp --local examples/dataset",
        "flashinfer-bench ab kernel.py@HEAD kernel.py --definition rmsnorm_h4096",
        "flashinfer-bench ab old.cpp new.cpp --definition rmsnorm_h4096 --threshold 5%",
    ],
)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@kernel_options
@click.option(
    "--rounds",
    type=_POSITIVE,
    default=_ROUNDS,
    show_default=True,
    help="Pairs of fresh processes; with fewer than six the interval does not know how processes differ.",
)
@click.option(
    "--warmup-runs",
    type=click.IntRange(min=0),
    default=_WARMUP_RUNS,
    show_default=True,
    help="Untimed calls in each round.",
)
@click.option(
    "--iterations",
    type=_POSITIVE,
    default=_ITERATIONS,
    show_default=True,
    help="Timed samples of each in a round.",
)
@click.option(
    "--threshold",
    type=SHARE,
    default=_THRESHOLD,
    show_default="2%",
    metavar="SHARE",
    help="Differences up to this count as none.",
)
@click.option("--threads", type=_POSITIVE, help="CPU threads of both.  [default: physical cores]")
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    help="Run key of the inputs.  [default: secret and random]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long each may take for a workload in a round.  [default: 300]",
)
@json_option
@log_level_option
def ab(**options: Any) -> None:
    """Time two solutions against each other in alternating blocks.

    OLD and NEW are names of solutions in the dataset, kernel files, folders with a `solution.toml`, or
    versions of a file or folder in git: `kernel.py@HEAD~1`. Both are checked against the reference;
    nothing is recorded.

    NEW is FASTER or SLOWER when the whole 95% interval of old time over new time lies beyond the
    threshold, the SAME when all of it lies within, and UNDECIDED otherwise: more --rounds narrow it.

    Exits with 0 whatever the verdict, and with 1 when one of the two is wrong.
    """
    click.get_current_context().exit(_ab(AbOptions(**options)))


def _ab(options: AbOptions) -> int:
    from flashinfer_bench.bench import Benchmark  # noqa: PLC0415  # pydantic

    trace_set = load_dataset(options.local)
    definition, old, new = _contenders(trace_set, options)
    benchmark = Benchmark(
        _scratch(trace_set, definition, old, new), _config(options), device=options.device
    )
    plan = benchmark.plan()
    found = _Found(interpreted=_interpreted(old, new, benchmark.target.kind))
    if not plan.skipped:
        _require_jobs(plan, definition)
        _measure(benchmark, plan, new, options, found)
    report = _report(options, definition, plan, found, is_same=old.hash() == new.hash())
    exit_code = _exit_code(report)
    if options.as_json:
        screen.show_json({"schema_version": 1, "exit_code": exit_code, "ab": report})
    else:
        screen.show(ab_page(report))
    return exit_code


def _contenders(trace_set: TraceSet, options: AbOptions) -> tuple[Definition, Solution, Solution]:
    """Find both, and what they implement; they are called `old` and `new` from here on."""
    from flashinfer_bench.bench.pool import device_names  # noqa: PLC0415  # pydantic

    kind = device_names(options.device)[0].partition(":")[0]
    hints = Hints(options.language, options.entry_point, kind)
    names = [options.definition]
    found: list[Solution] = []
    for text in (options.old, options.new):
        solution = find_solution(text, trace_set, options.definition, hints)
        found.append(solution)
        names.append(solution.definition)
    different = sorted({name for name in names if name is not None})
    if len(different) > 1:
        raise UsageError(f"these are of different definitions: {', '.join(different)}")
    definition = find_definition(trace_set, different[0])
    old, new = found
    return (
        definition,
        old.model_copy(update={"name": "old"}),
        new.model_copy(update={"name": "new"}),
    )


def _config(options: AbOptions) -> BenchmarkConfig:
    from flashinfer_bench.bench import BenchmarkConfig  # noqa: PLC0415  # pydantic

    given = {"timeout_seconds": options.timeout} if options.timeout is not None else {}
    return BenchmarkConfig.default(
        workloads=list(options.workloads) or None,
        workload_class=options.workload_class,
        warmup_runs=options.warmup_runs,
        iterations=options.iterations,
        num_trials=1,
        profile_baseline=False,
        threads=options.threads,
        seed=options.seed,
        **given,
    )


def _scratch(trace_set: TraceSet, definition: Definition, old: Solution, new: Solution) -> TraceSet:
    """Make a trace set of these two; it reads files of the dataset and writes none."""
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # pydantic

    workloads = trace_set.workloads.get(definition.name, [])
    if not workloads:
        raise UsageError(f"{definition.name} has no workloads to time on")
    scratch = TraceSet(
        trace_set.root,
        {definition.name: definition},
        {definition.name: [old, new]},
        {definition.name: list(workloads)},
    )
    scratch.roots = trace_set.roots
    return scratch


def _require_jobs(plan: Plan, definition: Definition) -> None:
    if not plan.jobs:
        raise UsageError(
            f"none of the selected workloads of {definition.name} is of class "
            f"{plan.workload_class!r}; --workload-class all takes every one"
        )


def _interpreted(old: Solution, new: Solution, device_kind: str) -> tuple[str, ...]:
    from flashinfer_bench.bench.plan import is_stand_in  # noqa: PLC0415  # pydantic

    return tuple(each.name for each in (old, new) if is_stand_in(each, device_kind))


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


def _measure(
    benchmark: Benchmark, plan: Plan, new: Solution, options: AbOptions, found: _Found
) -> None:
    """Run all rounds on one device; one is enough where times mean nothing."""
    from flashinfer_bench.bench.duel import duel  # noqa: PLC0415  # pydantic
    from flashinfer_bench.bench.pool import LocalPool  # noqa: PLC0415  # pydantic

    jobs = _jobs(plan)
    rounds = 1 if found.interpreted else options.rounds
    pool = LocalPool(
        benchmark.devices[:1],
        config=benchmark.config,
        roots=benchmark.get_trace_set().roots,
        threads=benchmark.target.threads,
    )
    found.seed = pool.key
    ticker = _Ticker(rounds * len(jobs))
    try:
        for step in duel(jobs, new, pool, rounds=rounds, observe=ticker.observe):
            found.add(step)
            ticker.count()
    finally:
        ticker.wipe()
        pool.close()


class _Ticker:
    """One line on a terminal's stderr that says how far it is."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._is_shown = screen.has_live_stderr() and not log.is_quiet(click.get_current_context())

    def observe(self, event: Progress) -> None:
        """Say what waits, or what runs."""
        from flashinfer_bench.bench.pool import Started, Waiting  # noqa: PLC0415  # pydantic

        match event:
            case Waiting(device=device):
                log.inform(waiting_text(device))
            case Started(job=job) if self._is_shown:
                axes = ", ".join(f"{name}={size}" for name, size in job.workload.axes.items())
                click.echo(f"\r\x1b[K{self._done}/{self._total} {axes}", nl=False, err=True)
            case Started():
                pass

    def count(self) -> None:
        """A job is done."""
        self._done += 1

    def wipe(self) -> None:
        """Leave nothing behind."""
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def _report(
    options: AbOptions,
    definition: Definition,
    plan: Plan,
    found: _Found,
    *,
    is_same: bool,
) -> AbReport:
    from flashinfer_bench.bench.verdicts import Verdict, overall, ratio_of  # noqa: PLC0415  # pydantic

    threshold = options.threshold
    ratios = [
        ratio_of([each.ratios for each in rounds], threshold=threshold)
        for rounds in found.rounds.values()
    ]
    whole = overall(ratios, threshold=threshold)
    if found.interpreted:
        ratios = [replace(ratio, verdict=Verdict.UNDECIDED) for ratio in ratios]
        whole = replace(whole, verdict=Verdict.UNDECIDED)
    every = [each for rounds in found.rounds.values() for each in rounds]
    return AbReport(
        old=options.old,
        new=options.new,
        is_same_code=is_same,
        definition=definition.name,
        hardware=every[0].hardware if every else "",
        threshold=threshold,
        remarks=(*_remarks(found), *plan.warnings),
        rounds=max(map(len, found.rounds.values()), default=options.rounds),
        iterations=sum(map(len, every[0].old_ns)) if every else options.iterations,
        warmup_runs=options.warmup_runs,
        seed=f"{found.seed:016x}",
        workloads=tuple(
            _workload(rounds, ratio)
            for rounds, ratio in zip(found.rounds.values(), ratios, strict=True)
        ),
        overall_ratio=whole.value,
        overall_interval=whole.interval,
        overall_verdict=whole.verdict.value,
        failures=tuple(_failures(found)),
        skipped=(*(skipped_job(job, reason) for job, reason in plan.skipped), *_skipped(found)),
        dataset_faults=tuple(_faults(found, definition)),
    )


def _remarks(found: _Found) -> list[str]:
    return [
        f"the {name} one is interpreted here: its times mean nothing, so there is no verdict"
        for name in found.interpreted
    ]


def _workload(rounds: list[Round], ratio: Ratio) -> AbWorkload:
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
    )


def _median_ms(rounds: list[Blocks]) -> float:
    samples = [sample for blocks in rounds for block in blocks for sample in block]
    return statistics.median(samples) / _NANOSECONDS_PER_MS


def _failures(found: _Found) -> list[AbFailure]:
    from flashinfer_bench.bench.record import status_and_log  # noqa: PLC0415  # pydantic

    failures = []
    for each in found.ended:
        status, said = status_and_log(each.outcome)
        if status is not None:
            axes = dict(each.workload.axes)
            failures.append(AbFailure(each.whose, each.workload.uuid, axes, status.value, said))
    return failures


def _skipped(found: _Found) -> list[SkippedJob]:
    from flashinfer_bench.bench.outcomes import Skipped  # noqa: PLC0415  # pydantic

    return [
        SkippedJob("", each.whose, each.workload.uuid, each.outcome.reason)
        for each in found.ended
        if isinstance(each.outcome, Skipped)
    ]


def _faults(found: _Found, definition: Definition) -> list[Fault]:
    from flashinfer_bench.bench.outcomes import DatasetFault  # noqa: PLC0415  # pydantic

    return [
        Fault(definition.name, each.workload.uuid, each.outcome.explanation)
        for each in found.ended
        if isinstance(each.outcome, DatasetFault)
    ]


def _exit_code(report: AbReport) -> int:
    if report.dataset_faults:
        return DatasetError.exit_code
    if report.failures:
        return 1
    return 0 if report.workloads else DeviceError.exit_code
