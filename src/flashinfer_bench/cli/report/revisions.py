"""Datasets as people name them: a folder, or a folder as it was in a revision of git."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.cli.measure.versions import git
from flashinfer_bench.errors import DatasetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTS = ("definitions", "solutions", "workloads", "traces")
"""What reports read; stored tensors may be large, and stay where they are."""


def dataset_folder(text: str) -> tuple[Path, str] | None:
    """Read FOLDER or FOLDER@REVISION; None where it is neither."""
    if Path(text).is_dir():
        return Path(text), ""
    for at in (index for index, character in enumerate(text) if character == "@"):
        location, revision = text[:at], text[at + 1 :]
        if location and revision and Path(location).is_dir():  # either may hold another @
            return Path(location), revision
    return None


@contextlib.contextmanager
def checked_out(folder: Path, revision: str) -> Iterator[Path]:
    """Copy a dataset as it was in a revision; gone when the block ends."""
    if not revision:
        yield folder
        return
    if revision.startswith("-"):  # git would take it for an option
        raise UsageError(f"{folder}@{revision}: no revision of git begins with a hyphen")
    listed = git(folder, "ls-tree", "-z", "--name-only", revision).decode().split("\0")
    parts = [name for name in _PARTS if name in listed]
    if not parts:
        raise UsageError(f"{folder}@{revision}: no dataset there: neither {' nor '.join(_PARTS)}")
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-") as name:
        content = git(folder, "archive", "--format=tar", revision, "--", *parts)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            try:
                archive.extractall(name, filter="data")
            except tarfile.FilterError as error:
                raise DatasetError(f"{folder}@{revision}: {error}; commit a copy instead") from None
        yield Path(name)
