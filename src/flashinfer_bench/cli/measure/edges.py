"""`check --edges`: a kernel on sizes and strides at which kernels go wrong; nothing is timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.cli.measure.running import Collected, measure
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.edges import EdgeReport, EdgeResult, smallest_failing

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.cli.measure.progress import ProgressView
    from flashinfer_bench.data import Definition, Solution, TraceSet


def try_edges(
    trace_set: TraceSet,
    definition: Definition,
    solution: Solution,
    *,
    kernel: str,
    device: str,
    config: BenchmarkConfig,
    retell: Callable[[str], str],
    view: Callable[[Collected], ProgressView],
) -> tuple[EdgeReport, Collected]:
    """Run the suite of a definition; `retell` names the user's files in what is said."""
    from flashinfer_bench.bench import Benchmark  # noqa: PLC0415  # pydantic
    from flashinfer_bench.bench.parent.pool import device_names  # noqa: PLC0415
    from flashinfer_bench.bench.plan import is_stand_in  # noqa: PLC0415
    from flashinfer_bench.bench.tools.edge_cases import edge_config, edge_suite  # noqa: PLC0415
    from flashinfer_bench.data import Trace, TraceSet  # noqa: PLC0415

    held = trace_set.workloads.get(definition.name, [])
    if not held:
        raise UsageError(f"{definition.name} has no workloads to make cases of")
    kind = device_names(device)[0].partition(":")[0]
    suite = edge_suite(
        definition,
        [trace.workload for trace in held],
        is_interpreted=is_stand_in(solution, kind),
    )
    cases = {case.workload.uuid: case for case in suite.cases}
    scratch = TraceSet(
        trace_set.root,
        {definition.name: definition},
        {definition.name: [solution]},
        {
            definition.name: [
                Trace(definition=definition.name, workload=case.workload) for case in suite.cases
            ]
        },
    )
    scratch.roots = trace_set.roots
    benchmark = Benchmark(scratch, edge_config(config), device=device)
    collected = Collected(benchmark.plan(), retell=retell)
    measure(benchmark, collected, view(collected))
    results = tuple(
        EdgeResult(
            case=cases[job.workload].why,
            about=cases[job.workload].about,
            axes=job.axes,
            status=job.status,
            log="" if job.is_passed else job.log,
        )
        for job in collected.results
    )
    report = EdgeReport(
        kernel=kernel,
        definition=definition.name,
        accepted=bool(results) and all(each.is_passed for each in results),
        results=results,
        smallest_failing_size=smallest_failing(results, "size"),
        smallest_failing_stride=smallest_failing(results, "stride"),
        left_out=suite.left_out,
        skipped=collected.skipped,
        dataset_faults=tuple(collected.faults.values()),
    )
    return report, collected
