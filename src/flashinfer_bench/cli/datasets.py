"""Which dataset a command works on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.data import settings
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import TraceSet

_HOW_TO_GET_ONE = (
    "to get a dataset: clone https://huggingface.co/datasets/flashinfer-ai/flashinfer-trace, "
    "or use examples/dataset of this project; then name it with --local PATH or FIB_DATASET_PATH"
)


def load_dataset(local: Sequence[str], *, output: str | None = None) -> TraceSet:
    """Load the named folders as one view; without names, the one the environment points at."""
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # `--help` does without pydantic

    return TraceSet.from_paths(dataset_paths(local), output=output)


def dataset_paths(local: Sequence[str]) -> list[Path]:
    """Turn `--local` into folders that exist."""
    if not local:
        return [_default_path()]
    paths = [Path(path) for path in local]
    for path in paths:
        if not path.is_dir():
            raise UsageError(f"--local {path}: no such folder")
    return paths


def _default_path() -> Path:
    path = settings.dataset_path()
    if not path.is_dir():
        raise UsageError(f"no dataset was named, and {path} is not there; {_HOW_TO_GET_ONE}")
    return path
