"""Small costs that grow with use, in this package and beside another one of the same Python names.

    python benchmarks/small_costs.py [FOLDER] [--beside PYTHON]

PYTHON is the interpreter of an environment in which the existing system is installed (`pip install flashinfer-bench`
of PyPI, in a folder of its own). Tasks use only names that both have. Each measurement is a fresh process, the two
alternate, and the median of five counts (of jobs: one). FOLDER holds what `generate_traces.py` writes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 5
NAME = "op_050_h4096"
MOST_MB = 100
CALLS = 400
CPP = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <cstring>
void copy(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  std::memcpy(y.data_ptr(), x.data_ptr(), x.numel() * sizeof(float));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, copy);
"""
VECTOR = {"shape": ["n"], "dtype": "float32"}
COPY = {
    "name": "copy",
    "op_type": "elementwise",
    "axes": {"n": {"type": "var"}},
    "inputs": {"x": VECTOR},
    "outputs": {"y": VECTOR},
    "reference": "def run(x):\n    return x\n",
}
SOLUTION = {
    "name": "copy_cpp",
    "definition": "copy",
    "author": "benchmark",
    "spec": {"language": "cpp", "target_hardware": ["cpu"], "entry_point": "main.cpp::run"},
    "sources": [{"path": "main.cpp", "content": CPP}],
}
ROWS = {"shape": ["rows", "hidden"], "dtype": "float32"}
NORM = {
    "name": "norm",
    "op_type": "rmsnorm",
    "axes": {"rows": {"type": "var"}, "hidden": {"type": "const", "value": 64}},
    "inputs": {"x": ROWS, "weight": {"shape": ["hidden"], "dtype": "float32"}},
    "outputs": {"y": ROWS},
    "reference": "def run(x, weight):\n    return x * weight\n",
}
Figures = dict[str, float]
"""Seconds by what was done, and `MB`, by which the process grew."""


def seconds(call: Callable[[], object]) -> float:
    """Time one call."""
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


