"""`flashinfer-bench import sol-execbench` and `export sol-execbench`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.options import (
    dataset_options,
    json_option,
    log_level_option,
    new_folder_option,
)
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.numbers import count_text
from flashinfer_bench.report.tables import heading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.sol_execbench.folder_import import ImportSummary
    from flashinfer_bench.sol_execbench.reading import LeftOutThere
    from flashinfer_bench.sol_execbench.writing import ExportSummary

_MOST_SHOWN = 5
_output_option = new_folder_option("The folder to write: new or empty.")


@click.command(
    "sol-execbench",
    cls=Command,
    examples=[
        "flashinfer-bench import sol-execbench sol_problems --output my_dataset",
        "flashinfer-bench import sol-execbench sol_problems/L1/softmax --output one --json",
    ],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@_output_option
@json_option
@log_level_option
def bring(folder: Path, output: Path, as_json: bool) -> None:
    """Make a dataset of SOL-ExecBench's problems, strictly.

    A problem is a folder with `definition.json`, `workload.jsonl` and often `reference.py`. Written from a
    description of the format; it has not been tried on the published dataset. Anything it does not know is refused
    by name: a problem with such a key is left out, or just the workload or the solution that has it. Inputs of
    type `custom` are made once, by the problem's own function in a process of its own, and stored.
    """
    from flashinfer_bench.data.staging_folder import new_folder, require_outside  # noqa: PLC0415  # pydantic
    from flashinfer_bench.sol_execbench import folder_import as bringing  # noqa: PLC0415  # pydantic

    require_outside(output, [folder])
    with new_folder(output) as draft:
        brought = bringing.import_problems(folder, draft)
        _require_something(brought)
    for note in brought.notes:
        log.warn(note)
    _show("import", output, brought, as_json=as_json)


@click.command(
    "sol-execbench",
    cls=Command,
    examples=["flashinfer-bench export sol-execbench --local my_dataset --output sol_problems"],
)
@_output_option
@dataset_options
@json_option
@log_level_option
def write(output: Path, local: tuple[str, ...], as_json: bool) -> None:
    """Write a dataset as SOL-ExecBench's problems, strictly.

    Definitions, workloads and solutions are written; traces have no form there. Written from a description of the
    format; it has not been tried with that suite's own programs. What has no form there is left out and named.
    Every workload carries the tolerance that is in force here.
    """
    from flashinfer_bench.data.staging_folder import new_folder, require_outside  # noqa: PLC0415  # pydantic
    from flashinfer_bench.sol_execbench import writing  # noqa: PLC0415  # pydantic

    trace_set = load_dataset(local)
    require_outside(output, trace_set.roots)
    with new_folder(output) as draft:
        written = writing.write(trace_set, draft)
        _require_something(written)
    _show("export", output, written, as_json=as_json)


def _require_something(result: ImportSummary | ExportSummary) -> None:
    if result.definitions:
        return
    lines = _lines(result.left_out) or ["there are no definitions"]
    raise nothing_left("no problem is left", lines)


def nothing_left(why: str, reasons: Sequence[str]) -> UsageError:
    """Say that nothing could be taken, and the first few reasons."""
    shown = [f"  {each}" for each in reasons[:_MOST_SHOWN]]
    if len(reasons) > len(shown):
        shown.append(f"  and {len(reasons) - len(shown)} more")
    return UsageError("\n".join([f"nothing was written: {why}", *shown]))


def _show(what: str, output: Path, result: ImportSummary | ExportSummary, *, as_json: bool) -> None:
    for line in _lines(result.left_out):
        log.warn(line)
    if as_json:
        screen.show_json({"schema_version": 1, "output": str(output), what: result})
        return
    counts = [
        count_text(len(result.definitions), "definition"),
        count_text(result.workloads, "workload"),
        count_text(len(result.solutions), "solution"),
    ]
    screen.show((heading(f"{', '.join(counts)} in {output}"),))


def _lines(left_out: Sequence[LeftOutThere]) -> list[str]:
    """Name what was left out; workloads of a problem that share a reason are one line."""
    counts = Counter((each.problem, each.kind, _without_place(each)) for each in left_out)
    lines = []
    for each in left_out:
        count = counts.pop((each.problem, each.kind, _without_place(each)), 0)
        if count > 1:
            lines.append(
                f"{each.problem}: {count} {each.kind}s were left out; the first: {each.reason}"
            )
        elif count == 1:
            name = "" if each.kind == "problem" else f", {each.kind} {each.name},"
            lines.append(f"{each.problem}{name} was left out: {each.reason}")
    return lines


def _without_place(left: LeftOutThere) -> str:
    """Give the reason without file, line and column."""
    return left.reason.partition(": ")[2] if left.kind == "workload" else left.name
