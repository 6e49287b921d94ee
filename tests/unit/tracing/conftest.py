"""A dataset on disk with an attention-like definition and a scalar, and the calls that fit it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from flashinfer_bench.data import Definition, TraceSet, load_jsonl_file, save_json_file
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.data.trace import Trace

GATHER = {
    "name": "gather_d4",
    "op_type": "gather",
    "axes": {
        "rows": {"type": "var"},
        "picked": {"type": "var"},
        "d": {"type": "const", "value": 4},
    },
    "inputs": {
        "x": {"shape": ["rows", "d"], "dtype": "float32"},
        "indices": {"shape": ["picked"], "dtype": "int32"},
        "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["picked", "d"], "dtype": "float32"}},
    "reference": "def run(x, indices, scale):\n    return x[indices.long()] * scale\n",
}


@pytest.fixture
def gather() -> Definition:
    return Definition.model_validate(GATHER)


@pytest.fixture
def trace_set(tmp_path: Path, gather: Definition) -> TraceSet:
    add_definition(tmp_path, gather)
    return TraceSet.from_path(tmp_path)


def add_definition(root: Path, definition: Definition) -> None:
    save_json_file(definition, Layout(root).definition_file(definition))


def call(rows: int = 3, picked: int = 2, scale: Any = 0.5) -> tuple[Any, ...]:
    return torch.ones(rows, 4), torch.arange(picked, dtype=torch.int32), scale


def lines(root: Path, definition: Definition) -> list[Trace]:
    """What lies on disk."""
    path = Layout(root).workload_file(definition)
    return load_jsonl_file(Trace, path) if path.exists() else []


def blobs(root: Path) -> list[Path]:
    return sorted((root / "blob").rglob("*.safetensors"))
