"""Beside a workload that is not for a CPU stands one that is, at sizes at which the piece does the same."""

from pathlib import Path

import pytest
import torch
from torch import nn

from flashinfer_bench.data import Definition, TraceSet, Workload
from flashinfer_bench.data.profile import Profile
from flashinfer_bench.decompose import decompose
from flashinfer_bench.decompose.emit.cpu_workloads import cpu_workload

ROWS = 1 << 21


def written(model: nn.Module, folder: Path, *inputs: torch.Tensor) -> TraceSet:
    with torch.device("meta"):
        decompose(model, inputs, name="wide").write(folder / "out")
    return TraceSet.from_path(folder / "out/dataset")


def test_a_workload_for_a_cpu_stands_beside_a_full_one(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU()).to("meta")

    dataset = written(model, tmp_path, torch.empty(ROWS, 64, device="meta"))

    assert len(dataset.definitions) == 2
    for name in dataset.definitions:
        full, small = (each.workload for each in dataset.workloads[name])
        assert (full.size_class, small.size_class) == ("full", "small")
        (axis,) = full.axes
        assert full.axes[axis] == ROWS
        assert small.axes[axis] < ROWS
        assert ROWS % small.axes[axis] == 0
        assert small.inputs == full.inputs
        assert small.uuid != full.uuid


def test_the_profile_counts_what_the_model_runs(tmp_path: Path) -> None:
    written(nn.Linear(64, 256).to("meta"), tmp_path, torch.empty(ROWS, 64, device="meta"))

    (file,) = tmp_path.rglob("profiles/*/*.json")
    (use,) = Profile.model_validate_json(file.read_text()).kernels

    assert use.count == 1
    assert ROWS in use.kernel.axes.values()


def test_a_small_one_stays_alone(tmp_path: Path) -> None:
    dataset = written(nn.Linear(64, 256).to("meta"), tmp_path, torch.empty(8, 64, device="meta"))

    ((trace,),) = dataset.workloads.values()
    assert trace.workload.size_class is None


TABLE = Definition.model_validate({
    "name": "table", "op_type": "embedding", "axes": {"rows": {"type": "var"}, "size": {"type": "var"}},
    "inputs": {"at": {"shape": ["rows"], "dtype": "int64"}, "table": {"shape": ["size"], "dtype": "float32"}},
    "outputs": {"out": {"shape": ["rows"], "dtype": "float32"}},
    "reference": "def run(at, table):\n    return table[at]\n",
})  # fmt: skip


@pytest.mark.parametrize("distribution", [{"type": "integers", "low": 0, "high": 1 << 29}])
def test_what_points_into_a_size_keeps_it(distribution: dict) -> None:
    workload = Workload.model_validate({
        "axes": {"rows": 1 << 29, "size": 1 << 29}, "uuid": "a", "size_class": "full",
        "inputs": {"at": {"type": "random", "distribution": distribution}, "table": {"type": "random"}},
    })  # fmt: skip

    assert cpu_workload(TABLE, workload) is None
