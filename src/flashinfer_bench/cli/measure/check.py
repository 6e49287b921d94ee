"""`flashinfer-bench check`: build, judge and time one kernel file without touching a dataset."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import find_definition, load_dataset
from flashinfer_bench.cli.measure.edges import try_edges
from flashinfer_bench.cli.measure.integration import ask
from flashinfer_bench.cli.measure.kept_logs import keep_logs
from flashinfer_bench.cli.measure.kernel_files import (
    defines_model,
    hints_of,
    solution_from,
    with_paths,
)
from flashinfer_bench.cli.measure.progress import Lines, LiveView
from flashinfer_bench.cli.measure.running import (
    Collected,
    exit_code_of,
    measure,
    plan_of,
    scratch_set,
    warn_of_faults,
)
from flashinfer_bench.cli.options import (
    json_option,
    kernel_options,
    log_level_option,
    warn_missing_measures,
)
from flashinfer_bench.cli.setting_options import setting_options
from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.errors import DeviceError, UsageError
from flashinfer_bench.report.check import CheckReport, check_page
from flashinfer_bench.report.edges import edges_page
from flashinfer_bench.report.integration import integration_page
from flashinfer_bench.report.jobs import for_document
from flashinfer_bench.report.run import faults_for_document, job_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.cli.measure.progress import ProgressView
    from flashinfer_bench.data import Definition, Solution, TraceSet
    from flashinfer_bench.report.jobs import JobResult

_QUICK: dict[str, Any] = {
    "warmup_runs": 3,
    "iterations": 20,
    "num_trials": 1,
    "timeout_seconds": 20,
    "build_timeout_seconds": 120,
}
_OTHERS = (
    *("rtol", "atol", "seed", "threads", "arch"),
    *("clock", "cache", "launch", "lock_clocks", "energy", "sandbox"),
)
_TIMEOUT = "TIMEOUT"
_MOST_FILES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What the user asked for."""

    kernel: str
    definition: str | None
    local: tuple[str, ...]
    device: str
    language: str | None
    entry_point: str | None
    config: str | None
    settings: dict[str, Any]
    fail_fast: bool
    keep_going: bool
    integration: bool
    edges: bool
    compiler: str
    as_json: bool


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench check kernel.py --definition rmsnorm_h4096 --local examples/dataset",
        "flashinfer-bench check softmax.cpp --definition softmax_v128256 --entry-point softmax",
        "flashinfer-bench check rmsnorm.cu --definition rmsnorm_h4096 --arch sm_90",
        "flashinfer-bench check kernel.py --definition rmsnorm_h4096 --timeout 5s --seed 1 --fail-fast",
        "flashinfer-bench check reference.py kernel.py",
        "flashinfer-bench check kernel.py --definition rmsnorm_h4096 --integration",
        "flashinfer-bench check kernel.py --definition rmsnorm_h4096 --edges",
    ],
)
@click.argument("files", nargs=-1, required=True, metavar="[REFERENCE] KERNEL")
@kernel_options
@setting_options("workloads", "workload_class")
@click.option("--config", metavar="YAML", help="Settings in a file; options override it.")
@setting_options(*_QUICK, *_OTHERS, **_QUICK)
@click.option("--fail-fast", is_flag=True, help="Stop at the first workload that does not pass.")
@click.option(
    "--keep-going", is_flag=True, help="Go on after a time-out; without it the rest is not tried."
)
@click.option(
    "--integration",
    is_flag=True,
    help="Ask instead whether the kernel goes into compiled models and CUDA graphs; it runs without a sandbox.",
)
@click.option(
    "--edges",
    is_flag=True,
    help="Try lengths of 0, 1, primes and one past a tile, and strided inputs instead; names the smallest that fails.",
)
@click.option(
    "--compiler",
    type=click.Choice(["inductor", "aot_eager"]),
    default="inductor",
    show_default=True,
    help="What --integration compiles with.",
)
@json_option
@log_level_option
def check(**options: Any) -> None:
    """Build, judge and time one kernel file; nothing is recorded.

    KERNEL is a Python, C++ or CUDA file (Triton and TileLang are Python that imports them), or a folder
    with a `solution.toml`. A Python function that takes the definition's inputs returns its outputs; one
    that takes inputs and outputs writes into them, as C++ and CUDA do. The settings are quick ones: good
    for an answer in seconds, not for a comparison. Each workload is a line on stderr as it ends;
    after a time-out the others are not tried.

    With two files no dataset is needed: the first is the reference, a function with example inputs
    (`get_inputs()` or `example_inputs()`), or a KernelBench problem (`Model`), whose candidate is `ModelNew`;
    then this is `kernelbench eval`.

    Exits with 1 when a workload or an edge case did not pass, or with `--integration` when the kernel is refused.
    """
    files: tuple[str, ...] = options.pop("files")
    if len(files) > _MOST_FILES:
        raise UsageError(
            f"give a kernel, or a reference and a kernel, not {len(files)} files: {' '.join(files)}"
        )
    asked = CheckOptions(kernel=files[-1], **options)
    exit_code = _check(asked) if len(files) == 1 else _check_against(Path(files[0]), asked)
    click.get_current_context().exit(exit_code)


