"""A tiny definition, and solutions for it that behave and misbehave."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from flashinfer_bench.bench import BenchmarkConfig
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
    save_json_file,
    save_jsonl_file,
)

QUICK = {
    "warmup_runs": 2,
    "iterations": 10,
    "num_trials": 1,
    "timeout_seconds": 20,
    "threads": 1,
    "disturbed_repeats": 0,  # as many calls in every run, whatever else computes here
}

INCREMENT = Definition(
    name="increment",
    op_type="elementwise",
    axes={"n": AxisVar()},
    inputs={"x": TensorSpec(shape=["n"], dtype="float32")},
    outputs={"y": TensorSpec(shape=["n"], dtype="float32")},
    reference="def run(x):\n    return x + 1\n",
)
HONEST = "def run(x):\n    return x + 1\n"


def solution(
    source: str,
    *,
    name: str = "candidate",
    definition: str = "increment",
    into: bool = False,
    author: str = "tester",
) -> Solution:
    """A Python solution from its source."""
    return Solution(
        name=name,
        definition=definition,
        author=author,
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu"],
            entry_point="main.py::run",
            destination_passing_style=into,
        ),
        sources=[SourceFile(path="main.py", content=textwrap.dedent(source))],
    )


def dataset(
    *solutions: Solution, sizes: tuple[int, ...] = (1000,), definition: Definition = INCREMENT
) -> TraceSet:
    """A dataset in memory; one workload per size of axis `n`."""
    workloads = [Workload(axes={"n": size}, inputs={"x": {"type": "random"}}) for size in sizes]
    return TraceSet(
        definitions={definition.name: definition},
        solutions={definition.name: list(solutions)},
        workloads={
            definition.name: [Trace(definition=definition.name, workload=w) for w in workloads]
        },
    )


def quick(**overrides: object) -> BenchmarkConfig:
    """Settings for a job of a fraction of a second."""
    return BenchmarkConfig(**{**QUICK, **overrides})


def write_dataset(
    root: Path,
    *solutions: Solution,
    sizes: tuple[int, ...] = (1000,),
    definition: Definition = INCREMENT,
) -> Path:
    """The same dataset as a folder."""
    save_json_file(definition, root / "definitions" / definition.op_type / "increment.json")
    for each in solutions:
        folder = root / "solutions" / each.author / definition.op_type / definition.name
        save_json_file(each, folder / f"{each.name}.json")
    workloads = dataset(sizes=sizes, definition=definition).workloads[definition.name]
    save_jsonl_file(workloads, root / "workloads" / definition.op_type / "increment.jsonl")
    return root


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s, "nothing happened in time"
        time.sleep(0.01)


def slow(name: str, seconds: float = 0.01) -> Solution:
    """A solution whose job takes a while."""
    return solution(
        f"import time\ndef run(x):\n    time.sleep({seconds})\n    return x + 1\n", name=name
    )
