"""What applying costs: a call that a solution answers, a decorated call with nothing enabled, and enabling.

    python benchmarks/apply.py [FOLDER WITH 100,000 TRACES]

Calls are timed in turns within one process; the best of many short rounds counts, for yardsticks too, because
whatever else runs on the machine only ever adds time. Enabling is timed in fresh processes.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generate_traces import generate

if TYPE_CHECKING:
    from flashinfer_bench.data import TraceSet

CALLS, ROUNDS, REPEATS = 2_000, 400, 5
HIT_BAR, DISABLED_BAR, ENABLE_BAR = 1.5, 4.5, 0.3
SHAPES = {"A": [8, 16], "B": [16, 16], "C": [16], "D": [8, 16]}


def in_turns(timers: dict[str, timeit.Timer]) -> dict[str, float]:
    """Take the best of many rounds."""
    best = dict.fromkeys(timers, float("inf"))
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            best[name] = min(best[name], timer.timeit(CALLS))
    return {name: seconds / CALLS * 1e9 for name, seconds in best.items()}


def four_inputs() -> TraceSet:
    """Make a dataset of one definition with four inputs, and a solution that does nothing."""
    from flashinfer_bench.data import Definition, Solution, Trace, TraceSet
    from flashinfer_bench.tensors.machine import processor_name

    axes = {"d8": {"type": "var"}, "d16": {"type": "const", "value": 16}}
    inputs = {
        name: {"shape": [f"d{size}" for size in shape], "dtype": "float32"}
        for name, shape in SHAPES.items()
    }
    definition = {
        "name": "four",
        "op_type": "none",
        "axes": axes,
        "inputs": inputs,
        "outputs": {"Y": inputs["A"]},
        "reference": "def run(A, B, C, D):\n    return A\n",
    }
    solution = {
        "name": "nothing",
        "definition": "four",
        "author": "bench",
        "spec": {
            "language": "python",
            "target_hardware": ["cpu"],
            "entry_point": "main.py::run",
            "destination_passing_style": False,
        },
        # Another text than the reference's: that is never put in its own place.
        "sources": [{"path": "main.py", "content": "def run(*inputs):\n    return inputs[0]\n"}],
    }
    trace = {
        "definition": "four",
        "workload": {"axes": {"d8": 8}, "inputs": {}, "uuid": "one"},
        "solution": "nothing",
        "evaluation": {
            "status": "PASSED",
            "environment": {"hardware": processor_name()},
            "timestamp": "2026-01-01T00:00:00+00:00",
            "correctness": {},
            "performance": {"latency_ms": 1, "reference_latency_ms": 2, "speedup_factor": 2},
        },
    }
    return TraceSet(
        None,
        {"four": Definition.model_validate(definition)},
        {"four": [Solution.model_validate(solution)]},
        {},
        {"four": [Trace.model_validate(trace)]},
    )


def hit_ratios() -> dict[str, float]:
    """Time hits, decorated and as a function, against `torch.add` of sixteen floats."""
    import torch

    from flashinfer_bench.apply import ApplyRuntime, apply

    tensors = [torch.zeros(shape) for shape in SHAPES.values()]
    x, y = torch.zeros(16), torch.zeros(16)

    @apply("four")
    def four(A: Any, B: Any, C: Any, D: Any) -> Any:  # noqa: ARG001, N803 - never called
        raise AssertionError("the fallback was asked")

    scope = {"add": torch.add, "x": x, "y": y, "f": four, "apply": apply, "four": four}
    scope |= dict(zip("abcd", tensors, strict=True))
    statements = {
        "torch.add": "add(x, y)",
        "decorated": "f(a, b, c, d)",
        "function": "apply('four', (a, b, c, d), None, four)",
    }
    timers = {name: timeit.Timer(said, globals=scope) for name, said in statements.items()}
    with ApplyRuntime(four_inputs()) as runtime:
        best = in_turns(timers)
        with torch.no_grad():
            quiet = in_turns(timers)
    assert runtime.stats().misses == 0
    return {
        "decorated, gradients enabled": best["decorated"] / best["torch.add"],
        "decorated, torch.no_grad": quiet["decorated"] / quiet["torch.add"],
        "fib.apply(...), gradients enabled": best["function"] / best["torch.add"],
        "fib.apply(...), torch.no_grad": quiet["function"] / quiet["torch.add"],
    }


def disabled_ratio() -> float:
    """Time a decorated call with nothing enabled against the plain one."""
    from flashinfer_bench.apply import apply

    def plain(a: int, b: int, c: int, d: int) -> int:  # noqa: ARG001 - its cost is what counts
        return a

    scope = {"plain": plain, "decorated": apply("four")(plain)}
    scope["decorated"](1, 2, 3, 4)
    statements = {name: f"{name}(1, 2, 3, 4)" for name in scope}
    best = in_turns({n: timeit.Timer(said, globals=scope) for n, said in statements.items()})
    return best["decorated"] / best["plain"]


ENABLE = """
import json, sys, time
import torch
from flashinfer_bench.apply import ApplyConfig, enable_apply
folder, config, definition = sys.argv[1:]
start = time.perf_counter()
runtime = enable_apply(folder, ApplyConfig(**json.loads(config)))
enabled = time.perf_counter()
if definition:
    for name in runtime.trace_set.definitions:
        runtime.tables(name)