def _check_against(reference: Path, options: CheckOptions) -> int:
    """Check a kernel against a file: its definition is made of it, for this check only."""
    from flashinfer_bench.cli.dataset.definition_files import definition_for  # noqa: PLC0415  # pydantic

    if options.definition is not None or options.local:
        raise UsageError("two files need no dataset; leave out --definition and --local")
    if not reference.is_file():
        raise UsageError(f"{reference}: no such file")
    if defines_model(reference):
        return _check_problem(reference, options)
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-check-") as folder:
        limit_s = _config(options).timeout_seconds
        definition = definition_for(reference, Path(folder), limit_s=limit_s)
        return _check(replace(options, definition=definition.name, local=(folder,)))


def _check_problem(reference: Path, options: CheckOptions) -> int:
    """Hand a KernelBench problem to the command that knows them, with the settings that were typed."""
    ctx = click.get_current_context()
    command: click.Command | None = ctx.find_root().command
    for name in ("kernelbench", "eval"):
        command = command.get_command(ctx, name) if isinstance(command, click.Group) else None
    if command is None:
        raise UsageError(
            f"{reference} is a KernelBench problem, and `kernelbench eval` is not here"
        )
    known = {option.name: option.opts[0] for option in command.params if option.opts}
    arguments = ["--device", options.device, *(["--json"] if options.as_json else [])]
    patience = {"timeout_seconds": options.settings["timeout_seconds"]}
    for name, value in (patience | _typed(options)).items():
        if name not in known:
            raise UsageError(f"a KernelBench problem is checked without --{name.replace('_', '-')}")
        arguments += [known[name], str(value)]
    called = [str(reference), options.kernel, *arguments]
    return int(command.main(called, "kernelbench eval", standalone_mode=False) or 0)


def _check(options: CheckOptions) -> int:
    from flashinfer_bench.bench import Benchmark  # noqa: PLC0415  # pydantic

    trace_set = load_dataset(options.local)
    definition, solution = _subject(trace_set, options)
    if options.integration:
        return _integration(trace_set, solution, options)
    config = _config(options)
    if options.edges:
        return _edges(trace_set, definition, solution, options)
    benchmark = Benchmark(
        scratch_set(trace_set, definition, solution), config, device=options.device
    )
    named = partial(with_paths, kernel=Path(options.kernel), solution=solution)
    collected = Collected(plan_of(benchmark, definition), retell=named)
    view = _view(collected, options)
    measure(benchmark, collected, view, stops_at=partial(_is_end, options))
    report = _report(collected, options, config, solution)
    exit_code = exit_code_of(collected, only_compiles=config.arch is not None)
    if options.as_json:
        warn_of_faults(report.dataset_faults)
        counts = job_counts(report.jobs, report.skipped, report.dataset_faults)
        told = replace(
            report,
            jobs=for_document(report.jobs, log_file=report.log_file),
            dataset_faults=faults_for_document(report.dataset_faults),
        )
        screen.show_json({"schema_version": 1, "counts": counts, "check": told}, exit_code)
    else:
        screen.show(check_page(report))
    warn_missing_measures(collected.missing_measures)
    return exit_code


