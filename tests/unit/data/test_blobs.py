from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.data import TraceSet
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "scaled_rowsum_n256"


def test_stored_tensors_come_back(root: Path) -> None:
    torch = pytest.importorskip("torch")
    trace_set = TraceSet.from_path(root)
    tensors = {"x": torch.arange(6.0).reshape(2, 3).t(), "y": torch.tensor(1)}

    path = trace_set.add_workload_blob_tensor(NAME, "w1", tensors)
    loaded = trace_set.get_workload_blob_tensor(f"./{path}")

    assert path == f"blob/workloads/reduce/{NAME}/{NAME}_w1.safetensors"
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    assert {tensor.device.type for tensor in loaded.values()} == {"cpu"}


def test_a_blob_is_never_overwritten(root: Path) -> None:
    torch = pytest.importorskip("torch")
    trace_set = TraceSet.from_path(root)
    trace_set.add_workload_blob_tensor(NAME, "w1", {"x": torch.zeros(1)})

    with pytest.raises(ValueError, match="exists already"):
        trace_set.add_workload_blob_tensor(NAME, "w1", {"x": torch.ones(1)})

    assert trace_set.get_workload_blob_tensor(
        f"blob/workloads/reduce/{NAME}/{NAME}_w1.safetensors"
    )["x"] == torch.zeros(1)


def test_a_blob_that_cannot_be_written_is_an_os_error(build: Any, root: Path) -> None:
    torch = pytest.importorskip("torch")
    build.write(root / "blob", "in the way")

    with pytest.raises(OSError, match="blob"):
        TraceSet.from_path(root).add_workload_blob_tensor(NAME, "w1", {"x": torch.zeros(1)})


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "blob/../../secret", ".", ""])
def test_a_path_that_leaves_the_root_is_refused(root: Path, path: str) -> None:
    with pytest.raises(DatasetError, match="leaves the dataset"):
        TraceSet.from_path(root).get_workload_blob_tensor(path)


def test_a_missing_blob_is_named(root: Path) -> None:
    pytest.importorskip("torch")

    with pytest.raises(ValueError, match=r"gone\.safetensors"):
        TraceSet.from_path(root).get_workload_blob_tensor("blob/gone.safetensors")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "not downloaded yet: `git lfs pull`",
        ),
        ("nonsense", "not a safetensors file"),
        ("", "not a safetensors file"),
    ],
)
def test_a_blob_that_is_none_is_named(build: Any, root: Path, content: str, fault: str) -> None:
    pytest.importorskip("torch")
    build.write(root / "blob/a.safetensors", content)

    with pytest.raises(DatasetError, match=rf"a\.safetensors: {fault}"):
        TraceSet.from_path(root).get_workload_blob_tensor("blob/a.safetensors")
