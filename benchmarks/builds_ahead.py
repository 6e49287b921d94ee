"""What building side by side saves a run: eight C++ solutions that take long to compile, beside one build at a time.

Run: python benchmarks/builds_ahead.py [--rounds 1]

Both are whole `run` commands with a cache of their own, one after the other. Then two commands at once on different
solutions, and how long builds of both were under way at the same time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNT = 8
BAR = 0.65

SOURCE = """\
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <vector>
template <int N> struct Step {
  static double of(std::map<int, std::vector<double>>& seen, double x) {
    auto& row = seen[N];
    row.push_back(x * N);
    std::sort(row.begin(), row.end(), [](double a, double b) { return a < b + N * 1e-9; });
    return Step<N - 1>::of(seen, row.front());
  }
};
template <> struct Step<0> {
  static double of(std::map<int, std::vector<double>>&, double x) { return x; }
};
void increment(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto const* from = static_cast<float const*>(x.data_ptr());
  auto* to = static_cast<float*>(y.data_ptr());
  std::map<int, std::vector<double>> seen;
  if (x.numel() < 0 && std::regex_match(std::to_string(Step<STEPS>::of(seen, from[0])), std::regex("a*"))) return;
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] + 1;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, increment);
"""

PROGRAM = """\
import sys
from pathlib import Path
from flashinfer_bench.bench.parent import builds_ahead
from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import settings
locks, at_once = sys.argv.pop(1), int(sys.argv.pop(1))
settings.lock_folder = lambda: Path(locks)
if at_once:
    builds_ahead.builds_at_once = lambda gpu_count: at_once
cli(prog_name="flashinfer-bench")
"""
"""The command, with device locks of its own; with 0 as it is, else with so many builds at once."""


def write_dataset(root: Path, *, steps: int) -> None:
    """Write a definition, a workload, and solutions that differ in a comment."""
    definition = {
        "name": "increment",
        "op_type": "elementwise",
        "axes": {"n": {"type": "var"}},
        "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
        "reference": "def run(x):\n    return x + 1\n",
    }
    _write(root / "definitions/elementwise/increment.json", definition)
    workload = {"axes": {"n": 1000}, "inputs": {"x": {"type": "random"}}, "uuid": "small"}
    lines = root / "workloads/elementwise/increment.jsonl"
    lines.parent.mkdir(parents=True)
    lines.write_text(json.dumps({"definition": "increment", "workload": workload}) + "\n")
    for number in range(COUNT):
        source = f"// {number}\n" + SOURCE.replace("STEPS", str(steps))
        solution = {
            "name": f"slow_{number}",
            "definition": "increment",
            "author": "benchmark",
            "spec": {
                "language": "cpp",
                "target_hardware": ["cpu"],
                "entry_point": "main.cpp::run",
            },
            "sources": [{"path": "main.cpp", "content": source}],
        }
        folder = root / "solutions/benchmark/elementwise/increment"
        _write(folder / f"slow_{number}.json", solution)


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def command(root: Path, output: Path, *options: str) -> list[str]:
    """Name the arguments of a `run`."""
    quick = ["--num-trials", "1", "--iterations", "10", "--warmup-runs", "1", "--no-audit"]
    place = ["--local", str(root), "--output", str(output), "--device", "cpu"]
    return ["run", *place, *quick, *options]


def program(folder: Path, arguments: Sequence[str], *, at_once: int = 0) -> list[str]:
    """Name the words that start a command."""
    return [sys.executable, "-c", PROGRAM, str(folder / "locks"), str(at_once), *arguments]


def timed_s(words: Sequence[str], cache: Path) -> float:
    """Time a whole command, and refuse one in which a job did not pass."""
    began_s = time.perf_counter()
    done = subprocess.run(
        words,
        env=os.environ | {"FIB_CACHE_PATH": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{done.stderr}")
    return time.perf_counter() - began_s


def overlap_s(root: Path, folder: Path) -> tuple[float, float]:
    """Run two commands at once; give the seconds in which either compiled, and those in which both did."""
    environment = os.environ | {"FIB_CACHE_PATH": str(folder / "cache_of_two")}
    halves = [[f"slow_{n}" for n in range(start, COUNT, 2)] for start in (0, 1)]
    running = [
        psutil.Popen(
            program(folder, command(root, folder / f"two_{index}", "--solutions", *names)),
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        for index, names in enumerate(halves)
    ]
    either_s = both_s = 0.0
    last_s = time.perf_counter()
    while any(each.poll() is None for each in running):
        time.sleep(0.1)
        now_s = time.perf_counter()
        compiling = [_compiles(each) for each in running]
        either_s += any(compiling) * (now_s - last_s)
        both_s += all(compiling) * (now_s - last_s)
        last_s = now_s
    if any(each.returncode for each in running):
        sys.exit("one of the two commands failed")
    return either_s, both_s


def _compiles(process: psutil.Popen) -> bool:
    with contextlib.suppress(psutil.Error):
        return any("cc1plus" in each.name() for each in process.children(recursive=True))
    return False


def main() -> None:
    """Print ratios, each with its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "dataset"
        write_dataset(root, steps=options.steps)
        ratios = []
        for number in range(options.rounds):
            load = os.getloadavg()[0]
            one, many = (command(root, folder / f"{what}{number}") for what in ("one", "many"))
            serial_s = timed_s(program(folder, one, at_once=1), folder / f"cache_of_one{number}")
            ahead_s = timed_s(program(folder, many), folder / f"cache_of_many{number}")
            ratios.append(ahead_s / serial_s)
            print(
                f"{COUNT} C++ solutions on {cores} cores, load {load:.1f}: one build at a time {serial_s:.1f} s, "
                f"side by side {ahead_s:.1f} s, {ratios[-1]:.2f} x (bar on two cores: {BAR})"
            )
        print(f"median {statistics.median(ratios):.2f} x")
        either_s, both_s = overlap_s(root, folder)
        print(
            f"two commands at once: one of them compiled for {either_s:.1f} s, both for {both_s:.1f} s of it, "
            f"{both_s / either_s:.2f} (bar: 0.5)"
        )


if __name__ == "__main__":
    main()
