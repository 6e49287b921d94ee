"""`flashinfer-bench profile`: one call of a solution under a profiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.measure.examined import (
    config_of,
    home_of,
    report_waiting,
    reports_of_files,
    subject_of,
    subject_options,
)
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.errors import DeviceError
from flashinfer_bench.report.kernel_profile import profile_page

if TYPE_CHECKING:
    from flashinfer_bench.bench.examining.profile_values import SolutionProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """What the user asked for."""

    solution: str
    workload: str | None
    tool: Any
    definition: str | None
    local: tuple[str, ...]
    output: str | None
    device: str
    language: str | None
    entry_point: str | None
    settings: dict[str, Any]
    save: bool
    as_json: bool


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench profile rmsnorm_h4096_cpp --local examples/dataset",
        "flashinfer-bench profile rmsnorm_h4096_cuda --workload 19cf17 --with ncu --local examples/dataset",
        "flashinfer-bench profile kernel.cu --definition rmsnorm_h4096 --local examples/dataset --json",
        "flashinfer-bench profile kernel.cu --definition rmsnorm_h4096 --with ptxas --arch sm_100",
    ],
)
@click.argument("solution", metavar="SOLUTION")
@subject_options
@click.option(
    "--with",
    "tool",
    type=click.Choice(["auto", "ncu", "cupti", "torch", "ptxas", "remarks"]),
    default="auto",
    show_default=True,
    help="ncu: Nsight Compute; cupti: activity records; torch: its profiler; ptxas: what the compiler reserves, "
    "needs no GPU; remarks: which loops of C++ were vectorised; auto: the best that answers, and the compiler.",
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Profiles go there.  [default: beside the traces of the dataset]",
)
@click.option("--save/--no-save", default=True, show_default=True, help="Keep profile and reports.")
@json_option
@log_level_option
def profile(**options: Any) -> None:
    """Say where one call of a solution spends its time, kernel by kernel.

    SOLUTION is a name in the dataset, a kernel file (with --definition), or a folder with a `solution.toml`. It is
    built, sandboxed and given inputs as when it is timed; the call that is looked at comes after three others.
    Tools are tried from Nsight Compute down to the compiler, which needs no GPU; each that does not answer says
    why, and what would help. The answer has one form, whichever tool gave it; what the tool wrote itself is
    kept beside the traces.

    Exits with 4 when no tool answered.
    """
    click.get_current_context().exit(_profile(ProfileOptions(**options)))


def _profile(options: ProfileOptions) -> int:
    from flashinfer_bench.bench.examining.kept_profiles import keep_profile  # noqa: PLC0415  # pydantic

    trace_set = load_dataset(options.local, output=options.output)
    subject = subject_of(trace_set, options.solution, options)
    author, keeps = subject.solution.author, options.save
    home = home_of(trace_set) if subject.is_recorded and keeps else None
    folder = home.tool_reports(author, subject.definition) if home else reports_of_files()
    log.inform(f"profiling {subject.solution.name} [{axes_text(subject.workload.axes)}]")
    found = _taken(trace_set, subject, options, folder if keeps else None)
    if home is not None and found.tool is not None:
        keep_profile(home.kernel_profiles_file(author, subject.definition), found)
    exit_code = 0 if found.tool is not None else DeviceError.exit_code
    if options.as_json:
        screen.show_json({"schema_version": 1, "profile": found}, exit_code)
    else:
        screen.show(profile_page(found))
    return exit_code


def _taken(trace_set: Any, subject: Any, options: ProfileOptions, folder: Any) -> SolutionProfile:
    from flashinfer_bench.bench.examining import profiling  # noqa: PLC0415  # pydantic

    return profiling.profile(
        trace_set,
        subject.definition,
        subject.solution,
        subject.workload,
        tool=options.tool,
        device=options.device,
        config=config_of(options.settings),
        keep_in=folder,
        observe=report_waiting,
    )
