"""`flashinfer-bench check`: build, judge and time one kernel file without touching a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import find_definition, load_dataset
from flashinfer_bench.cli.measure.kernel_files import hints_of, solution_from
from flashinfer_bench.cli.measure.progress import Lines, choose_view
from flashinfer_bench.cli.measure.running import (
    Collected,
    exit_code_of,
    measure,
    plan_of,
    scratch_set,
)
from flashinfer_bench.cli.options import (
    json_option,
    kernel_options,
    log_level_option,
    warn_missing_measures,
)
from flashinfer_bench.cli.setting_options import setting_options
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.check import CheckReport, check_page
from flashinfer_bench.report.run import job_counts

if TYPE_CHECKING:
    from flashinfer_bench.cli.measure.progress import ProgressView
    from flashinfer_bench.data import Definition, Solution, TraceSet

_COUNTS: dict[str, Any] = {"warmup_runs": 3, "iterations": 20, "num_trials": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What the user asked for."""

    kernel: str
    definition: str | None
    local: tuple[str, ...]
    device: str
    language: str | None
    entry_point: str | None
    settings: dict[str, Any]
    as_json: bool


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench check kernel.py --definition rmsnorm_h4096 --local examples/dataset",
        "flashinfer-bench check softmax.cpp --definition softmax_v128256 --entry-point softmax",
        "flashinfer-bench check rmsnorm.cu --definition rmsnorm_h4096 --arch sm_90",
    ],
)
@click.argument("kernel", metavar="KERNEL")
@kernel_options
@setting_options("workloads", "workload_class")
@setting_options(*_COUNTS, "arch", "clock", "cache", "sandbox", **_COUNTS)
@json_option
@log_level_option
def check(**options: Any) -> None:
    """Build, judge and time one kernel file; nothing is recorded.

    KERNEL is a Python, C++ or CUDA file (Triton and TileLang are Python that imports them), or a folder
    with a `solution.toml`. A Python function that takes the definition's inputs returns its outputs; one
    that takes inputs and outputs writes into them, as C++ and CUDA do. The settings are quick ones: good
    for an answer in seconds, not for a comparison.

    Exits with 1 when a workload did not pass.
    """
    exit_code = _check(CheckOptions(**options))
    click.get_current_context().exit(exit_code)


def _check(options: CheckOptions) -> int:
    from flashinfer_bench.bench import Benchmark, BenchmarkConfig  # noqa: PLC0415  # pydantic

    trace_set = load_dataset(options.local)
    definition, solution = _subject(trace_set, options)
    config = BenchmarkConfig.default(**options.settings)
    benchmark = Benchmark(
        scratch_set(trace_set, definition, solution), config, device=options.device
    )
    collected = Collected(plan_of(benchmark, definition))
    measure(benchmark, collected, _view(collected, options), saves=False)
    report = _report(collected, options, definition, solution)
    exit_code = exit_code_of(collected, only_compiles=config.arch is not None)
    if options.as_json:
        counts = job_counts(report.jobs, report.skipped, report.dataset_faults)
        screen.show_json({"schema_version": 1, "counts": counts, "check": report}, exit_code)
    else:
        screen.show(check_page(report))
    warn_missing_measures(collected.missing_measures)
    return exit_code


def _view(collected: Collected, options: CheckOptions) -> ProgressView:
    """Show progress where it can be wiped away; the page has a line per job anyway."""
    if options.as_json or not screen.is_terminal():
        return Lines(is_quiet=True)
    return choose_view(len(collected.plan.jobs), as_json=False)


def _report(
    collected: Collected, options: CheckOptions, definition: Definition, solution: Solution
) -> CheckReport:
    return CheckReport(
        kernel=options.kernel,
        definition=definition.name,
        language=solution.spec.language.value,
        entry_point=solution.spec.entry_point,
        calling_style="into" if solution.spec.destination_passing_style else "returns",
        num_trials=options.settings["num_trials"],
        iterations=options.settings["iterations"],
        warmup_runs=options.settings["warmup_runs"],
        jobs=tuple(collected.results),
        skipped=collected.skipped,
        dataset_faults=tuple(collected.faults.values()),
    )


def _subject(trace_set: TraceSet, options: CheckOptions) -> tuple[Definition, Solution]:
    """Read the kernel, and find what it implements."""
    path = Path(options.kernel)
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    if path.is_dir():
        return _folder_subject(trace_set, options, path)
    if options.definition is None:
        raise UsageError("name what the kernel implements with --definition NAME")
    definition = find_definition(trace_set, options.definition)
    hints = hints_of(options.language, options.entry_point, options.device)
    return definition, solution_from(path, definition, hints)


def _folder_subject(
    trace_set: TraceSet, options: CheckOptions, folder: Path
) -> tuple[Definition, Solution]:
    from flashinfer_bench.data.folders import pack  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.layout import holds_solution  # noqa: PLC0415

    if not holds_solution(folder):
        raise UsageError(f"{folder} has no solution.toml")
    if options.language is not None or options.entry_point is not None:
        raise UsageError("solution.toml says --language and --entry-point; leave them out")
    solution = pack(folder)
    if options.definition not in {None, solution.definition}:
        raise UsageError(f"{folder} implements {solution.definition}, not {options.definition}")
    return find_definition(trace_set, solution.definition), solution
