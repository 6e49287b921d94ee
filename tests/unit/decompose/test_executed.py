"""Verification runs what it hands over: tests of files, and wrong kernels on workloads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import flashinfer_bench as fib
from flashinfer_bench.data import TraceSet, Workload
from flashinfer_bench.decompose.capture import export_counts
from flashinfer_bench.decompose.ir import Ref
from flashinfer_bench.decompose.model_file import ModelObject
from flashinfer_bench.decompose.verify import verify_directory
from flashinfer_bench.decompose.verify.cover import Flow
from flashinfer_bench.decompose.verify.findings import VerifyReport
from tests.unit.decompose.traces import Building


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * self.weight


class TypedByPython(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.ones(4, dtype=float).to(x.dtype)  # type: ignore[call-overload]


class Mean(nn.Module):
    """Of so many numbers that it is zero within the tolerance."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((0, 2))


class Hardly(nn.Module):
    """What it adds is less than the tolerance, whatever goes in."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1e-6


class Moving(nn.Module):
    """Takes shapes and dtypes from tensors, joins one tensor, pads by nothing, writes over a transposed view."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        counts = torch.zeros_like(x).index_add(0, at, torch.ones_like(x))
        joined = torch.cat([functional.pad(self.linear(x), (0, 0))], 1) + x.new_full((8,), 2.0)
        filled = x.new_zeros(8, 4)
        filled[:, :4].copy_(x.t())
        return counts + joined * filled.sum()


