"""`flashinfer-bench report`: look at recorded traces."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, CommandGroup, ManyOption
from flashinfer_bench.cli.datasets import (
    collector_paused,
    current_hashes,
    load_dataset,
    samples_reader,
)
from flashinfer_bench.cli.options import (
    dataset_options,
    include_weak_option,
    json_option,
    log_level_option,
    mix_hardware_option,
)
from flashinfer_bench.cli.report.compare import compare
from flashinfer_bench.cli.report.history import history
from flashinfer_bench.cli.report.html import html
from flashinfer_bench.cli.report.merge import merge
from flashinfer_bench.cli.report.model import model
from flashinfer_bench.errors import UnknownNameError
from flashinfer_bench.report.best import Bounds, best_by_hardware
from flashinfer_bench.report.pages import best_page, summary_page
from flashinfer_bench.report.scores.names import parse_score
from flashinfer_bench.report.standing import standing
from flashinfer_bench.report.summary import summarize
from flashinfer_bench.report.visualize import charts, visualize_page

if TYPE_CHECKING:
    from flashinfer_bench.data import TraceSet


@click.group(
    cls=CommandGroup,
    examples=[
        "flashinfer-bench report summary --local examples/dataset",
        "flashinfer-bench report best --local examples/dataset --json",
    ],
)
def report() -> None:
    """Look at recorded traces.

    Reports keep different hardware apart. Of a solution on a workload the newest run counts, passed
    or failed; traces of code that has since been replaced do not.
    """


report.add_command(model)
report.add_command(compare)
report.add_command(history)
report.add_command(html)
report.add_command(merge)


_SUMMARY = """\
Count traces by status, and rank authors.

Authors are ranked by a score, for each kind of hardware. r is the time of the baseline's solution over the
time of the author's; above 1 is faster. Definitions without exactly one baseline solution that passed are
ranked against their reference, in a table of their own. A rank is a range, as 1-3, where intervals overlap.
What was not tried does not count, unless the score says so.

\b
arithmetic        Mean of r over workloads; of each definition the author's best solution;
                  mean over definitions. A solution with a failure scores 0.
geometric         Geometric mean of r over workloads, then over definitions. Failures are left
                  out; see `success`. Half and double cancel (Fleming and Wallace, CACM 29, 1986).
coverage          Geometric mean of r over every workload that any author attempted. A failure,
                  and what was not tried, is r = 1: the baseline answers it.
sol               Mean of `sol_fraction`, 1 at most: the share of the roofline that the fastest
                  solution reached. A failure is 0.
sol-gap           Mean of 1 / (1 + (T - L) / (B - L)): T the time, B that of the baseline, L that
                  of the roofline. 0.5 is as fast as B, 1 is at L; a failure is 0. SOL-ExecBench
                  scores by this form.
fast_p>P          Share of attempts (solution and workload) that are right and have r > P.
fast_p>=P         The same with r >= P; a failure has r = 0.
win@P             Share of attempted workloads on which the author's fastest solution has r > P; a
                  failure loses.
pass@K            How often one of K solutions, drawn without putting back, passes on all its
                  workloads: mean over definitions of 1 - C(n-c, K) / C(n, K), c right of n (Chen
                  et al., 2021, eq. 1). Fewer than K solutions: no score.
kernelbench       fast_p with >, p = 0, 0.5, 0.8, 1, 1.5, 2. A solution is one sample, right if
                  all its workloads are; averaged over definitions, against the reference
                  (Ouyang et al., KernelBench, 2025).
flashinfer-bench  fast_p with >=, p = 0.7, 0.95, 1. Pooled over solutions and workloads, as the
                  leaderboard of bench.flashinfer.ai draws it.
