"""`flashinfer-bench ab`: two solutions, or two versions of a file, timed against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import find_definition, load_dataset
from flashinfer_bench.cli.measure.ab_rounds import AbOutcomes, Question, ab_report, play
from flashinfer_bench.cli.measure.kernel_files import hints_of
from flashinfer_bench.cli.measure.running import plan_of, scratch_set, warn_of_faults
from flashinfer_bench.cli.measure.versions import find_solution
from flashinfer_bench.cli.options import SHARE, json_option, kernel_options, log_level_option
from flashinfer_bench.cli.setting_options import setting_options
from flashinfer_bench.errors import DatasetError, DeviceError, UsageError
from flashinfer_bench.report.ab import AbReport, ab_page, for_document

if TYPE_CHECKING:
    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.tools.ab import Limits
    from flashinfer_bench.data import Definition, Solution, TraceSet

_ROUNDS = 12
_COUNTS: dict[str, Any] = {"warmup_runs": 5, "iterations": 10}
_HELPS = {
    "until_interval": "Go on until the ratio's 95% interval is no wider than this, such as 1%.",
    "warmup_runs": "Untimed calls in each round.",
    "iterations": "Timed samples of each in a round.",
    "timeout_seconds": "How long each may take for a workload in a round.",
}
_STOPPING = ("until_interval", "time_budget_seconds")
_OTHERS = (
    *("threads", "seed", "timeout_seconds", "arch"),
    *("clock", "cache", "launch", "lock_clocks", "sandbox"),
)
_THRESHOLD = 0.02
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
    settings: dict[str, Any]
    rounds: int
    threshold: float
    as_json: bool


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench ab rmsnorm_h4096_pytorch rmsnorm_h4096_cpp --local examples/dataset",
        "flashinfer-bench ab kernel.py@HEAD kernel.py --definition rmsnorm_h4096",
        "flashinfer-bench ab old.cpp new.cpp --definition rmsnorm_h4096 --threshold 5%",
        "flashinfer-bench ab old.cpp new.cpp --definition rmsnorm_h4096 --until-interval 2% --time-budget 60s",
    ],
)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@kernel_options
@setting_options("workloads", "workload_class")
@click.option(
    "--rounds",
    type=_POSITIVE,
    default=_ROUNDS,
    show_default=True,
    help="Pairs of fresh processes; with fewer than six the interval leaves out how processes differ.",
)
@setting_options(*_STOPPING, *_COUNTS, helps=_HELPS, **_COUNTS)
@click.option(
    "--threshold",
    type=SHARE,
    default=_THRESHOLD,
    metavar="SHARE",
    help="Treat differences up to this as equal.  [default: 2%]",
)
@setting_options(*_OTHERS, helps=_HELPS)
@json_option
@log_level_option
def ab(**options: Any) -> None:
    """Time two solutions against each other in alternating blocks.

    OLD and NEW are names of solutions in the dataset, kernel files, folders with a `solution.toml`, or
    versions of a file or folder in git: `kernel.py@HEAD~1`. Both are checked against the reference;
    nothing is recorded.

    The ratio is old time over new time, with a 95% interval. NEW is FASTER or SLOWER when the whole interval
    lies beyond the threshold, the SAME when all of it lies within, and UNDECIDED otherwise. More --rounds
    narrow the interval; --until-interval runs as many as that takes, five times --rounds at most.

    Exits with 0 whatever the verdict, and with 1 when one of the two is wrong.
    """
    click.get_current_context().exit(_ab(AbOptions(**options)))


def _ab(options: AbOptions) -> int:
    from flashinfer_bench.bench import Benchmark  # noqa: PLC0415  # pydantic

    trace_set = load_dataset(options.local)
    definition, old, new = _contenders(trace_set, options)
    benchmark = Benchmark(
        scratch_set(trace_set, definition, old, new), _config(options), device=options.device
    )
    plan = plan_of(benchmark, definition)
    found = AbOutcomes(interpreted=_interpreted(old, new, benchmark.target.kind))
    question = _question(options, is_same_code=old.hash() == new.hash())
    if not plan.skipped:
        play(benchmark, plan, new, question.limits, found)
    report = ab_report(question, definition, plan, found)
    exit_code = _exit_code(report)
    if options.as_json:
        warn_of_faults(report.dataset_faults)
        screen.show_json({"schema_version": 1, "exit_code": exit_code, "ab": for_document(report)})
    else:
        screen.show(ab_page(report))
    return exit_code


def _question(options: AbOptions, *, is_same_code: bool) -> Question:
    return Question(
        old=options.old,
        new=options.new,
        is_same_code=is_same_code,
        threshold=options.threshold,
        iterations=options.settings["iterations"],
        warmup_runs=options.settings["warmup_runs"],
        limits=_limits(options),
    )


def _limits(options: AbOptions) -> Limits:
    from flashinfer_bench.bench.tools.ab import Limits  # noqa: PLC0415  # pydantic

    return Limits(options.rounds, *(options.settings.get(name) for name in _STOPPING))


def _contenders(trace_set: TraceSet, options: AbOptions) -> tuple[Definition, Solution, Solution]:
    """Find both, and what they implement; they are called `old` and `new` from here on."""
    hints = hints_of(options.language, options.entry_point, options.device)
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

    settings = {name: each for name, each in options.settings.items() if name not in _STOPPING}
    if settings.get("cache") == "both":
        raise UsageError("ab compares times of one kind: run it twice, with --cache cold and hot")
    return BenchmarkConfig.default(num_trials=1, profile_baseline=False, **settings)


def _interpreted(old: Solution, new: Solution, device_kind: str) -> tuple[str, ...]:
    from flashinfer_bench.bench.plan import is_stand_in  # noqa: PLC0415  # pydantic

    return tuple(each.name for each in (old, new) if is_stand_in(each, device_kind))


def _exit_code(report: AbReport) -> int:
    if report.dataset_faults:
        return DatasetError.exit_code
    if report.failures:
        return 1
    return 0 if report.workloads else DeviceError.exit_code
