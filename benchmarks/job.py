"""One more (solution, workload) job, isolated, with a warm fork server, against starting a Python with torch.

The kernel is trivial (`x + 1` on 4,096 floats) and the settings are the defaults (3 trials of 10 warm-ups and
50 samples, audit on), so what is timed is what the suite itself costs. Bar: 0.15.

    python benchmarks/job.py            # the ratio
    python benchmarks/job.py --account  # where a job's milliseconds go, by `device_time.py`'s table
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.data import (
    AxisVar,
    BuildSpec,
    Definition,
    Solution,
    SourceFile,
    SupportedLanguages,
    TensorSpec,
    Trace,
    TraceSet,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 7
ACCOUNTED = 20
BAR = 0.15
SOURCE = "def run(x):\n    return x + 1\n"


def trivial() -> tuple[TraceSet, Solution]:
    """Make a dataset in memory with one small workload, and an honest solution."""
    tensor = TensorSpec(shape=["n"], dtype="float32")
    definition = Definition(
        name="increment",
        op_type="elementwise",
        axes={"n": AxisVar()},
        inputs={"x": tensor},
        outputs={"y": tensor},
        reference=SOURCE,
    )
    workload = Workload(axes={"n": 4096}, inputs={"x": {"type": "random"}})
    solution = Solution(
        name="trivial",
        definition="increment",
        author="me",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu"],
            entry_point="main.py::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path="main.py", content=SOURCE)],
    )
    workloads = {"increment": [Trace(definition="increment", workload=workload)]}
    return TraceSet(definitions={"increment": definition}, workloads=workloads), solution


def seconds(action: Callable[[], object]) -> float:
    """Time one call."""
    started_s = time.perf_counter()
    action()
    return time.perf_counter() - started_s


def import_torch() -> None:
    """Start a Python that imports torch and ends."""
    subprocess.run([sys.executable, "-c", "import torch"], check=True)


def account() -> None:
    """Print what a job's time goes into. Keeping the account costs some of it."""
    import device_time  # beside this file

    spans = device_time.probe_parent()
    trace_set, solution = trivial()
    config = BenchmarkConfig(use_isolated_runner=True)
    with Benchmark(trace_set, config, device="cpu") as benchmark:
        for _ in range(2):
            benchmark.run_solution(solution, dump_traces=False)
        spans.take()
        jobs_s = [
            seconds(lambda: benchmark.run_solution(solution, dump_traces=False))
            for _ in range(ACCOUNTED)
        ]
        device_time.printed(
            f"one isolated job, mean of {ACCOUNTED}", spans.take(), 1e3 * sum(jobs_s), per=ACCOUNTED
        )


def main() -> None:
    """Alternate jobs with fresh interpreters and print the ratio of their medians."""
    trace_set, solution = trivial()
    jobs_s, imports_s = [], []
    config = BenchmarkConfig(use_isolated_runner=True)
    with Benchmark(trace_set, config, device="cpu") as benchmark:
        for _ in range(2):
            benchmark.run_solution(solution, dump_traces=False)
        for _ in range(REPEATS):
            imports_s.append(seconds(import_torch))
            jobs_s.append(seconds(lambda: benchmark.run_solution(solution, dump_traces=False)))
    job_s, import_s = statistics.median(jobs_s), statistics.median(imports_s)
    ratio = job_s / import_s
    print(f"one isolated job                {job_s * 1e3:8.1f} ms")
    print(f"python -c 'import torch'        {import_s * 1e3:8.1f} ms")
    print(f"ratio {ratio:.3f} (bar {BAR}) {'ok' if ratio <= BAR else 'OVER'}")


if __name__ == "__main__":
    account() if "--account" in sys.argv[1:] else main()
