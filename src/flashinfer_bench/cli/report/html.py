"""`flashinfer-bench report html`: a dataset as one static site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import collector_paused, load_dataset, samples_reader
from flashinfer_bench.cli.options import (
    dataset_options,
    include_weak_option,
    json_option,
    log_level_option,
)
from flashinfer_bench.cli.report.model import profile_files

if TYPE_CHECKING:
    from flashinfer_bench.bench.examining.profile_values import SolutionProfile
    from flashinfer_bench.data import TraceSet
    from flashinfer_bench.report.page.content import Content, RecordedJob


@click.command(
    "html",
    cls=Command,
    examples=[
        "flashinfer-bench report html site --local examples/dataset",
        "flashinfer-bench report html public --title 'Our kernels' --local one --local another",
    ],
)
@click.argument("folder", metavar="DIR")
@dataset_options
@click.option("--title", metavar="TEXT", help="Name of the site.  [default: the dataset's folder]")
@click.option(
    "--baseline-author",
    default="baseline",
    show_default=True,
    metavar="NAME",
    help="Author whose solutions are the baseline.",
)
@include_weak_option
@click.option(
    "--live", default="", hidden=True, help="Which state this is that `serve` keeps up to date."
)
@json_option
@log_level_option
def html(  # noqa: PLR0917  # options arrive by name
    folder: str,
    local: tuple[str, ...],
    title: str | None,
    baseline_author: str,
    include_weak: bool,
    live: str,
    as_json: bool,
) -> None:
    """Write a dataset as a static site into DIR.

    It opens from a file and from any web server, and loads nothing from anywhere else. It has an overview, a
    leaderboard, and a page for each definition, solution and model profile. DIR may be new, empty, or a site
    written earlier, which is replaced once the new one is whole; any other folder is refused.
    """
    from flashinfer_bench.report.page.folder import (  # noqa: PLC0415  # other reports do without
        require_replaceable,
        write_site,
    )
    from flashinfer_bench.report.page.site import pages  # noqa: PLC0415  # loads templates

    target = Path(folder)
    require_replaceable(target)
    with collector_paused():
        content = _content(load_dataset(local), title, baseline_author, includes_weak=include_weak)
        content = replace(content, live=live)
        count = write_site(target, pages(content))
    index = (target / "index.html").resolve()
    traces = sum(map(len, content.jobs.values()))
    if as_json:
        screen.show_json(
            {"schema_version": 1, "index": str(index), "files": count, "traces": traces}
        )
    else:
        click.echo(f"{count:,} files from {traces:,} traces. To open the page:")
        click.echo(f"  python3 -m webbrowser {index.as_uri()}")


def _content(
    trace_set: TraceSet, title: str | None, baseline_author: str, *, includes_weak: bool
) -> Content:
    from flashinfer_bench import __version__  # noqa: PLC0415  # reading it is slow
    from flashinfer_bench.data import Profile  # noqa: PLC0415  # pydantic
    from flashinfer_bench.report.page.content import Content  # noqa: PLC0415  # with the templates

    return Content(
        title=title or trace_set.roots[0].resolve().name,
        version=str(__version__),
        definitions=trace_set.definitions,
        solutions={each.name: each for group in trace_set.solutions.values() for each in group},
        workloads={
            name: [trace.workload for trace in trace_set.workloads[name]]
            for name in trace_set.workloads
        },
        jobs=_jobs(trace_set),
        profiles=[(path.stem, Profile.load(path)) for path in profile_files(trace_set.roots)],
        kernel_profiles=_kernel_profiles(trace_set),
        samples_of=samples_reader(trace_set),
        baseline_author=baseline_author,
        includes_weak=includes_weak,
    )


def _kernel_profiles(trace_set: TraceSet) -> dict[str, list[SolutionProfile]]:
    """By the hash of the code that was profiled."""
    from flashinfer_bench.bench.examining.kept_profiles import (  # noqa: PLC0415  # pydantic
        newest_profiles,
    )

    found: dict[str, list[SolutionProfile]] = {}
    for definition in trace_set.definitions.values():
        for profile in newest_profiles(trace_set.roots, definition).values():
            found.setdefault(profile.solution_hash, []).append(profile)
    return found


def _jobs(trace_set: TraceSet) -> dict[str, list[RecordedJob]]:
    from flashinfer_bench.report.page.content import jobs_of  # noqa: PLC0415  # with the templates

    return {
        name: jobs_of(trace_set.rows(name), trace_set.traces[name]) for name in trace_set.traces
    }
