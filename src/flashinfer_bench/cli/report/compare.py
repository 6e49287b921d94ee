"""`flashinfer-bench report compare`: what became faster, slower, new, missing, wrong or right."""

from __future__ import annotations

import contextlib
import fnmatch
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.options import (
    SHARE,
    basis_option,
    dataset_options,
    json_option,
    log_level_option,
)
from flashinfer_bench.cli.report.sides import find_sides
from flashinfer_bench.data.appending import storage_error
from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.report.compare.comparing import compare as compare_sides
from flashinfer_bench.report.compare.exports import junit, markdown
from flashinfer_bench.report.compare.gates import check_gates, exit_note, parse_gate
from flashinfer_bench.report.compare.pages import broken_text, compare_page
from flashinfer_bench.report.compare.ratios import Basis
from flashinfer_bench.stats.verdicts import THRESHOLD

if TYPE_CHECKING:
    from flashinfer_bench.report.compare.gates import GateResult
    from flashinfer_bench.report.compare.result import ComparisonReport
    from flashinfer_bench.report.compare.sides import Side


@click.command(
    "compare",
    cls=Command,
    examples=[
        "flashinfer-bench compare my_dataset@main my_dataset",
        "flashinfer-bench report compare my_dataset@main my_dataset",
        "flashinfer-bench report compare old_dataset new_dataset --fail-on 'slower>3%' --fail-on failed",
        "flashinfer-bench report compare rmsnorm_h4096_pytorch rmsnorm_h4096_cpp --local examples/dataset",
        "flashinfer-bench report compare 'NVIDIA A100' 'NVIDIA H200' --local my_dataset --markdown",
        "flashinfer-bench report compare run:monday run:friday --local my_dataset --junit gates.xml",
    ],
)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@dataset_options
@click.option(
    "--definitions",
    cls=ManyOption,
    metavar="NAME...",
    help="Definitions to compare, names or globs.  [default: all]",
)
@basis_option(auto="for each job what gives the narrower interval.")
@click.option(
    "--threshold",
    type=SHARE,
    default=THRESHOLD,
    metavar="SHARE",
    help="Treat differences up to this as equal.  [default: 2%]",
)
@click.option(
    "--fail-on",
    "gates",
    multiple=True,
    metavar="GATE",
    help="End with exit code 1 when this is found: `slower>3%` (any percentage; the whole interval says so), "
    "`failed` (and did not before), `missing`, `undecided` or `changed-definition` (or other tolerances). "
    "Give it several times for several.",
)
@click.option(
    "--junit",
    "junit_file",
    metavar="FILE",
    help="Write JUnit XML: what breaks a gate, is SLOWER or BROKE, fails.",
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a pull request.")
@json_option
@log_level_option
@click.pass_context
def compare(  # noqa: PLR0917  # options arrive by name
    ctx: click.Context,
    old: str,
    new: str,
    local: tuple[str, ...],
    definitions: tuple[str, ...],
    by: str,
    threshold: float,
    gates: tuple[str, ...],
    junit_file: str | None,
    as_markdown: bool,
    as_json: bool,
) -> None:
    """Say what became faster, slower, new, missing, wrong or right from OLD to NEW.

    OLD and NEW are two of a kind: dataset folders (FOLDER, or FOLDER@REVISION as it was in git), or, of the
    dataset that --local names, solutions, hardware or runs (by id or label). `solution:`, `hardware:` and
    `run:` before a name say which is meant.

    The ratio is old time over new time, with a 95% interval. The interval comes from whole runs where there are
    enough (four of each), else from raw samples, else from the recorded intervals. FASTER, SLOWER and SAME mean
    that all of the interval says so. docs/reports.md has the details, and docs/reading-a-result.md what to do.
    """
    if as_json and as_markdown:
        raise UsageError("--json and --markdown: choose one")
    if junit_file is not None and not Path(junit_file).absolute().parent.is_dir():
        raise UsageError(f"--junit {junit_file}: its folder does not exist; make it first")
    if junit_file is not None and Path(junit_file).is_dir():
        raise UsageError(f"--junit {junit_file}: is a folder; name a file in it")
    conditions = [parse_gate(text) for text in gates]
    if junit_file is not None and Path(junit_file).is_file() and not Path(junit_file).is_symlink():
        Path(junit_file).unlink()  # should this one end early, another run's must not speak for it
    with contextlib.ExitStack() as stack:
        sides = find_sides(old, new, local, stack)
        one, two = _only_named((sides.old, sides.new), definitions)
        basis = None if by == "auto" else Basis(by)
        comparison = compare_sides(one, two, sides.kind, by=basis, threshold=threshold)
    results = check_gates(comparison, conditions)
    note = exit_note(comparison, results) if results or junit_file is not None else ""
    _show(comparison, results, note, as_json=as_json, as_markdown=as_markdown)
    if junit_file is not None:
        _write(junit_file, junit(comparison, results))
    broken = [each for each in results if not each.holds]
    for each in broken:
        log.warn(broken_text(each))
    if broken:
        ctx.exit(1)


def _write(file: str, content: bytes) -> None:
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise storage_error(file, error) from error


def _show(
    comparison: ComparisonReport,
    results: tuple[GateResult, ...],
    note: str,
    *,
    as_json: bool,
    as_markdown: bool,
) -> None:
    if as_json:
        exit_code = 0 if all(each.holds for each in results) else 1
        screen.show_json(
            {"schema_version": 1, "comparison": comparison, "gates": results}, exit_code
        )
    elif as_markdown:
        click.echo(markdown(comparison, results, note))
    else:
        screen.show(compare_page(comparison, results, note))


def _only_named(sides: tuple[Side, Side], patterns: tuple[str, ...]) -> tuple[Side, Side]:
    """Keep the definitions that a pattern names; one that names nothing is a mistake."""
    known = {row.definition for side in sides for row in side.rows}
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise UnknownNameError("definition", pattern, known)
    kept = (
        known
        if not patterns
        else {name for pattern in patterns for name in fnmatch.filter(known, pattern)}
    )
    one, two = (
        replace(side, rows=[row for row in side.rows if row.definition in kept]) for side in sides
    )
    return one, two
