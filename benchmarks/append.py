"""What appending one trace costs beyond its fsync, against a bare open, append and close.

python benchmarks/append.py
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from generate_traces import generate

from flashinfer_bench.data import TraceSet

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS, CALLS, BOUND = 7, 2000, 5.0


def best_us(call: Callable[[], object]) -> float:
    """Time a call."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def main() -> None:
    """Measure both, alternating, and print the ratio."""
    os.fsync = lambda _: None  # the disk's own time is not ours to measure
    with tempfile.TemporaryDirectory() as folder:
        trace_set = TraceSet.from_path(generate(Path(folder), traces=2200))
        trace = trace_set.traces["op_050_h4096"][0]
        line = f"{trace.to_json()}\n"
        path = Path(folder) / "bare.jsonl"

        def bare() -> None:
            with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - the barest way
                file.write(line)

        pairs = [(best_us(bare), best_us(lambda: trace_set.append(trace))) for _ in range(REPEATS)]
    bare_us, ours_us = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    print(f"bare open, append, close: {bare_us:.1f} us")
    print(f"append one trace: {ours_us:.1f} us = {ours_us / bare_us:.2f} x (bound {BOUND})")


if __name__ == "__main__":
    main()
