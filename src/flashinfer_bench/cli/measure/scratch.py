"""A dataset for one command: a definition with its workloads, and the solutions in question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Benchmark
    from flashinfer_bench.bench.plan import Plan
    from flashinfer_bench.data import Definition, Solution, TraceSet


def scratch_set(trace_set: TraceSet, definition: Definition, *solutions: Solution) -> TraceSet:
    """Make a trace set of these solutions; it reads files of the dataset and writes none."""
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # pydantic

    workloads = trace_set.workloads.get(definition.name, [])
    if not workloads:
        raise UsageError(f"{definition.name} has no workloads to run on")
    scratch = TraceSet(
        trace_set.root,
        {definition.name: definition},
        {definition.name: list(solutions)},
        {definition.name: list(workloads)},
    )
    scratch.roots = trace_set.roots
    return scratch


def plan_of(benchmark: Benchmark, definition: Definition) -> Plan:
    """Plan its jobs; a class without workloads is a mistake worth stopping for."""
    plan = benchmark.plan()
    if plan.other_class_count and not (plan.jobs or plan.skipped):
        raise UsageError(
            f"none of the selected workloads of {definition.name} is of class "
            f"{plan.workload_class!r}; --workload-class all takes every one"
        )
    return plan