def _integration(trace_set: TraceSet, solution: Solution, options: CheckOptions) -> int:
    """Ask whether a kernel goes into compiled code: nothing is timed."""
    from flashinfer_bench.bench.parent.pool import device_names  # noqa: PLC0415  # pydantic

    report = ask(
        trace_set,
        solution,
        kernel=options.kernel,
        device=device_names(options.device)[0],
        compiler=options.compiler,
        retell=partial(with_paths, kernel=Path(options.kernel), solution=solution),
    )
    exit_code = 0 if report.accepted else 1
    if options.as_json:
        screen.show_json({"schema_version": 1, "integration": report}, exit_code)
    else:
        screen.show(integration_page(report))
    return exit_code


def _edges(
    trace_set: TraceSet, definition: Definition, solution: Solution, options: CheckOptions
) -> int:
    """Run the suite of edge cases; a case at which the reference fails, too, is no fault of the kernel."""
    report, collected = try_edges(
        trace_set,
        definition,
        solution,
        kernel=options.kernel,
        device=options.device,
        config=_config(options),
        retell=partial(with_paths, kernel=Path(options.kernel), solution=solution),
        view=partial(_view, options=options),
    )
    is_lost = collected.has_lost_a_device or not report.results
    exit_code = DeviceError.exit_code if is_lost else int(not report.accepted)
    if options.as_json:
        screen.show_json({"schema_version": 1, "edges": report}, exit_code)
    else:
        screen.show(edges_page(report))
    warn_missing_measures(collected.missing_measures)
    return exit_code


def _config(options: CheckOptions) -> BenchmarkConfig:
    """Lay the options that were typed over the file, and that over the quick settings."""
    from flashinfer_bench.bench import BenchmarkConfig  # noqa: PLC0415  # pydantic

    if options.config is None:
        return BenchmarkConfig.default(**options.settings)
    return BenchmarkConfig.from_yaml(options.config, beneath=_QUICK, **_typed(options))


def _typed(options: CheckOptions) -> dict[str, Any]:
    """Give the settings that are not this command's defaults."""
    source = click.get_current_context().get_parameter_source
    return {
        name: value
        for name, value in options.settings.items()
        if source(name) is not ParameterSource.DEFAULT
    }


def _is_end(options: CheckOptions, result: JobResult | None) -> bool:
    """Tell whether the rest is not tried: after a time-out it would most likely time out, too."""
    if result is None or result.is_passed:
        return False
    return options.fail_fast or (result.status == _TIMEOUT and not options.keep_going)


def _view(collected: Collected, options: CheckOptions) -> ProgressView:
    """Show each job as it ends on stderr; stdout has the page, or the document."""
    is_quiet = log.is_quiet(click.get_current_context())
    if options.as_json or is_quiet or not (screen.is_terminal() and screen.has_live_stderr()):
        return Lines(to_stderr=True, is_quiet=is_quiet)
    return LiveView(len(collected.plan.jobs), lists_passed=True)


def _report(
    collected: Collected, options: CheckOptions, config: BenchmarkConfig, solution: Solution
) -> CheckReport:
    jobs = collected.results
    return CheckReport(
        kernel=options.kernel,
        definition=solution.definition,
        language=solution.spec.language.value,
        entry_point=solution.spec.entry_point,
        calling_style="into" if solution.spec.destination_passing_style else "returns",
        num_trials=_said(config, "num_trials"),
        iterations=_said(config, "iterations"),
        warmup_runs=_said(config, "warmup_runs"),
        jobs=tuple(jobs),
        skipped=collected.skipped,
        dataset_faults=tuple(collected.faults.values()),
        log_file=_keep_logs([each for each in jobs if not each.is_passed], options.kernel),
        not_tried=collected.not_tried,
    )


def _keep_logs(failed: Sequence[JobResult], kernel: str) -> str | None:
    """Write the logs to a file, one for each kernel file, of its last check; None where there is none."""
    path = Path(kernel).resolve()
    logs = [(f"{job.status} with {axes_text(job.axes)}", job.log) for job in failed]
    return keep_logs(path.name, str(path), logs)


def _said(config: BenchmarkConfig, name: str) -> int:
    value: int | None = getattr(config, name)
    return int(_QUICK[name]) if value is None else value


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
