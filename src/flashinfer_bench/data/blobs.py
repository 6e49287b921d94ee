"""Tensors of workloads, in safetensors files under the dataset's root."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from flashinfer_bench.data.files import write_whole
from flashinfer_bench.data.opening import is_lfs_pointer
from flashinfer_bench.errors import DatasetError, MissingPackageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import ModuleType

    import torch


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


def _safetensors_torch() -> ModuleType:
    try:
        return importlib.import_module("safetensors.torch")
    except ImportError:
        raise MissingPackageError(
            "torch", extra="torch", needed_for="reading and writing workload tensors"
        ) from None