"""


@report.command(
    cls=Command,
    help=_SUMMARY,
    examples=[
        "flashinfer-bench report summary --local examples/dataset",
        "flashinfer-bench report summary --local one --local another --json",
        "flashinfer-bench report summary --local examples/dataset --score 'fast_p>=1'",
    ],
)
@dataset_options
@click.option(
    "--baseline-author",
    default="baseline",
    show_default=True,
    metavar="NAME",
    help="Whose solutions authors are ranked against.",
)
@click.option(
    "--score",
    default="arithmetic",
    show_default=True,
    metavar="NAME",
    help="The score to rank by, one of those above, such as fast_p>=1 or pass@5.",
)
@mix_hardware_option
@include_weak_option
@json_option
@log_level_option
def summary(  # noqa: PLR0917  # options arrive by name
    local: tuple[str, ...],
    baseline_author: str,
    score: str,
    mix_hardware: bool,
    include_weak: bool,
    as_json: bool,
) -> None:
    """Count traces by status, and rank authors."""
    wanted = parse_score(score)
    with collector_paused():
        trace_set = load_dataset(local)
        _require_author(trace_set, baseline_author)
        summed = summarize(
            trace_set.rows(),
            current_hashes(trace_set),
            _solutions_by(trace_set, baseline_author),
            baseline_author=baseline_author,
            mixes_hardware=mix_hardware,
            includes_weak=include_weak,
            score=wanted,
        )
    if as_json:
        screen.show_json({"schema_version": 1, "summary": summed})
    else:
        screen.show(summary_page(summed))


@report.command(
    cls=Command,
    examples=[
        "flashinfer-bench report best --local examples/dataset",
        "flashinfer-bench report best --local examples/dataset --max-abs-error 1e-3",
    ],
)
@dataset_options
@click.option(
    "--max-abs-error", type=float, metavar="X", help="Leave out traces with a larger error."
)
@click.option(
    "--max-rel-error", type=float, metavar="X", help="Leave out traces with a larger error."
)
@mix_hardware_option
@include_weak_option
@json_option
@log_level_option
def best(  # noqa: PLR0917  # options arrive by name
    local: tuple[str, ...],
    max_abs_error: float | None,
    max_rel_error: float | None,
    mix_hardware: bool,
    include_weak: bool,
    as_json: bool,
) -> None:
    """Show the best solution of each definition, or why there is none.

    Every trace that passed qualifies: it was judged when it was recorded. Solutions that failed on
    no workload come first, then those with the higher speedup over the reference.
    """
    with collector_paused():
        trace_set = load_dataset(local)
        found = standing(
            trace_set.rows(),
            current_hashes(trace_set),
            mixes_hardware=mix_hardware,
            includes_weak=include_weak,
        )
        groups = best_by_hardware(found, Bounds(max_abs_error, max_rel_error))
    measured = {name for by_definition in found.tallies.values() for name in by_definition}
    unmeasured = sorted(trace_set.definitions.keys() - measured)
    if as_json:
        screen.show_json(
            {
                "schema_version": 1,
                "by_hardware": groups,
                "not_measured": unmeasured,
                "left_out": found.left_out,
            }
        )
    else:
        screen.show(best_page(groups, unmeasured, found.left_out))


@report.command(
    cls=Command,
    examples=[
        "flashinfer-bench report visualize --local examples/dataset",
        "flashinfer-bench report visualize --definitions 'rmsnorm*' --ascii",
    ],
)
@dataset_options
@click.option(
    "--definitions",
    cls=ManyOption,
    metavar="NAME...",
    help="Definitions to draw, names or globs.  [default: all]",
)
@click.option(
    "--width",
    type=click.IntRange(min=60),
    metavar="COLUMNS",
    help="How wide charts may be.  [default: as the terminal, 100 elsewhere]",
)
@click.option("--ascii", "is_ascii", is_flag=True, help="Draw with ASCII characters only.")
@mix_hardware_option
@include_weak_option
@json_option
@log_level_option
def visualize(  # noqa: PLR0917  # options arrive by name
    local: tuple[str, ...],
    definitions: tuple[str, ...],
    width: int | None,
    is_ascii: bool,
    mix_hardware: bool,
    include_weak: bool,
    as_json: bool,
) -> None:
    """Draw recorded traces as charts of characters.

    For each definition: the speedup of every solution over the reference with its 95% interval (the
    geometric mean over workloads), latency against size, and the raw samples of each solution's largest
    workload, where they were kept.
    """
    with collector_paused():
        trace_set = load_dataset(local)
        names = _named(trace_set, definitions)
        found = standing(
            (row for name in names for row in trace_set.rows(name)),
            current_hashes(trace_set),
            mixes_hardware=mix_hardware,
            includes_weak=include_weak,
        )
        groups = charts(found, samples_reader(trace_set))
    if as_json:
        screen.show_json({"schema_version": 1, "by_hardware": groups, "left_out": found.left_out})
    else:
        page = visualize_page(
            groups,
            found.left_out,
            width=width or screen.width(),
            is_ascii=is_ascii or screen.is_plain(),
        )
        screen.show(page)


def _named(trace_set: TraceSet, patterns: tuple[str, ...]) -> list[str]:
    """Keep the definitions that a pattern names; one that names nothing is a mistake."""
    known = list(trace_set.traces)
    if not patterns:
        return known
    kept: set[str] = set()
    for pattern in patterns:
        matched = fnmatch.filter({*known, *trace_set.definitions}, pattern)
        if not matched:
            raise UnknownNameError("definition", pattern, trace_set.definitions)
        kept |= set(matched)
    return [name for name in known if name in kept]


def _require_author(trace_set: TraceSet, author: str) -> None:
    """Refuse a baseline author who was asked for and wrote nothing here."""
    source = click.get_current_context().get_parameter_source("baseline_author")
    known = {each.author for solutions in trace_set.solutions.values() for each in solutions}
    if source is not ParameterSource.DEFAULT and known and author not in known:
        raise UnknownNameError("author", author, known)


def _solutions_by(trace_set: TraceSet, author: str) -> dict[str, tuple[str, ...]]:
    return {
        definition: tuple(each.name for each in solutions if each.author == author)
        for definition, solutions in trace_set.solutions.items()
    }
