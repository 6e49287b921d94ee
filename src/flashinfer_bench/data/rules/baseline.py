"""BAS: every definition has one baseline, which passes everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.rules.finding import Level, RuleFault, rule
from flashinfer_bench.data.wording import listed
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data.rules.snapshot import Snapshot, TraceLine
    from flashinfer_bench.data.solution import Solution

AUTHOR = "baseline"


@rule("BAS-01", Level.WARNING, f"add a solution whose author is `{AUTHOR}`")
def definitions_have_baselines(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every definition has a baseline, which others are ranked against."""
    for document in dataset.definition_files:
        definition = document.entity
        if definition is not None and not _baselines(dataset, definition.name):
            yield RuleFault("no baseline solution", definition=definition.name)


@rule("BAS-04", Level.INFO, f"`flashinfer-bench run --authors {AUTHOR}` makes them")
def baselines_have_traces(dataset: Snapshot) -> Iterator[RuleFault]:
    """Baselines have traces, where anybody has; without them nothing can be ranked."""
    for name, solution in _each(dataset):
        if name in dataset.traces_by_definition and not _traces(dataset, solution):
            yield RuleFault(f"baseline {solution.name!r} has no traces", "", None, name)


@rule("BAS-07", Level.WARNING, "correct the baseline: nothing can be ranked against a failure")
def baselines_pass(dataset: Snapshot) -> Iterator[RuleFault]:
    """The newest traces of baselines passed."""
    for name, solution in _each(dataset):
        newest = {trace.workload_uuid: trace for trace in _traces(dataset, solution)}
        failed = [trace for trace in newest.values() if trace.status != "PASSED"]
        if failed:
            message = f"baseline {solution.name!r} failed on {count_text(len(failed), 'workload')}"
            yield RuleFault(message, failed[0].path, failed[0].line, name)


@rule("BAS-08", Level.WARNING, f"`flashinfer-bench run --authors {AUTHOR} --resume` runs the rest")
def baselines_cover_the_workloads(dataset: Snapshot) -> Iterator[RuleFault]:
    """Baselines that ran passed all workloads, of the size classes that ran."""
    for name, solution in _each(dataset):
        traces = _traces(dataset, solution)
        expected = dataset.expected_uuids(name, {trace.workload_uuid for trace in traces})
        passed = {trace.workload_uuid for trace in traces if trace.status == "PASSED"} & expected
        if traces and len(passed) < len(expected):
            message = (
                f"baseline {solution.name!r} passed {len(passed)} of {len(expected)} workloads"
            )
            yield RuleFault(message, traces[0].path, None, name)


@rule("BAS-09", Level.WARNING, "keep one, and give the others another author")
def baselines_are_unique(dataset: Snapshot) -> Iterator[RuleFault]:
    """No definition has several baselines: there would be nothing to rank against."""
    for name in dataset.definitions:
        found = _baselines(dataset, name)
        if len(found) > 1:
            message = f"{len(found)} baseline solutions: {listed(each.name for each in found)}"
            yield RuleFault(message, "", None, name)


def _baselines(dataset: Snapshot, definition: str) -> list[Solution]:
    solutions = dataset.solutions_by_definition.get(definition, [])
    return [solution for solution in solutions if solution.author == AUTHOR]


def _each(dataset: Snapshot) -> Iterator[tuple[str, Solution]]:
    for name in dataset.definitions:
        for solution in _baselines(dataset, name):
            yield name, solution


def _traces(dataset: Snapshot, solution: Solution) -> list[TraceLine]:
    traces = dataset.traces_by_definition.get(solution.definition, [])
    return [trace for trace in traces if trace.solution == solution.name]
