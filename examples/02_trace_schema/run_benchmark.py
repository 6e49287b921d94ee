"""Step 4: check and time every solution on every workload, and show what came out."""

import json
import statistics
from pathlib import Path

from create_definition import RMSNORM, ensure_definition, run_step, step_parser
from create_solutions import BY_LANGUAGE, ensure_solutions
from create_workload import BATCH_SIZES, ensure_workloads

from flashinfer_bench import (
    AxisConst,
    Benchmark,
    BenchmarkConfig,
    Definition,
    Solution,
    TensorSpec,
    Trace,
    TraceSet,
)

# Few calls, for this is an example: on a quiet machine more of them make the intervals narrower.
CONFIG = BenchmarkConfig(num_trials=1, warmup_runs=3, iterations=20)

WORDS = {"triton": "Triton", "cuda": "CUDA", "tilelang": "TileLang"}
STAND_IN = {"triton": "interpreted", "tilelang": "as C on the CPU"}
"""What happens to a kernel where there is no GPU for it."""


def ensure_everything(traces: TraceSet) -> None:
    """Do the earlier steps where they were not done."""
    ensure_definition(traces)
    if not traces.solutions.get(RMSNORM.name):
        ensure_solutions(traces, list(BY_LANGUAGE))
    if not traces.workloads.get(RMSNORM.name):
        ensure_workloads(traces, BATCH_SIZES)


def measure(traces: TraceSet, device: str) -> tuple[list[Trace], dict[tuple[str, str], str]]:
    """Run what can run here; give its traces, and why the rest was skipped, by solution and workload."""
    with Benchmark(traces, CONFIG, device=device) as benchmark:
        plan = benchmark.plan()
        skipped = {(job.solution.name, job.workload.uuid): reason for job, reason in plan.skipped}
        measured = []
        for step in benchmark.run(plan, dump_traces=False):
            if step.trace is not None:
                measured.append(step.trace)
            else:
                reason = getattr(step.outcome, "reason", None) or str(step.outcome)
                skipped[step.job.solution.name, step.job.workload.uuid] = reason
    return measured, skipped


def show_definition(definition: Definition) -> None:
    axes = [
        f"{name} (const: {axis.value})" if isinstance(axis, AxisConst) else f"{name} (var)"
        for name, axis in definition.axes.items()
    ]
    print(f"Definition: {definition.name}")
    print(f"Axes: {', '.join(axes)}")
    print(f"Constraints: {', '.join(definition.constraints)}")
    print("Inputs:")
    for name, spec in definition.inputs.items():
        print(f"  {name}: {tensor_text(spec)}")
    print("Outputs:")
    for name, spec in definition.outputs.items():
        print(f"  {name}: {tensor_text(spec)}")


def tensor_text(spec: TensorSpec) -> str:
    """Say `[batch, hidden] float16`."""
    shape = "scalar" if spec.shape is None else f"[{', '.join(spec.shape)}]"
    return f"{shape} {spec.dtype.value}"


def in_order(traces: TraceSet) -> list[Solution]:
    """Give the solutions in the order of their languages, whichever step made them."""
    order = list(BY_LANGUAGE)
    return sorted(traces.solutions[RMSNORM.name], key=lambda each: order.index(each.spec.language))


def language_of(solution: Solution) -> str:
    return WORDS[solution.spec.language.value]


def show_solutions(traces: TraceSet) -> None:
    print("Solutions:")
    for number, solution in enumerate(in_order(traces), start=1):
        print(f"  {number}. {solution.name} ({language_of(solution)})")


def show_results(
    traces: TraceSet, measured: list[Trace], skipped: dict[tuple[str, str], str]
) -> None:
    found = {(trace.solution, trace.workload.uuid): trace for trace in measured}
    for workload in (trace.workload for trace in traces.workloads[RMSNORM.name]):
        print(f"\nBenchmark Results (batch={workload.axes['batch']}):")
        here = [trace for trace in measured if trace.workload.uuid == workload.uuid]
        print(f"  {'Reference:':10} {reference_text(here)}")
        for solution in in_order(traces):
            key = (solution.name, workload.uuid)
            text = result_text(found[key], solution) if key in found else f"skipped: {skipped[key]}"
            print(f"  {language_of(solution) + ':':10} {text}")


def reference_text(traces: list[Trace]) -> str:
    """Give the median of the reference's times beside each solution."""
    performances = [trace.evaluation.performance for trace in traces if trace.evaluation]
    times = [each.reference_latency_ms for each in performances if each is not None]
    known = [time for time in times if time is not None]
    return milliseconds(statistics.median(known)) if known else "not timed: no solution passed"


def result_text(trace: Trace, solution: Solution) -> str:
    """Say how long a solution took and how that compares, or how else it ended."""
    evaluation = trace.evaluation
    if evaluation is None or evaluation.performance is None:
        return (
            "not run"
            if evaluation is None
            else f"{evaluation.status.value}: {evaluation.log[:300]}"
        )
    performance = evaluation.performance
    text = f"{milliseconds(performance.latency_ms)}  {performance.speedup_factor:.2f}x"
    is_stand_in = evaluation.provenance is not None and evaluation.provenance.interpreted
    if not is_stand_in:
        return text
    return f"{text}  ({STAND_IN[solution.spec.language.value]}: right, but its time means nothing)"


def milliseconds(time_ms: float) -> str:
    return f"{time_ms:.4f} ms"


def main() -> None:
    parser = step_parser(__doc__)
    parser.add_argument("--output", type=Path, default=Path("traces.json"), help="file of traces")
    parser.add_argument("--device", default="auto", help="cpu, cuda:0, …  [default: auto]")
    arguments = parser.parse_args()
    traces = TraceSet.create(arguments.dataset)
    ensure_everything(traces)
    arguments.output.touch()  # now, rather than when the work is done
    show_definition(traces.definitions[RMSNORM.name])
    show_solutions(traces)
    measured, skipped = measure(traces, arguments.device)
    show_results(traces, measured, skipped)
    document = [trace.to_dict() for trace in measured]
    arguments.output.write_text(json.dumps(document, indent=2) + "\n")
    print(f"\n{len(measured)} traces in {arguments.output}")


if __name__ == "__main__":
    run_step(main)
