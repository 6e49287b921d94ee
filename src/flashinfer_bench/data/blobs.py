"""Tensors of workloads, in safetensors files under the dataset's root."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.data.files import write_whole
from flashinfer_bench.data.opening import open_regular, require_inside
from flashinfer_bench.errors import DatasetError, MissingPackageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    import torch

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors to a new file, whole or not at all; any device, any strides."""
    save = _safetensors_torch().save
    if path.exists():
        raise UsageError(f"{path} exists already")
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, save(on_cpu))


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read a file's tensors onto the CPU."""
    load_file = _safetensors_torch().load_file
    if is_lfs_pointer(path):
        raise DatasetError("not downloaded yet: `git lfs pull` fetches it", path=path)
    try:
        tensors: dict[str, torch.Tensor] = load_file(path, device="cpu")
    except Exception as error:
        raise DatasetError(f"not a safetensors file: {error}", path=path) from error
    return tensors


def is_lfs_pointer(path: Path) -> bool:
    """Tell whether git-lfs left a pointer in place of the file; it must be a file."""
    with open_regular(path) as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER


def path_inside(root: Path, path: str) -> Path:
    """Resolve a path relative to a root; one that leaves the root, by itself or by a link, is refused."""
    base = os.path.abspath(root)  # noqa: PTH100 - normalises `..` without following links
    resolved = os.path.normpath(os.path.join(base, path))  # noqa: PTH118
    if not resolved.startswith(base.rstrip("/") + "/"):
        raise DatasetError("leaves the dataset", path=os.path.join(root, path))  # noqa: PTH118
    require_inside(resolved, base)
    return Path(resolved)


def _safetensors_torch() -> ModuleType:
    try:
        return importlib.import_module("safetensors.torch")
    except ImportError:
        raise MissingPackageError(
            "torch", extra="torch", needed_for="reading and writing workload tensors"
        ) from None
