"""`flashinfer-bench validate`: check a dataset, file by file and as a whole."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.datasets import dataset_paths
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import DatasetError, DatasetNotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.bench import BenchmarkConfig
    from flashinfer_bench.data.rules import DatasetReport, Finding
    from flashinfer_bench.data.rules.snapshot import Snapshot

OUTPUTS = ("stdout", "json", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """What the user asked for."""

    dataset: str | None
    checks: tuple[str, ...] = ()
    op_types: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    output_folder: str | None = None
    outputs: tuple[str, ...] = ()
    fix: bool = False
    prune: bool = False
    strict: bool = False
    run: bool = False
    config: str | None = None
    disable_gpu: bool = False
    as_json: bool = False


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench validate --local examples/dataset",
        "flashinfer-bench validate --local examples/dataset --checks layout workload --strict",
        "flashinfer-bench validate --local examples/dataset --definitions rmsnorm_h4096 --json",
        "flashinfer-bench validate --local examples/dataset --run",
    ],
)
@click.option(
    "--dataset",
    "--local",
    "dataset",
    metavar="DIR",
    help="Dataset folder.  [default: FIB_DATASET_PATH, else ~/.cache/flashinfer_bench/dataset]",
)
@click.option(
    "--checks",
    cls=ManyOption,
    metavar="NAME...",
    help="What to check: layout, definition, workload, solution, trace, baseline, profile, "
    "benchmark, task; commas may stand between.  [default: all but task; benchmark with a GPU only]",
)
@click.option("--op-types", cls=ManyOption, metavar="NAME...", help="Definitions of these types.")
@click.option("--definitions", cls=ManyOption, metavar="NAME...", help="And these definitions.")
@click.option(
    "--output-folder",
    metavar="DIR",
    help="Where reports go.  [default: reports/ of the dataset, if `--outputs` names a file]",
)
@click.option(
    "--outputs",
    cls=ManyOption,
    metavar="KIND...",
    help="stdout, json, text.  [default: stdout; all three with --output-folder]",
)
@click.option(
    "--fix",
    is_flag=True,
    help="First repair what is mechanical: files and lines in the wrong place, missing types and "
    "uuids, torn lines. Nothing is lost.",
)
@click.option(
    "--prune",
    is_flag=True,
    help="First set traces of solutions that do not exist aside, in a file `.gone` beside theirs.",
)
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option(
    "--run",
    is_flag=True,
    help="Also run each definition on its smallest workload (check `task`): is the reference "
    "deterministic, do baselines agree, do trivial answers pass, do outputs vary?",
)
@click.option(
    "--config", metavar="FILE", help="Settings to judge by where code is run, as for `run`."
)
@click.option("--disable-gpu", is_flag=True, help="Run no code and load no torch.")
@json_option
@log_level_option
def validate(**options: Any) -> None:
    """Check the files of a dataset, each by itself and all together.

    Each finding has a code, a level, a place and a remedy. Notes are for information; docs/validation.md lists
    the codes. The check `benchmark` runs the reference and the baseline of each definition once. The check
    `task` finds tasks that are unsound or easily faked.

    Exits with 1 when there are errors.
    """
    chosen = ValidateOptions(**options)
    outputs = require_outputs(chosen.outputs or (OUTPUTS if chosen.output_folder else ("stdout",)))
    report = run_validation(chosen)
    exit_code = 0 if report.is_good(strict=chosen.strict) else 1
    _write(report, outputs, chosen.output_folder)
    if chosen.as_json:
        screen.show_json({"schema_version": 1, "exit_code": exit_code, **report.to_dict()})
    elif "stdout" in outputs:
        _show(report)
    click.get_current_context().exit(exit_code)


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench validate-render reports/report-20261120-093000.json",
        "flashinfer-bench validate-render report.json --output report.txt",
        "flashinfer-bench validate-render report.json --json",
    ],
)
@click.argument("report", metavar="REPORT.json")
@click.option("-o", "--output", metavar="FILE", help="Write the text to a file instead of stdout.")
@json_option
@log_level_option
def validate_render(report: str, output: str | None, as_json: bool) -> None:
    """Write the JSON of an earlier validation as text.

    --json prints the document of today's `validate --json`, of an older report too.
    """
    from flashinfer_bench.report.validation import render_report, validation_page  # noqa: PLC0415

    found = _report_in(Path(report))
    if output is not None:
        render_report(report, Path(output))
    if as_json:
        screen.show_json(found.to_dict())
    elif output is None:
        screen.show(validation_page(found))


def _report_in(file: Path) -> DatasetReport:
    from flashinfer_bench.data.rules import read_report  # noqa: PLC0415  # pydantic

    if not file.is_file():
        raise UsageError(f"{file}: no such file")
    try:
        return read_report(file)
    except DatasetError as error:
        remedy = "name a report that `validate --outputs json` wrote"
        raise UsageError(f"{error}; {remedy}") from None


def validate_dataset(  # noqa: PLR0917  # the signature people's scripts call
    dataset: str | Path | None = None,
    op_types: Sequence[str] | None = None,
    definitions: Sequence[str] | None = None,
    checks: Sequence[str] | None = None,
    disable_gpu: bool = False,
    output_folder: str | Path | None = None,
    outputs: Sequence[str] | None = None,
) -> DatasetReport:
    """Check a dataset from Python; nothing is written or printed unless `outputs` or a folder is given.

    Raises `FileNotFoundError` for a missing root, `ValueError` for an unknown check, output or name.
    """
    if dataset is not None and not Path(dataset).is_dir():
        raise DatasetNotFoundError("no such dataset", path=dataset)
    options = ValidateOptions(
        dataset=None if dataset is None else str(dataset),
        op_types=tuple(op_types or ()),
        definitions=tuple(definitions or ()),
        checks=tuple(checks or ()),
        disable_gpu=disable_gpu,
    )
    wanted = require_outputs(outputs or (("json", "text") if output_folder else ()))
    report = run_validation(options)
    _write(report, wanted, output_folder)
    if "stdout" in wanted:
        _show(report)
    return report


def run_validation(options: ValidateOptions) -> DatasetReport:
    """Repair if asked, look, and report."""
    from flashinfer_bench.data import rules  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.rules.fixes import fix, prune  # noqa: PLC0415

    root = _root(options)
    checks = _checks(options)
    repairs = [*(fix(root) if options.fix else []), *(prune(root) if options.prune else [])]
    dataset = rules.take(root)
    op_types, definitions = _split(options.op_types), _split(options.definitions)
    names = rules.select(dataset, op_types, definitions)
    config = rules.ReportConfig(
        dataset=str(root),
        checks=checks,
        disable_gpu=options.disable_gpu,
        op_types=op_types,
        definitions=definitions,
    )
    findings = [*rules.check(dataset, checks), *_run_code(dataset, names, checks, options)]
    return rules.assemble(config, names, findings, repairs)


def _run_code(
    dataset: Snapshot, names: Sequence[str], checks: Sequence[str], options: ValidateOptions
) -> Iterable[Finding]:
    """Find what only running code can tell."""
    from flashinfer_bench.cli.dataset.running_checks import (  # noqa: PLC0415  # pydantic
        benchmark_findings,
        has_torch,
        misspelt_names,
    )
    from flashinfer_bench.cli.dataset.task_checks import task_findings  # noqa: PLC0415

    if options.disable_gpu:
        return
    if has_torch():
        yield from misspelt_names(dataset, checks)
    if "benchmark" in checks:
        yield from benchmark_findings(dataset, names, _settings(options), device="auto")
    if "task" in checks:
        yield from task_findings(dataset, names, _settings(options), device="auto")


def _settings(options: ValidateOptions) -> BenchmarkConfig:
    from flashinfer_bench.bench import BenchmarkConfig  # noqa: PLC0415  # pydantic

    if options.config is None:
        return BenchmarkConfig.default()
    return BenchmarkConfig.from_yaml(options.config)


def _root(options: ValidateOptions) -> Path:
    return dataset_paths([] if options.dataset is None else [options.dataset])[0]


def _checks(options: ValidateOptions) -> list[str]:
    """Decide what to check; code is run by itself only where there is a GPU, as it takes long."""
    from flashinfer_bench.cli.dataset.running_checks import has_torch  # noqa: PLC0415
    from flashinfer_bench.data.rules import (  # noqa: PLC0415
        DEFAULT_CHECKS,
        RUNNING_CHECKS,
        require_checks,
    )
    from flashinfer_bench.tensors.machine import gpu_names  # noqa: PLC0415

    if options.run and options.disable_gpu:
        raise UsageError("--run runs code, and --disable-gpu runs none; leave one of them out")
    wanted = _split(options.checks)
    if not wanted:
        runs = not options.disable_gpu and has_torch() and bool(gpu_names())
        wanted = [*DEFAULT_CHECKS, *(["benchmark"] if runs else [])]
    checks = require_checks([*wanted, *(["task"] if options.run else [])])
    return [each for each in checks if not (options.disable_gpu and each in RUNNING_CHECKS)]


def require_outputs(kinds: Sequence[str]) -> list[str]:
    """Refuse an output that is none."""
    outputs = _split(kinds)
    for name in outputs:
        if name not in OUTPUTS:
            raise UsageError(f"no output named {name!r}; there are {', '.join(OUTPUTS)}")
    return outputs


def _split(values: Iterable[str]) -> list[str]:
    """Take several values apart that commas join.

    >>> _split(["layout,trace", "solution"])
    ['layout', 'trace', 'solution']
    """
    return [part for value in values for part in value.split(",") if part]


def _write(report: DatasetReport, outputs: Sequence[str], folder: str | Path | None) -> None:
    """Write the report into files of one name, beside earlier ones."""
    from flashinfer_bench.data.files import write_whole  # noqa: PLC0415  # pydantic
    from flashinfer_bench.report.validation import render_text_report  # noqa: PLC0415

    target = Path(folder or Path(report.config.dataset) / "reports")
    base = _unused(target / time.strftime("report-%Y%m%d-%H%M%S"))
    if "json" in outputs:
        write_whole(base.with_suffix(".json"), f"{report.to_json(indent=2)}\n".encode())
    if "text" in outputs:
        write_whole(base.with_suffix(".txt"), render_text_report(report).encode())


def _show(report: DatasetReport) -> None:
    from flashinfer_bench.report.validation import validation_page  # noqa: PLC0415  # pydantic

    screen.show(validation_page(report))


def _unused(base: Path) -> Path:
    """Number a name until neither of its files is there."""
    number = 1
    found = base
    while found.with_suffix(".json").exists() or found.with_suffix(".txt").exists():
        number += 1
        found = base.with_name(f"{base.name}-{number}")
    return found
