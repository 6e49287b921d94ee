"""A small dataset with nothing to find fault with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.data import Workload, unpack
from tests.unit.data.rules.datasets import (
    ALICE,
    BLOB,
    DEFINITION,
    NAME,
    PROFILE,
    WORKLOADS,
    Dataset,
    safetensors,
)


def _trace(build: Any, solution: Any, workload: Any, trace_id: str) -> str:
    provenance = build.provenance(trace_id=trace_id, solution_hash=solution.hash())
    trace = build.trace(solution.name, provenance=provenance)
    return trace.model_copy(update={"workload": workload}).to_json() + "\n"


@pytest.fixture
def good(tmp_path: Path, build: Any) -> Dataset:
    """A definition, two workloads (one stored), two solutions, their traces and a profile."""
    dataset = Dataset(tmp_path / "dataset")
    dataset.write(DEFINITION, json.dumps(build.definition_json, indent=2) + "\n")
    dataset.write(BLOB, safetensors({"x": ("BF16", [4, 256], 2048)}))
    alpha = {"type": "scalar", "value": 0.5}
    stored = {"type": "safetensors", "path": f"./{BLOB}", "tensor_key": "x"}
    random = {"type": "random"}
    workloads = [
        Workload.model_validate({"axes": {"rows": rows}, "inputs": {"x": x, "alpha": alpha}})
        for rows, x in ((128, random), (4, stored))
    ]
    lines = [
        {"definition": NAME, "workload": each.to_dict(), "solution": None, "evaluation": None}
        for each in workloads
    ]
    dataset.write(WORKLOADS, "".join(json.dumps(line) + "\n" for line in lines))
    alice = build.solution("alice_rowsum")
    baseline = build.solution(
        "rowsum_baseline",
        author="baseline",
        sources={"main.py": "def run(x, alpha):\n    return alpha * x.sum(-1)\n"},
    )
    unpack(alice, dataset.path(ALICE))
    dataset.write(
        f"solutions/baseline/reduce/{NAME}/rowsum_baseline.json", baseline.to_json(indent=2)
    )
    for number, solution in enumerate((alice, baseline)):
        traces = [_trace(build, solution, w, f"t{number}{n}") for n, w in enumerate(workloads)]
        dataset.write(f"traces/{solution.author}/reduce/{NAME}.jsonl", "".join(traces))
    kernel = {"definition": NAME, "axes": {"rows": 1}}
    profile = {
        "model": "m",
        "framework": "PyTorch",
        "kernels": [{"kernel": kernel, "count": 1}],
    }
    dataset.write(PROFILE, json.dumps(profile))
    return dataset
