"""What tracing costs a program: calls that the filter drops, and a model with dumping on.

python benchmarks/tracing.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import flashinfer_bench as fib
from flashinfer_bench.data import Definition, TraceSet, save_json_file
from flashinfer_bench.data.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

DEMO = Path(__file__).parents[1] / "examples" / "03_close_the_loop"
CALLS, REPEATS, ROUNDS, PASSES = 5000, 15, 11, 8
BOUND_DROPPED, BOUND_THROUGHPUT = 1.5, 0.9
ATTENTION = {
    "name": "masked_attention_h4_d8",
    "op_type": "attention",
    "axes": {
        "queries": {"type": "var"},
        "tokens": {"type": "var"},
        "heads": {"type": "const", "value": 4},
        "d": {"type": "const", "value": 8},
    },
    "inputs": {
        "q": {"shape": ["queries", "heads", "d"], "dtype": "float32"},
        "k": {"shape": ["tokens", "heads", "d"], "dtype": "float32"},
        "v": {"shape": ["tokens", "heads", "d"], "dtype": "float32"},
        "mask": {"shape": ["queries", "tokens"], "dtype": "float32"},
    },
    "outputs": {"o": {"shape": ["queries", "heads", "d"], "dtype": "float32"}},
    "reference": "def run(q, k, v, mask):\n    return q\n",
}
DUMPING = fib.TracingConfig("dump_all", filter_policy="keep_first_k_by_axes")


def time_us(call: Callable[[], object]) -> float:
    """Time a call."""
    start_s = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start_s) / CALLS * 1e6


def dropped(root: Path) -> None:
    """Compare a call of four inputs that the filter drops with `torch.add`."""
    definition = Definition.model_validate(ATTENTION)
    save_json_file(definition, Layout(root).definition_file(definition))
    args = (torch.ones(2, 4, 8), torch.ones(9, 4, 8), torch.ones(9, 4, 8), torch.ones(2, 9))
    a, b = torch.ones(16), torch.ones(16)

    def function(q: Any, k: Any, v: Any, mask: Any) -> Any:  # noqa: ARG001 - four inputs
        return q

    call = fib.apply(definition.name)(function)
    runtime = fib.enable_tracing(root, DUMPING)
    call(*args)
    rows = [
        (
            time_us(lambda: torch.add(a, b)),
            time_us(lambda: function(*args)),
            time_us(lambda: runtime.collect(definition.name, args)),
            time_us(lambda: call(*args)),
        )
        for _ in range(REPEATS)
    ]
    runtime.stop()
    assert runtime.written.workloads.total() == 1
    add_us, plain_us, collect_us, call_us = map(min, zip(*rows, strict=True))
    print(f"torch.add of 16 floats: {add_us:.2f} us; the function itself {plain_us:.2f} us")
    print(f"collect, dropped: {collect_us:.2f} us = {collect_us / add_us:.2f} x")
    print(
        f"decorated call, dropped, function and all: {call_us:.2f} us = {call_us / add_us:.2f} x "
        f"(bound {BOUND_DROPPED})"
    )


def throughput(root: Path) -> None:
    """Compare passes of the demo's model, traced into an empty dataset each time and not, in turns."""
    sys.path.insert(0, str(DEMO))
    from model import Sizes, built, generate

    torch.set_num_threads(1)
    model, prompt = built(Sizes(), 128)
    definitions = TraceSet.from_path(DEMO / "dataset").definitions.values()

    def passes_s(count: int = 1) -> float:
        start_s = time.process_time()  # of the writer's thread too
        for _ in range(count):
            generate(model, prompt, 64)
        return time.process_time() - start_s

    passes_s()
    ratios, first = [], []
    for turn in range(ROUNDS):
        folder = root / str(turn)
        for each in definitions:
            save_json_file(each, Layout(folder).definition_file(each))
        with fib.enable_tracing(folder, DUMPING) as runtime:
            first_s = passes_s()  # the one in which every workload is written
            traced_s = first_s + passes_s(PASSES - 1)
        assert runtime.written.workloads.total() == 9
        plain_s = passes_s(PASSES)
        ratios.append(plain_s / traced_s)
        first.append(plain_s / PASSES / first_s)
    print(
        f"throughput of the demo's model with dumping on, {PASSES * 64} tokens: "
        f"{statistics.median(ratios):.3f} x untraced (bound {BOUND_THROUGHPUT}); the first 64, in which "
        f"nine workloads of {runtime.written.blob_bytes / 2**20:.1f} MiB are written: "
        f"{statistics.median(first):.3f} x"
    )


def main() -> None:
    """Print both."""
    with tempfile.TemporaryDirectory() as folder:
        dropped(Path(folder) / "dropped")
        throughput(Path(folder) / "throughput")


if __name__ == "__main__":
    main()
