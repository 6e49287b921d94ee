"""Inputs from a dataset's files, copied into memory that another process can be given; needs no torch.

The judge runs references and can open no file of a dataset: the parent finds the tensors, checks what their
headers say, and passes the bytes on. The format: https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.opening import is_lfs_pointer, open_regular, path_inside
from flashinfer_bench.errors import DatasetError, DatasetNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.tensors.planned import InputPlan, TensorPlan

_LFS_TIMEOUT_S = 500
_LENGTH_BYTES = 8
_LONGEST_HEADER = 100_000_000  # the format's own limit
_ALIGNMENT_BYTES = 64
_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F4": "float4_e2m1",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def shared_files(plans: Iterable[InputPlan], roots: Sequence[str]) -> int | None:
    """Copy the inputs that come from files into memory nobody can change; None where there are none.

    Returns its descriptor, which the caller closes. A file that is not as declared is a `DatasetError`.
    """
    stored = [plan for plan in plans if plan.source == "file"]
    if not stored:
        return None
    memory = os.memfd_create("inputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for plan, start in zip(stored, starts([plan.tensor for plan in stored]), strict=True):
            _copy(plan, roots, memory, start)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(memory)
        raise
    return memory


def starts(tensors: Sequence[TensorPlan]) -> list[int]:
    """Say where in that memory each tensor begins."""
    found, start = [], 0
    for tensor in tensors:
        found.append(start)
        start += -(-tensor.size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return found


def local_file(relative: str, roots: Sequence[str]) -> Path:
    """Find a file of a dataset by its name, and fetch it where git LFS left a pointer."""
    path, root = _find(relative, roots)
    if is_lfs_pointer(path):
        _fetch(path, root)
    return path


def _copy(plan: InputPlan, roots: Sequence[str], memory: int, start: int) -> None:
    path = local_file(plan.path, roots)
    with open_regular(path) as file:
        begin = _place(file.fileno(), plan, path)
        left = plan.tensor.size_bytes
        os.ftruncate(memory, start + left)
        os.lseek(memory, start, os.SEEK_SET)
        while left:
            copied = os.sendfile(memory, file.fileno(), begin, left)
            if copied == 0:
                raise DatasetError("ended while it was read", path=path)
            begin, left = begin + copied, left - copied


def _place(descriptor: int, plan: InputPlan, path: Path) -> int:
    """Find where a tensor begins in its file, and require it to be the declared one."""
    tensor = plan.tensor
    header, data = _header(descriptor, path)
    try:
        entry = header.get(plan.tensor_key)
        if entry is None:
            raise DatasetError(f"has no tensor {plan.tensor_key!r}", path=path)
        found = _DTYPES.get(entry["dtype"], str(entry["dtype"])), tuple(map(int, entry["shape"]))
        begin, end = map(int, entry["data_offsets"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, f"{plan.tensor_key!r}: {error}") from error
    if found != (tensor.dtype, tensor.shape):
        raise DatasetError(
            f"tensor {plan.tensor_key!r} is {found[0]} {found[1]}; input {tensor.name!r} must be "
            f"{tensor.dtype} {tensor.shape}",
            path=path,
        )
    size = os.fstat(descriptor).st_size
    if begin < 0 or end - begin != tensor.size_bytes or data + end > size:
        raise _unreadable(path, f"{plan.tensor_key!r} is said to lie at {begin} to {end}")
    return data + begin


def _header(descriptor: int, path: Path) -> tuple[dict[str, Any], int]:
    """Read what a file holds, and where its data begins."""
    length = int.from_bytes(os.pread(descriptor, _LENGTH_BYTES, 0), "little")
    size = os.fstat(descriptor).st_size
    if not 0 < length <= min(_LONGEST_HEADER, size - _LENGTH_BYTES):
        raise _unreadable(path, f"no header of {length} bytes fits a file of {size}")
    try:
        header = json.loads(os.pread(descriptor, length, _LENGTH_BYTES))
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(header, dict):
        raise _unreadable(path, "its header is no table")
    return header, _LENGTH_BYTES + length


def _unreadable(path: Path, why: str) -> DatasetError:
    return DatasetError(f"is no readable safetensors file: {why}", path=path)


def _find(relative: str, roots: Sequence[str]) -> tuple[Path, Path]:
    """Find a file below a root by its name."""
    for root in map(Path, roots):
        path = path_inside(root, relative)
        if os.path.lexists(path):
            return path, root
    raise DatasetNotFoundError(f"no file {relative!r}", path=roots[0] if roots else None)


def _fetch(path: Path, root: Path) -> None:
    relative = os.path.relpath(path, root)
    command = ["git", "lfs", "pull", "--include", relative]
    remedy = f"run `git lfs pull --include {relative}` in {root}"
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=_LFS_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DatasetError(
            f"is a git-LFS pointer; fetching failed ({error}); {remedy}", path=path
        ) from error
    if done.returncode != 0 or is_lfs_pointer(path):
        said = done.stderr.strip() or "git lfs left the pointer in place"
        raise DatasetError(f"is a git-LFS pointer; fetching failed ({said}); {remedy}", path=path)