def resident_mb() -> float:
    """Give the memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def of_trace_set(folder: Path) -> Figures:
    """Load, look for traces, add one."""
    from flashinfer_bench.data import TraceSet

    before_mb = resident_mb()
    began_s = time.perf_counter()
    traces = TraceSet.from_path(str(folder))
    figures = {"load": time.perf_counter() - began_s}
    figures["get_best_trace, first"] = seconds(lambda: traces.get_best_trace(NAME))
    figures["get_best_trace, again"] = seconds(lambda: traces.get_best_trace(NAME))
    figures["MB"] = resident_mb() - before_mb
    kept: list[Any] = []
    figures["filter_traces, first"] = seconds(lambda: kept.append(traces.filter_traces(NAME)))
    figures["filter_traces, again"] = seconds(lambda: traces.filter_traces(NAME))
    figures["load and filter_traces"] = figures["load"] + figures["filter_traces, first"]
    figures["get_best_trace after filter_traces"] = seconds(lambda: traces.get_best_trace(NAME))
    added = kept[0][0]
    ours = [seconds(lambda: traces.add_traces([added])) for _ in range(200)]
    figures["add_traces of one"] = statistics.median(ours)
    os.fsync = lambda _: None
    ours = [seconds(lambda: traces.add_traces([added])) for _ in range(200)]
    figures["add_traces of one, without fsync"] = statistics.median(ours)
    return figures


def of_build(folder: Path) -> Figures:
    """Build what another process has built."""
    import torch  # noqa: F401  # who builds has it
    import tvm_ffi  # noqa: F401

    from flashinfer_bench.compile import BuilderRegistry
    from flashinfer_bench.data import Definition, Solution

    os.environ["FIB_CACHE_PATH"] = str(folder)
    definition, solution = Definition.model_validate(COPY), Solution.model_validate(SOLUTION)
    registry = BuilderRegistry.get_instance()
    return {"C++ in the cache": seconds(lambda: registry.build(definition, solution))}


def of_tracing(folder: Path) -> Figures:
    """Collect calls, each of a size of its own, one with its inputs and one without."""
    import torch

    from flashinfer_bench import TracingConfig, enable_tracing
    from flashinfer_bench.data import Definition, save_json_file

    figures = {}
    weight, table = torch.ones(64), torch.ones(2 * CALLS, 64)
    for policy in ("dump_none", "dump_all"):
        root = folder / policy
        (root / "definitions/rmsnorm").mkdir(parents=True)
        save_json_file(Definition.model_validate(NORM), root / "definitions/rmsnorm/norm.json")
        config = TracingConfig(input_dump_policy=policy, filter_policy="keep_all")
        calls = [(table[: 1 + at], weight) for at in range(2 * CALLS)]
        runtime = enable_tracing(str(root), config)
        for args in calls[:CALLS]:
            runtime.collect("norm", args, {})
        took = [
            seconds(lambda: runtime.collect("norm", args, {}))  # noqa: B023
            for args in calls[CALLS:]
        ]
        figures[f"a collected call, {policy}"] = statistics.median(took)
        figures[f"a collected call and its line, {policy}"] = (
            seconds(runtime.flush) + sum(took)
        ) / CALLS
        runtime.stop()
    return figures


def of_jobs(_: Path) -> Figures:
    """Run ten trivial solutions on ten workloads; nothing where this package cannot run here."""
    import torch

    from flashinfer_bench import Benchmark, BenchmarkConfig

    kind = "cuda" if torch.cuda.is_available() else "cpu"
    has_audit = hasattr(BenchmarkConfig(), "audit")
    figures = {}
    for name, settings in (("", {}), (", unaudited", {"audit": False} if has_audit else {})):
        if not (name or has_audit):
            continue
        benchmark = Benchmark(ten_by_ten(kind), BenchmarkConfig(**settings))
        began_s = time.perf_counter()
        done = benchmark.run_all(dump_traces=False)
        took_s = time.perf_counter() - began_s
        benchmark.close()
        traces = done.traces["copy"]
        assert [each.evaluation.status.value for each in traces] == ["PASSED"] * 100
        figures[f"a job of ten by ten{name}"] = took_s / len(traces)
    return figures


def ten_by_ten(kind: str) -> Any:
    """Make ten trivial solutions, and ten workloads, in memory."""
    from flashinfer_bench.data import Definition, Solution, Trace, TraceSet

    spec = {"language": "python", "target_hardware": [kind], "entry_point": "main.py::run"}
    solutions = [
        SOLUTION
        | {
            "name": f"copy_{at}",
            "spec": spec | {"destination_passing_style": False},
            "sources": [{"path": "main.py", "content": f"def run(x):  # {at}\n    return x + 0\n"}],
        }
        for at in range(10)
    ]
    workloads = [
        {"axes": {"n": 64 + at}, "inputs": {"x": {"type": "random"}}, "uuid": f"w{at}"}
        for at in range(10)
    ]
    lines = [{"definition": "copy", "workload": each} for each in workloads]
    return TraceSet(
        definitions={"copy": Definition.model_validate(COPY)},
        solutions={"copy": [Solution.model_validate(each) for each in solutions]},
        workloads={"copy": [Trace.model_validate(each) for each in lines]},
    )


TASKS: dict[str, Callable[[Path], Figures]] = {
    "trace set": of_trace_set,
    "build": of_build,
    "tracing": of_tracing,
    "jobs": of_jobs,
}


def measured(python: str, task: str, folder: Path) -> Figures:
    """Do a task in a fresh process of an interpreter."""
    environment = os.environ | {"FIB_CACHE_PATH": str(folder), "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(
        [python, __file__, str(folder), "--task", task],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )
    if ran.returncode:
        print(f"{python}: {task}: {ran.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return {}
    figures: Figures = json.loads(ran.stdout.splitlines()[-1])
    return figures


def all_measured(pythons: list[str], traces: Path, space: Path) -> dict[str, list[Figures]]:
    """Do every task with every interpreter, in turns; give a list of figures for each."""
    found: dict[str, list[Figures]] = {python: [] for python in pythons}
    for index, python in enumerate(pythons):
        measured(python, "build", space / f"cache{index}")  # cold
    for turn in range(REPEATS):
        for index, python in enumerate(pythons):
            folder = space / f"{index}-{turn}"
            subprocess.run(["cp", "-r", str(traces), str(folder)], check=True)
            figures = measured(python, "trace set", folder)
            subprocess.run(["rm", "-r", str(folder)], check=True)
            figures |= measured(python, "build", space / f"cache{index}")
            figures |= measured(python, "tracing", folder)
            if not turn:
                figures |= measured(python, "jobs", folder)
            found[python].append(figures)
    return found


def median_of(what: str, figures: list[Figures]) -> float | None:
    """Give the median of those that have it."""
    values = [each[what] for each in figures if what in each]
    return statistics.median(values) if values else None


def text_of(name: str, figure: float) -> str:
    """Write a figure with its unit."""
    return f"{figure:,.0f} MB" if name == "MB" else f"{figure * 1e3:,.3f} ms"


def main() -> None:
    """Print a line for each cost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--beside", help="the interpreter that has the existing system")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print("\n" + json.dumps(TASKS[options.task](options.folder)))
        return
    from generate_traces import generate

    pythons = [sys.executable, *([options.beside] if options.beside else [])]
    with tempfile.TemporaryDirectory() as name:
        space = Path(name)
        traces = options.folder or generate(space / "traces")
        found = all_measured(pythons, traces, space)
    for what in found[sys.executable][0]:
        medians = [median_of(what, found[python]) for python in pythons]
        words = ["-" if each is None else text_of(what, each) for each in medians]
        known = [each for each in medians if each is not None]
        ratio = f"  {known[0] / known[1]:8.2f} x" if len(known) > 1 else ""
        bar = f"  (bar {MOST_MB} MB)" if what == "MB" else ""
        print(f"{what:42}{''.join(f'{each:>16}' for each in words)}{ratio}{bar}")


if __name__ == "__main__":
    main()
