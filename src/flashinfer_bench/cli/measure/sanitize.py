"""`flashinfer-bench sanitize`: one call of a solution under tools that notice what it does wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.measure.examined import (
    config_of,
    report_waiting,
    reports_of_files,
    subject_of,
    subject_options,
)
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.errors import DeviceError, UsageError
from flashinfer_bench.report.sanitizers import sanitizer_page

if TYPE_CHECKING:
    from flashinfer_bench.bench.examining.sanitizer_values import SanitizerReport, SanitizerTool

_EXIT_CODES = {"clean": 0, "faults": 1, "failed": 1, "unavailable": DeviceError.exit_code}


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizeOptions:
    """What the user asked for."""

    solution: str
    workload: str | None
    tools: str | None
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
        "flashinfer-bench sanitize rmsnorm_h4096_cpp --local examples/dataset",
        "flashinfer-bench sanitize rmsnorm_h4096_cuda --tool memcheck,racecheck --local examples/dataset",
        "flashinfer-bench sanitize kernel.cpp --definition softmax_v128256 --local examples/dataset --json",
    ],
)
@click.argument("solution", metavar="SOLUTION")
@subject_options
@click.option(
    "--tool",
    "tools",
    metavar="NAMES",
    help="On CUDA: memcheck, racecheck, initcheck, synccheck (compute-sanitizer); on a CPU, for C++: address, "
    "undefined (the compiler's), uninitialised (valgrind). Several with commas.  [default: all of the device]",
)
@json_option
@log_level_option
def sanitize(**options: Any) -> None:
    """Look for what a solution does wrong, right result or not.

    Accesses beyond its memory, races, use of what was never written, undefined behaviour: each fault is told with
    the tool, the kernel, file and line, and how often it was met. One call is made, in the sandbox, on inputs as
    when it is timed. A tool that cannot look says why, and what would help.

    Exits with 1 when a fault was found or a tool could not finish, with 4 when none could look.
    """
    click.get_current_context().exit(_sanitize(SanitizeOptions(**options)))


def tool_names(text: str | None) -> tuple[SanitizerTool, ...] | None:
    """Read names with commas; None for all of the device."""
    from flashinfer_bench.bench.examining.sanitizing import TOOLS  # noqa: PLC0415  # pydantic

    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in TOOLS]
    if unknown or not names:
        raise UsageError(
            f"no sanitizer {', '.join(unknown) or text!r}; there are {', '.join(TOOLS)}"
        )
    return tuple(tool for tool in TOOLS if tool in names)


def _sanitize(options: SanitizeOptions) -> int:
    from flashinfer_bench.bench.examining import sanitizing  # noqa: PLC0415  # pydantic

    tools = tool_names(options.tools)
    trace_set = load_dataset(options.local)
    subject = subject_of(trace_set, options.solution, options)
    name = f"{subject.solution.name} [{axes_text(subject.workload.axes)}]"
    report: SanitizerReport = sanitizing.sanitize(
        trace_set,
        subject.definition,
        subject.solution,
        subject.workload,
        tools=tools,
        device=options.device,
        config=config_of(options.settings),
        keep_in=reports_of_files(),
        observe=report_waiting,
        on_tool=lambda tool: log.inform(f"{tool}: {name}"),
    )
    exit_code = _EXIT_CODES[report.status]
    if options.as_json:
        screen.show_json({"schema_version": 1, "sanitize": report}, exit_code)
    else:
        screen.show(sanitizer_page(report))
    return exit_code
