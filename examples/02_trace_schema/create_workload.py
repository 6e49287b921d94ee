"""Step 3: the sizes to measure at, a workload for each batch size."""

import argparse

from create_definition import RMSNORM, ensure_definition, run_step, step_parser

from flashinfer_bench import RandomInput, ScalarInput, Trace, TraceSet, Workload

BATCH_SIZES = [1, 8, 32, 128]
EPS = 1e-5


def workload_of(batch: int) -> Workload:
    """Random rows and gains; its uuid follows from its content, so it is the same every time."""
    return Workload(
        axes={"batch": batch},
        inputs={"x": RandomInput(), "weight": RandomInput(), "eps": ScalarInput(value=EPS)},
    )


def ensure_workloads(traces: TraceSet, batch_sizes: list[int]) -> list[int]:
    """Add what the dataset lacks; give the batch sizes that were added."""
    known = {trace.workload.uuid for trace in traces.workloads.get(RMSNORM.name, [])}
    missing = [batch for batch in batch_sizes if workload_of(batch).uuid not in known]
    traces.add_workload_traces(
        [Trace(definition=RMSNORM.name, workload=workload_of(batch)) for batch in missing]
    )
    return missing


def batch_size_list(text: str) -> list[int]:
    """Read `1,8,32`."""
    sizes = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if len(sizes) != text.count(",") + 1 or 0 in sizes:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of sizes such as 1,8,32")
    return list(dict.fromkeys(sizes))


def main() -> None:
    parser = step_parser(__doc__)
    parser.add_argument(
        "--batch-sizes",
        type=batch_size_list,
        default=BATCH_SIZES,
        help="rows of each workload  [default: 1,8,32,128]",
    )
    arguments = parser.parse_args()
    traces = TraceSet.create(arguments.dataset)
    ensure_definition(traces)
    added = ensure_workloads(traces, arguments.batch_sizes)
    for batch in arguments.batch_sizes:
        identifier = workload_of(batch).uuid
        print(
            f"workload batch={batch} ({identifier}): {'written' if batch in added else 'was there'}"
        )


if __name__ == "__main__":
    run_step(main)
