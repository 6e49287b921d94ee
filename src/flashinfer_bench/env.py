"""Where the existing system's users look for a dataset's folder; the settings themselves are in `data.settings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data import settings

if TYPE_CHECKING:
    from pathlib import Path


def get_fib_dataset_path() -> Path:
    """Give the folder that FIB_DATASET_PATH names, or its default."""
    return settings.dataset_path()
