from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from flashinfer_bench.errors import DatasetError, DatasetNotFoundError
from flashinfer_bench.tensors.blobs import load_files, tensors_from_descriptor
from flashinfer_bench.tensors.dtypes import dtype_name, torch_dtype
from flashinfer_bench.tensors.files import shared_files
from flashinfer_bench.tensors.planned import InputPlan, TensorPlan

LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 42\n"
STORED = torch.arange(6, dtype=torch.int32).reshape(2, 3)


def stored(
    path: str = "a.safetensors",
    *,
    key: str = "x",
    shape: tuple[int, ...] = (2, 3),
    dtype: str = "int32",
) -> InputPlan:
    return InputPlan(TensorPlan("x", shape, dtype), "file", path=path, tensor_key=key)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset that holds one file of two tensors."""
    folder = tmp_path / "dataset"
    folder.mkdir()
    save_file({"x": STORED, "z": torch.ones(4)}, folder / "a.safetensors")
    return folder


def test_only_inputs_from_files_are_loaded(root: Path) -> None:
    random = InputPlan(TensorPlan("y", (4,), "float32"), "window")

    loaded = load_files([stored(), random], [str(root)])

    assert list(loaded) == ["x"]
    assert torch.equal(loaded["x"], STORED)


def test_the_first_root_that_holds_a_file_gives_it(root: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    loaded = load_files([stored()], [str(empty), str(root)])

    assert torch.equal(loaded["x"], STORED)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (stored(key="q"), "has no tensor 'q'"),
        (stored(shape=(3, 2)), "is int32 (2, 3); input 'x' must be int32 (3, 2)"),
        (stored(dtype="int64"), "is int32 (2, 3); input 'x' must be int64 (2, 3)"),
    ],
)
def test_a_tensor_that_is_not_the_declared_one_is_the_datasets_fault(
    root: Path, plan: InputPlan, words: str
) -> None:
    with pytest.raises(DatasetError) as caught:
        load_files([plan], [str(root)])

    assert words in str(caught.value)
    assert str(root / "a.safetensors") in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not safetensors", b"\xff" * 100])
def test_a_file_of_another_kind_is_the_datasets_fault(root: Path, content: bytes) -> None:
    (root / "bad.safetensors").write_bytes(content)

    with pytest.raises(DatasetError, match="no readable safetensors file"):
        load_files([stored("bad.safetensors")], [str(root)])


@pytest.mark.parametrize("roots", [True, False])
def test_a_file_that_is_not_there_is_named(root: Path, roots: bool) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"no file 'absent\.safetensors'"):
        load_files([stored("absent.safetensors")], [str(root)] * roots)


@pytest.mark.parametrize("path", ["../outside.safetensors", "/etc/passwd", "b/../../c"])
def test_a_path_that_leaves_the_dataset_is_refused(root: Path, path: str) -> None:
    with pytest.raises(DatasetError, match="leaves the dataset"):
        load_files([stored(path)], [str(root)])


def test_a_link_may_lead_into_the_store_of_the_hubs_cache_and_nowhere_else(tmp_path: Path) -> None:
    repository = tmp_path / "datasets--org--kernels"
    root = repository / "snapshots" / ("0123456789" * 4)
    (repository / "blobs").mkdir(parents=True)
    root.mkdir(parents=True)
    save_file({"x": STORED}, repository / "blobs" / "abc")
    save_file({"x": STORED}, tmp_path / "outside.safetensors")
    (root / "link.safetensors").symlink_to("../../blobs/abc")
    (root / "out.safetensors").symlink_to("../../../outside.safetensors")

    loaded = load_files([stored("link.safetensors")], [str(root)])

    assert torch.equal(loaded["x"], STORED)
    with pytest.raises(DatasetError, match=r"leads by a link to .*, outside of the dataset"):
        load_files([stored("out.safetensors")], [str(root)])


def test_a_store_that_is_itself_a_link_leads_out(tmp_path: Path) -> None:
    root = tmp_path / "datasets--org--kernels" / "snapshots" / ("0123456789" * 4)
    root.mkdir(parents=True)
    save_file({"x": STORED}, tmp_path / "outside.safetensors")
    (root.parents[1] / "blobs").symlink_to(tmp_path)
    (root / "link.safetensors").symlink_to("../../blobs/outside.safetensors")

    with pytest.raises(DatasetError, match="outside of the dataset"):
        load_files([stored("link.safetensors")], [str(root)])


def test_a_tensor_larger_than_declared_is_refused_before_it_is_read(root: Path) -> None:
    header = b'{"x":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'
    file = root / "huge.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(file, 8 + len(header) + (1 << 42))  # a hole: it takes no room

    with pytest.raises(DatasetError, match=r"huge\.safetensors"):
        load_files([stored("huge.safetensors")], [str(root)])


def test_a_pointer_that_cannot_be_fetched_says_what_to_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "big.safetensors").write_text(LFS_POINTER)
    monkeypatch.setenv("PATH", str(root))  # no git here

    with pytest.raises(DatasetError) as caught:
        load_files([stored("big.safetensors")], [str(root)])

    assert "is a git-LFS pointer" in str(caught.value)
    assert f"run `git lfs pull --include big.safetensors` in {root}" in str(caught.value)


def fake_git(folder: Path, script: str) -> Path:
    """A folder whose `git` is a script."""
    folder.mkdir()
    git = folder / "git"
    git.write_text(f"#!/bin/sh\n{script}\n")
    git.chmod(0o755)
    return folder


def test_a_pointer_is_fetched_on_first_use(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "big.safetensors").write_text(LFS_POINTER)
    script = f'echo "$@" > {tmp_path}/asked; /bin/cp a.safetensors "$4"'
    monkeypatch.setenv("PATH", str(fake_git(tmp_path / "bin", script)))

    loaded = load_files([stored("big.safetensors")], [str(root)])

    assert torch.equal(loaded["x"], STORED)
    assert (tmp_path / "asked").read_text() == "lfs pull --include big.safetensors\n"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 0", "git lfs left the pointer in place"),
        ("echo 'no such remote' >&2; exit 2", "no such remote"),
    ],
)
def test_a_fetch_that_fails_repeats_what_git_said(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    (root / "big.safetensors").write_text(LFS_POINTER)
    monkeypatch.setenv("PATH", str(fake_git(tmp_path / "bin", script)))

    with pytest.raises(DatasetError, match=words):
        load_files([stored("big.safetensors")], [str(root)])


def plans_of(tensors: dict[str, torch.Tensor]) -> list[InputPlan]:
    return [
        InputPlan(
            TensorPlan(name, tuple(each.shape), dtype_name(each.dtype)),
            "file",
            path="a.safetensors",
            tensor_key=name,
        )
        for name, each in tensors.items()
    ]


@pytest.mark.parametrize(
    "dtype",
    [
        *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
        *("int64", "int32", "int16", "int8", "bool"),
    ],
)
def test_tensors_reach_another_process_through_a_descriptor(root: Path, dtype: str) -> None:
    stored = {
        "x": torch.arange(6).reshape(2, 3).to(getattr(torch, dtype)),
        "odd": torch.arange(5).to(torch.int8),
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 3),
    }
    save_file(stored, root / "a.safetensors")
    plans = plans_of(stored)

    descriptor = shared_files(plans, [str(root)])
    assert descriptor is not None
    received = tensors_from_descriptor(descriptor, plans)
    os.close(descriptor)

    assert received.keys() == stored.keys()
    assert [received[n].dtype for n in stored] == [each.dtype for each in stored.values()]
    assert [received[n].tolist() for n in stored] == [each.tolist() for each in stored.values()]


def test_nobody_who_is_given_the_descriptor_can_change_what_others_read(root: Path) -> None:
    descriptor = shared_files([stored()], [str(root)])
    assert descriptor is not None

    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"x", 0)
    tensors_from_descriptor(descriptor, [stored()])["x"].fill_(7)
    again = tensors_from_descriptor(descriptor, [stored()])["x"]
    os.close(descriptor)

    assert torch.equal(again, STORED)


@pytest.mark.parametrize(("begin", "end"), [(0, 20), (-8, 16), (96, 120)])
def test_offsets_that_do_not_fit_are_the_datasets_fault(root: Path, begin: int, end: int) -> None:
    entry = {"dtype": "I32", "shape": [2, 3], "data_offsets": [begin, end]}
    header = json.dumps({"x": entry}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(24)
    (root / "bad.safetensors").write_bytes(content)

    with pytest.raises(DatasetError, match="no readable safetensors file"):
        load_files([stored("bad.safetensors")], [str(root)])


def test_without_files_there_is_no_descriptor() -> None:
    assert shared_files([InputPlan(TensorPlan("y", (4,), "float32"), "window")], []) is None


def test_four_bit_values_are_declared_one_by_one_and_loaded_in_pairs(tmp_path: Path) -> None:
    pairs = torch.arange(8, dtype=torch.uint8).reshape(2, 4)
    packed = pairs.view(torch_dtype("float4_e2m1"))
    save_file({"x": packed}, tmp_path / "a.safetensors")

    found = load_files([stored(shape=(2, 8), dtype="float4_e2m1")], [str(tmp_path)])

    assert torch.equal(found["x"].view(torch.uint8), pairs)