class Masked(nn.Module):
    """Hides by positions what `torch.export` counts as operations of integers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(8, device=x.device)
        return functional.softmax(x.masked_fill(at[None] > at[:4, None], float("-inf")), -1)


class Given(nn.Module):
    """Adds a buffer that holds infinities."""

    hidden: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("hidden", torch.zeros(8).index_fill(0, torch.tensor([3]), -torch.inf))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.hidden


def _workloads(folder: Path) -> list[Workload]:
    dataset = TraceSet.from_path(folder / "dataset")
    return [each.workload for traces in dataset.workloads.values() for each in traces]


def _verified_and_changed(model: nn.Module, x: torch.Tensor, folder: Path) -> VerifyReport:
    found = fib.decompose(model, (x,), name="changed")
    found.write(folder)
    return verify_directory(folder, seeds=1, source=found.source, may_change=True)


def _written(model: nn.Module, folder: Path) -> fib.Decomposition:
    found = fib.decompose(model, (torch.randn(4, 8),), name="scaled")
    found.write(folder)
    return found


def _files_rung(report: VerifyReport) -> str:
    return next(each.detail for each in report.rungs if each.name == "files")


def test_tests_and_wrong_kernels_are_counted(tmp_path: Path) -> None:
    report = _written(Scaled(), tmp_path / "out").verify(tmp_path / "out", seeds=1)

    assert report.passed
    assert "tests: 1 run; wrong kernels: 7 refused" in _files_rung(report)
    assert report.executed == {
        "tests": {"run": 1},
        "wrong kernels": {"refused": 7, "pass": 0},
        "workloads": {},
    }


def test_what_is_too_large_to_be_executed_is_counted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _written(Scaled(), tmp_path / "out")
    for module in ("executed", "wrong_kernels"):
        monkeypatch.setattr(f"flashinfer_bench.decompose.verify.{module}._MOST_BYTES", 16)

    report = found.verify(tmp_path / "out", seeds=1)

    [file] = (tmp_path / "out").glob("level_0_kernel/*.py")
    assert report.executed["tests"] == {"too large": 1}
    assert report.executed["workloads"] == {"too large": 1}
    assert report.notes == (
        f"without a test that fits into memory: level_0_kernel/{file.name}",
        f"no wrong kernel tried on a workload of: {file.stem} (too large)",
    )


def test_a_file_whose_own_test_fails_is_no_verified_piece(tmp_path: Path) -> None:
    found = _written(Scaled(), tmp_path / "out")
    [file] = (tmp_path / "out").glob("level_0_kernel/*.py")
    file.write_text(file.read_text().replace("CONSTANT_OUTPUTS = []", "OUTPUT_DTYPES = []"))

    report = found.verify(tmp_path / "out", seeds=1)

    assert not report.passed
    [fault] = [each for each in report.findings if each.code == "FILE-test"]
    assert fault.file == f"level_0_kernel/{file.name}"


def test_a_workload_on_which_a_wrong_kernel_passes_is_named(tmp_path: Path) -> None:
    found = _written(Scaled(), tmp_path / "out")
    [workload] = (tmp_path / "out/dataset/workloads").rglob("*.jsonl")
    line = json.loads(workload.read_text())
    line["workload"]["inputs"]["weight"] = {
        "type": "random",
        "distribution": {"type": "uniform", "low": 1.0, "high": 1.001},
    }
    workload.write_text(json.dumps(line) + "\n")

    report = found.verify(tmp_path / "out", seeds=1)

    assert report.passed
    said = {each.message for each in report.findings if each.code == "FILE-weak"}
    assert said == {"on the workload with batch_size = 4 a kernel passes that ignores weight"}
    assert " pass" in _files_rung(report)


def test_a_workload_on_which_a_wrong_kernel_passes_gets_other_inputs(tmp_path: Path) -> None:
    report = _verified_and_changed(Mean(), torch.randn(64, 4, 1024), tmp_path / "out")

    assert {each.code for each in report.findings} == set()
    assert "; workloads: 1 changed" in _files_rung(report)
    [workload] = _workloads(tmp_path / "out")
    assert workload.inputs["x"].distribution is not None  # type: ignore[union-attr]
    assert workload.weak == []


def test_a_workload_on_which_one_passes_whatever_goes_in_is_marked(tmp_path: Path) -> None:
    report = _verified_and_changed(Hardly(), torch.randn(4, 8), tmp_path / "out")

    assert [each.code for each in report.findings] == ["FILE-weak"]
    assert "1 pass; workloads: 1 marked" in _files_rung(report)
    [workload] = _workloads(tmp_path / "out")
    assert workload.weak == ["copies x"]


def test_a_verification_alone_leaves_workloads_as_they_are(tmp_path: Path) -> None:
    found = fib.decompose(Mean(), (torch.randn(64, 4, 1024),))
    found.write(tmp_path / "out")
    before = _workloads(tmp_path / "out")

    report = found.verify(tmp_path / "out", seeds=1)

    assert "workloads: 1 weak" in _files_rung(report)
    assert _workloads(tmp_path / "out") == before


def test_pieces_take_no_tensor_for_its_shape_and_make_no_kernel_of_a_copy(tmp_path: Path) -> None:
    found = fib.decompose(Moving(), (torch.randn(4, 8), torch.tensor([0, 2, 2, 1])))
    found.write(tmp_path / "out")

    assert found.verify(tmp_path / "out", seeds=1).passed
    kernels = {path.stem.split("_")[0] for path in (tmp_path / "out/level_0_kernel").glob("*.py")}
    assert kernels == {"index", "linear", "scatter", "add", "mul", "sum"}
    [counted] = (tmp_path / "out/level_0_kernel").glob("index_add*.py")
    assert "def forward(self, at):" in counted.read_text()


def test_what_export_counts_besides_fractions_is_no_finding(tmp_path: Path) -> None:
    counts = export_counts(ModelObject(Masked(), (torch.randn(4, 8),), "masked"))

    assert counts is not None
    assert counts["softmax"] == 1
    assert not {"gt", "arange"} & counts.keys()


def test_a_piece_that_is_given_infinities_may_make_them(tmp_path: Path) -> None:
    found = _written(Given(), tmp_path / "out")

    report = found.verify(tmp_path / "out", seeds=1)

    assert "FILE-test" not in {each.code for each in report.findings}


def test_a_factory_shaped_like_a_tensor_makes_constants_and_no_work() -> None:
    b = Building()
    x = b.input(4, 8)
    zeros = b.op("zeros_like", x)
    lowest = b.op("sub", zeros, 1e38)
    out: Ref = b.op("maximum", x, lowest)

    trace = b.trace(out)

    assert Flow(trace).work == {trace.ops[-1].id}


def test_pythons_types_are_dtypes(tmp_path: Path) -> None:
    found = fib.decompose(TypedByPython(), (torch.randn(3, 4),))

    assert found.trace.front_end == "meta"
    found.write(tmp_path / "out")
    assert found.verify(tmp_path / "out", seeds=1).passed


class Windowed(nn.Module):
    """Builds a mask in many steps, in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(8, device=x.device)
        near = (at[None] - at[:, None]).abs() < 3
        mask = (near & (at[None] <= at[:, None])).to(x.dtype) * 2.0 - 1.0
        return torch.softmax(self.linear(x) + mask, -1)


def test_a_kernel_is_given_a_constant_that_takes_many_steps(tmp_path: Path) -> None:
    found = fib.decompose(Windowed(), (torch.randn(4, 8, 8),), name="windowed")
    found.write(tmp_path / "out")

    assert found.verify(tmp_path / "out", seeds=1).passed
    [kernel] = (tmp_path / "out/level_0_kernel").glob("add_*.py")
    assert "def forward(self, x, y):" in kernel.read_text()
    assert "arange" not in kernel.read_text().partition("def get_inputs")[0]
    assert "safetensors" in "".join(
        each.read_text() for each in (tmp_path / "out/dataset/workloads/add").glob("*.jsonl")
    )
