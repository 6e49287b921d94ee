"""How fast 100,000 traces load, against orjson decoding the same files line by line.

    python benchmarks/loading.py [FOLDER]

Every measurement is a fresh process; measurements alternate, and the best of five counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from generate_traces import generate

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 5
BOUNDS = {"load and best trace": 0.3, "every trace as an entity": 2.5, "load and summary": 1.0}


def decode_lines(folder: Path) -> Callable[[], object]:
    """Prepare the yardstick: orjson, all objects kept."""
    import orjson

    def run() -> object:
        kept = []
        for path in folder.glob("traces/*/*/*.jsonl"):
            with path.open("rb") as lines:
                kept.extend([orjson.loads(line) for line in lines])
        return kept

    return run


def load_best(folder: Path) -> Callable[[], object]:
    """Prepare to load, and ask for one best trace."""
    from flashinfer_bench.data import Trace, TraceSet

    def run() -> tuple[TraceSet, Trace]:
        trace_set = TraceSet.from_path(folder)
        best = trace_set.get_best_trace("op_050_h4096")
        assert best is not None
        return trace_set, best

    return run


def load_entities(folder: Path) -> Callable[[], object]:
    """Prepare to load, and look at every trace."""
    from flashinfer_bench.data import TraceSet

    def run() -> TraceSet:
        trace_set = TraceSet.from_path(folder)
        count = sum(trace.is_successful() for each in trace_set.traces.values() for trace in each)
        assert count > 0
        return trace_set

    return run


def load_summary(folder: Path) -> Callable[[], object]:
    """Prepare to load, and rank the authors."""
    from flashinfer_bench.data import TraceSet

    return lambda: TraceSet.from_path(folder).summary()


TASKS = {
    "yardstick": decode_lines,
    "load and best trace": load_best,
    "every trace as an entity": load_entities,
    "load and summary": load_summary,
}


def resident_mb() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def measure_here(task: str, folder: Path) -> None:
    """Run one task in this process and print seconds and memory growth."""
    run = TASKS[task](folder)
    before_mb = resident_mb()
    start = time.perf_counter()
    kept = run()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "mb": resident_mb() - before_mb, "kept": bool(kept)}))


def measure(task: str, folder: Path) -> tuple[float, float]:
    """Run one task in a fresh process."""
    command = [sys.executable, __file__, str(folder), task]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return answer["seconds"], answer["mb"]


def main() -> None:
    """Measure everything and print ratios beside their bounds."""
    folder = (
        Path(sys.argv[1])
        if len(sys.argv) > 1
        else generate(Path(tempfile.mkdtemp(prefix="bench-")))
    )
    results: dict[str, list[tuple[float, float]]] = {task: [] for task in TASKS}
    for _ in range(REPEATS):
        for task, measured in results.items():
            measured.append(measure(task, folder))
    best = {task: min(measured) for task, measured in results.items()}
    yardstick_s, yardstick_mb = best["yardstick"]
    print(f"orjson, line by line: {yardstick_s:.3f} s, {yardstick_mb:.0f} MB")
    for task, bound in BOUNDS.items():
        seconds, megabytes = best[task]
        ratio = seconds / yardstick_s
        print(f"{task}: {seconds:.3f} s = {ratio:.2f} x (bound {bound}), {megabytes:.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        measure_here(sys.argv[2], Path(sys.argv[1]))
    else:
        main()
