"""Tracing on a card: what lies there is recorded by value, and a CUDA graph's recording is left alone."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

import flashinfer_bench as fib
from flashinfer_bench.data import Definition, TraceSet, save_json_file
from flashinfer_bench.data.blobs import load_tensors
from flashinfer_bench.data.layout import Layout

pytestmark = pytest.mark.gpu

SCALE = {
    "name": "scale_d4",
    "op_type": "scale",
    "axes": {"rows": {"type": "var"}, "d": {"type": "const", "value": 4}},
    "inputs": {
        "x": {"shape": ["rows", "d"], "dtype": "float32"},
        "factor": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "d"], "dtype": "float32"}},
    "reference": "def run(x, factor):\n    return x * factor\n",
}


@fib.apply("scale_d4")
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    definition = Definition.model_validate(SCALE)
    save_json_file(definition, Layout(tmp_path).definition_file(definition))
    return tmp_path


def rows(dataset: Path) -> list[int]:
    found = TraceSet.from_path(dataset).workloads.get("scale_d4", [])
    return [trace.workload.axes["rows"] for trace in found]


def test_tensors_on_the_card_are_recorded_by_value_before_they_change(dataset: Path) -> None:
    x = torch.arange(12.0, device="cuda").reshape(3, 4)

    with fib.enable_tracing(dataset, fib.TracingConfig("dump_all")):
        scale(x, 2.0)
        x.zero_()
        scale(torch.ones(5, 4, device="cuda"), torch.tensor(0.5, device="cuda"))  # type: ignore[arg-type]

    blobs = [load_tensors(path)["x"] for path in (dataset / "blob").rglob("*.safetensors")]
    assert rows(dataset) == [3, 5]
    assert sorted(blob.sum().item() for blob in blobs) == [20.0, 66.0]


def test_what_a_graph_records_is_skipped_with_one_warning_and_the_graph_is_sound(
    dataset: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.ones(3, 4, device="cuda")
    graph = torch.cuda.CUDAGraph()

    with (
        caplog.at_level(logging.WARNING, "flashinfer_bench.tracing"),
        fib.enable_tracing(dataset, fib.TracingConfig("dump_all")) as runtime,
    ):
        with torch.cuda.graph(graph):
            y = scale(scale(x, 2.0), 3.0)
            runtime.flush()
        x.fill_(10.0)
        graph.replay()
        scale(torch.ones(7, 4, device="cuda"), 1.0)

    said = [record.message for record in caplog.records]
    assert said == ["calls under CUDA-graph capture are not traced"]
    assert torch.equal(y.cpu(), torch.full((3, 4), 60.0))
    assert rows(dataset) == [7]
