"""What `profile` and `sanitize` have in common: a solution as it is named, its workload, and where reports go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log
from flashinfer_bench.cli.datasets import find_definition, require_writable_place
from flashinfer_bench.cli.measure.kernel_files import hints_of
from flashinfer_bench.cli.measure.progress import waiting_text
from flashinfer_bench.cli.measure.versions import find_solution
from flashinfer_bench.cli.options import kernel_options
from flashinfer_bench.cli.setting_options import setting_options
from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.data import Definition, Solution, TraceSet, Workload
    from flashinfer_bench.data.layout import Layout

_SETTINGS = ("timeout_seconds", "build_timeout_seconds", "threads", "seed", "arch", "sandbox")


@dataclass(frozen=True, slots=True)
class ExaminedSubject:
    """What a command was asked to look at."""

    definition: Definition
    solution: Solution
    workload: Workload
    is_recorded: bool
    """Whether the dataset holds it, so that what is found is kept there."""


def subject_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names a solution and its workload, and how long it may take."""
    workload = click.option(
        "--workload",
        metavar="UUID",
        help="Which workload; the first characters will do.  [default: the first of the definition]",
    )
    return kernel_options(workload(setting_options(*_SETTINGS)(command)))


def config_of(settings: dict[str, Any]) -> BenchmarkConfig:
    """Make the settings of what was typed."""
    from flashinfer_bench.bench import BenchmarkConfig  # noqa: PLC0415  # pydantic

    return BenchmarkConfig.default(**settings)


def subject_of(trace_set: TraceSet, text: str, options: Any) -> ExaminedSubject:
    """Find the solution, its definition and the workload."""
    hints = hints_of(options.language, options.entry_point, options.device)
    solution = find_solution(text, trace_set, options.definition, hints)
    definition = find_definition(trace_set, solution.definition)
    is_recorded = trace_set.get_solution(text) is not None
    return ExaminedSubject(
        definition, solution, workload_of(trace_set, definition, options.workload), is_recorded
    )


def workload_of(trace_set: TraceSet, definition: Definition, wanted: str | None) -> Workload:
    """Find a workload by the beginning of its uuid; the first one where none is named."""
    known: list[Workload] = [each.workload for each in trace_set.workloads.get(definition.name, [])]
    if not known:
        raise UsageError(f"{definition.name} has no workloads to run on")
    if wanted is None:
        return known[0]
    found = [each for each in known if each.uuid.startswith(wanted)]
    if not found:
        uuids = [each.uuid for each in known]
        raise UnknownNameError(f"workload of {definition.name}", wanted, uuids)
    if len(found) > 1:
        named = ", ".join(f"{each.uuid} [{axes_text(each.axes)}]" for each in found[:3])
        raise UsageError(f"--workload {wanted} fits {len(found)}: {named}; give more of it")
    return found[0]


def home_of(trace_set: TraceSet) -> Layout:
    """Say which folder takes what is found of a solution of the dataset."""
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415  # pydantic

    root = trace_set.output if trace_set.output is not None else trace_set.root
    assert root is not None
    require_writable_place([root])
    return Layout(root)


def reports_of_files() -> Path:
    """Say where the reports of kernel files go, which no dataset holds."""
    from flashinfer_bench.data import settings  # noqa: PLC0415

    return settings.cache_path() / "reports"


def report_waiting(event: Progress) -> None:
    """Say that the device is in use."""
    from flashinfer_bench.bench.parent.events import Waiting  # noqa: PLC0415  # pydantic

    if isinstance(event, Waiting):
        log.inform(waiting_text(event.device, event.holder))