print(enabled - start, time.perf_counter() - enabled)
"""
DECODE = """
import sys, time
from pathlib import Path
import orjson
start = time.perf_counter()
kept = []
for path in Path(sys.argv[1]).glob("traces/*/*/*.jsonl"):
    with path.open("rb") as lines:
        kept.extend([orjson.loads(line) for line in lines])
print(time.perf_counter() - start)
"""


def seconds(code: str, *arguments: str) -> list[float]:
    """Run a measurement in a fresh process."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


def of_this_machine(folder: Path) -> Path:
    """Copy a dataset with traces that name this machine's processor and no other solution's content."""
    import shutil

    from flashinfer_bench.tensors.machine import processor_name

    copy = Path(tempfile.mkdtemp(prefix="bench-here-")) / "dataset"
    shutil.copytree(folder, copy)
    for path in copy.glob("traces/*/*/*.jsonl"):
        text = path.read_text().replace("NVIDIA H200", processor_name())
        path.write_text(re.sub(r'"provenance":\{.*?\{.*?\}.*?\}', '"provenance":null', text))
    return copy


def enable_ratios(folder: Path) -> dict[str, float]:
    """Time enabling apply against decoding the same traces with orjson; medians of alternating runs."""
    here = of_this_machine(folder)
    lazily = json.dumps({"aot_ratio": 0})
    runs: dict[str, list[float]] = {}
    for _ in range(REPEATS):
        runs.setdefault("orjson", []).append(seconds(DECODE, str(folder))[0])
        runs.setdefault("as generated", []).append(seconds(ENABLE, str(folder), "{}", "")[0])
        enabling, tables = seconds(ENABLE, str(here), lazily, "all")
        runs.setdefault("measured on this machine, aot_ratio=0", []).append(enabling)
        runs.setdefault("then the tables of all 110 definitions", []).append(tables)
    medians = {name: statistics.median(each) for name, each in runs.items()}
    yardstick_s = medians.pop("orjson")
    print(f"orjson, line by line: {yardstick_s:.3f} s")
    return {name: each / yardstick_s for name, each in medians.items()}


def main() -> int:
    """Measure everything; exit with 1 above a bar."""
    given = sys.argv[1:]
    folder = Path(given[0]) if given else generate(Path(tempfile.mkdtemp(prefix="bench-")))
    hits = hit_ratios()
    for name, ratio in hits.items():
        print(f"hit, {name}: {ratio:.2f} x torch.add of 16 floats (bar {HIT_BAR})")
    disabled = disabled_ratio()
    print(f"decorated, nothing enabled: {disabled:.2f} x a plain call (bar {DISABLED_BAR})")
    enabling = enable_ratios(folder)
    for name, ratio in enabling.items():
        bar = "" if name.startswith("then") else f" (bar {ENABLE_BAR})"
        print(f"enable_apply on 100,000 traces, {name}: {ratio:.2f} x{bar}")
    is_over = max(hits.values()) > HIT_BAR or disabled > DISABLED_BAR
    return int(is_over or max(list(enabling.values())[:2]) > ENABLE_BAR)


if __name__ == "__main__":
    sys.exit(main())
