"""Small entities and a small dataset for the tests of the data layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.data import (
    Correctness,
    Definition,
    Environment,
    Evaluation,
    Performance,
    Solution,
    Trace,
    Workload,
)

DEFINITION: dict[str, Any] = {
    "name": "scaled_rowsum_n256",
    "op_type": "reduce",
    "description": "Sum of each row times a host scalar.",
    "tags": ["status:draft", "fused"],
    "axes": {
        "rows": {"type": "var", "description": "independent rows"},
        "N": {"type": "const", "value": 256, "description": "row length"},
    },
    "constraints": ["rows > 0"],
    "inputs": {
        "x": {"shape": ["rows", "N"], "dtype": "bfloat16", "description": "data"},
        "alpha": {"shape": None, "dtype": "float32", "description": "host scalar"},
    },
    "outputs": {"y": {"shape": ["rows"], "dtype": "float32", "description": "alpha * sum(x, -1)"}},
    "reference": "import torch\n\ndef run(x, alpha):\n    return x.float().sum(-1) * alpha\n",
}
WORKLOAD_LINE = (
    '{"definition":"scaled_rowsum_n256","workload":{"axes":{"rows":128},"inputs":{"x":{"type":'
    '"random"},"alpha":{"type":"scalar","value":0.5}},"uuid":"0f0e7b0a-0000-4000-8000-'
    '000000000001"},"solution":null,"evaluation":null}'
)
TRACE_LINE = (
    '{"definition":"scaled_rowsum_n256","workload":{"axes":{"rows":128},"inputs":{"x":{"type":'
    '"random"},"alpha":{"type":"scalar","value":0.5}},"uuid":"0f0e7b0a-0000-4000-8000-'
    '000000000001"},"solution":"alice_rowsum_v1","evaluation":{"status":"PASSED","environment":'
    '{"hardware":"NVIDIA H100 80GB HBM3","libs":{"torch":"2.8.0","triton":"3.4.0","cuda":"12.8"}}'
    ',"timestamp":"2026-04-30T10:11:12.131415","log":"","correctness":{"max_relative_error":'
    '0.0021,"max_absolute_error":0.0009,"extra":null},"performance":{"latency_ms":0.0061,'
    '"reference_latency_ms":0.0183,"speedup_factor":3.0}}}'
)


def build_definition(name: str = "scaled_rowsum_n256", **changes: Any) -> Definition:
    return Definition.model_validate(DEFINITION | {"name": name} | changes)


def build_solution(
    name: str = "alice_rowsum_v1",
    *,
    author: str = "alice",
    definition: str = "scaled_rowsum_n256",
    sources: dict[str, str] | None = None,
    **spec: Any,
) -> Solution:
    files = sources or {"main.py": "def run(x, alpha):\n    return x.sum(-1) * alpha\n"}
    build = {
        "language": "python",
        "target_hardware": ["cpu"],
        "entry_point": f"{next(iter(files))}::run",
        "destination_passing_style": False,
    }
    return Solution.model_validate(
        {
            "name": name,
            "definition": definition,
            "author": author,
            "spec": build | spec,
            "sources": [{"path": path, "content": text} for path, text in files.items()],
        }
    )


def build_workload(uuid: str = "w1", rows: int = 128) -> Workload:
    return Workload.model_validate(
        {"axes": {"rows": rows}, "inputs": {"x": {}, "alpha": {"value": 0.5}}, "uuid": uuid}
    )


def build_trace(
    solution: str | None = "alice_rowsum_v1",
    *,
    uuid: str = "w1",
    latency_ms: float = 1.0,
    speedup: float | None = 2.0,
    status: str = "PASSED",
    errors: float = 0.001,
    definition: str = "scaled_rowsum_n256",
    rows: int = 128,
    hardware: str = "H100",
    **changes: Any,
) -> Trace:
    """Build a full trace, or a workload-only one where the solution is None."""
    is_passed = status == "PASSED"
    evaluation = Evaluation(
        status=status,
        environment=Environment(hardware=hardware),
        timestamp="2026-04-30T10:11:12+00:00",
        correctness=Correctness(max_relative_error=errors, max_absolute_error=errors)
        if is_passed or status == "INCORRECT_NUMERICAL"
        else None,
        performance=Performance(latency_ms=latency_ms, speedup_factor=speedup)
        if is_passed
        else None,
        **changes,
    )
    return Trace(
        definition=definition,
        workload=build_workload(uuid, rows),
        solution=solution,
        evaluation=None if solution is None else evaluation,
    )


def provenance(**changes: Any) -> dict[str, Any]:
    return {
        "trace_id": "t1",
        "solution_hash": "v1-aa",
        "config_hash": "cc",
        "seed": "00000000000000ff",
        "seed_given": False,
        "run": {"id": "r1"},
        "sandbox": "process",
        "interpreted": False,
    } | changes


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_dataset(root: Path, *traces: Trace) -> Path:
    """Write a definition, its workload, solutions of alice and of the baseline, and traces."""
    definition = build_definition()
    write(root / "definitions/reduce/scaled_rowsum_n256.json", json.dumps(DEFINITION))
    write(root / "workloads/reduce/scaled_rowsum_n256.jsonl", WORKLOAD_LINE + "\n")
    for solution in (build_solution(), build_solution("reference_rowsum", author="baseline")):
        path = root / "solutions" / solution.author / "reduce" / definition.name
        write(path / f"{solution.name}.json", solution.to_json(indent=2))
    lines = "".join(f"{trace.to_json()}\n" for trace in traces)
    if lines:
        write(root / "traces/alice/reduce/scaled_rowsum_n256.jsonl", lines)
    return root


class Builders:
    """What tests build things with."""

    definition = staticmethod(build_definition)
    solution = staticmethod(build_solution)
    workload = staticmethod(build_workload)
    trace = staticmethod(build_trace)
    provenance = staticmethod(provenance)
    dataset = staticmethod(write_dataset)
    write = staticmethod(write)
    definition_json = DEFINITION
    workload_line = WORKLOAD_LINE
    trace_line = TRACE_LINE


@pytest.fixture
def build() -> type[Builders]:
    return Builders


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Folder of a small dataset without traces."""
    return write_dataset(tmp_path / "dataset")
