"""`flashinfer-bench report summary`: traces counted by status, and authors ranked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import collector_paused, current_hashes, load_dataset
from flashinfer_bench.cli.options import (
    dataset_options,
    include_weak_option,
    json_option,
    log_level_option,
    mix_hardware_option,
)
from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.report.scores.names import Family, parse_score
from flashinfer_bench.report.summary import summarize, summary_page

if TYPE_CHECKING:
    from flashinfer_bench.data import TraceSet

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
                  of the roofline. 0.5 is as fast as B, 1 is at L; a failure is 0.
sol-execbench     The same with B and L from the file --times names, as SOL-ExecBench scores.
                  Nobody below L is scored.
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


@click.command(
    "summary",
    cls=Command,
    help=_SUMMARY,
    examples=[
        "flashinfer-bench report summary --local examples/dataset",
        "flashinfer-bench report summary --local one --local another --json",
        "flashinfer-bench report summary --local examples/dataset --score 'fast_p>=1'",
        "flashinfer-bench report summary --local sol --score sol-execbench --times b200.json",
    ],
)
@dataset_options
@click.option(
    "--baseline-author",
    default="baseline",
    show_default=True,
    metavar="NAME",
    help="Author whose solutions are the baseline.",
)
@click.option(
    "--score",
    default="arithmetic",
    show_default=True,
    metavar="NAME",
    help="The score to rank by, one of those above, such as fast_p>=1 or pass@5.",
)
@click.option(
    "--times",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="JSON file of baseline and speed-of-light times for sol-execbench: device, baseline, bound, "
    "times (definition, workload, baseline_ms, sol_ms).",
)
@mix_hardware_option
@include_weak_option
@json_option
@log_level_option
def summary(  # noqa: PLR0917  # options arrive by name
    local: tuple[str, ...],
    baseline_author: str,
    score: str,
    times: Path | None,
    mix_hardware: bool,
    include_weak: bool,
    as_json: bool,
) -> None:
    """Count traces by status, and rank authors."""
    wanted = parse_score(score)
    if (times is not None) != (wanted.family is Family.SOL_EXECBENCH):
        raise UsageError("--score sol-execbench and --times FILE belong together")
    from flashinfer_bench.report.scores.times import read_times  # noqa: PLC0415  # pydantic

    given = None if times is None else read_times(times)
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
            times=given,
        )
    if as_json:
        screen.show_json({"schema_version": 1, "summary": summed})
    else:
        screen.show(summary_page(summed))


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
