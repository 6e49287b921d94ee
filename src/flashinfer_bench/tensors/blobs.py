"""Tensors from files: safetensors of a dataset, and their way into another process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.data.blobs import is_lfs_pointer, path_inside
from flashinfer_bench.errors import DatasetError, DatasetNotFoundError
from flashinfer_bench.tensors.dtypes import dtype_name, torch_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import torch

    from flashinfer_bench.tensors.planned import InputPlan

_LFS_TIMEOUT_S = 500


def load_files(plans: Iterable[InputPlan], roots: Sequence[str]) -> dict[str, torch.Tensor]:
    """Load the inputs that come from files, on the CPU, checked against their plan."""
    return {plan.tensor.name: _load(plan, roots) for plan in plans if plan.source == "file"}


def shared_file(tensors: Mapping[str, torch.Tensor]) -> int:
    """Put tensors into anonymous memory that can be passed to another process; the caller closes it."""
    from safetensors.torch import save  # noqa: PLC0415  # most workloads have no files

    descriptor = os.memfd_create("inputs", os.MFD_CLOEXEC)
    content = memoryview(save({name: tensor.contiguous() for name, tensor in tensors.items()}))
    while content:
        content = content[os.write(descriptor, content) :]
    return descriptor


def tensors_from_descriptor(descriptor: int) -> dict[str, torch.Tensor]:
    """Read what `shared_file` wrote."""
    from safetensors.torch import load  # noqa: PLC0415

    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    return dict(load(content))


def _load(plan: InputPlan, roots: Sequence[str]) -> torch.Tensor:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    path, root = _find(plan.path, roots)
    if is_lfs_pointer(path):
        _fetch(path, root)
    try:
        with safe_open(path, framework="pt") as file:
            if plan.tensor_key not in file.keys():  # noqa: SIM118  # not a mapping
                raise DatasetError(f"has no tensor {plan.tensor_key!r}", path=path)
            tensor: torch.Tensor = file.get_tensor(plan.tensor_key)
    except (SafetensorError, OSError, RuntimeError, MemoryError) as error:
        raise DatasetError(f"is no readable safetensors file: {error}", path=path) from error
    if tuple(tensor.shape) != plan.tensor.shape or tensor.dtype is not torch_dtype(
        plan.tensor.dtype
    ):
        raise DatasetError(
            f"tensor {plan.tensor_key!r} is {dtype_name(tensor.dtype)} {tuple(tensor.shape)}; input "
            f"{plan.tensor.name!r} must be {plan.tensor.dtype} {plan.tensor.shape}",
            path=path,
        )
    return tensor


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
