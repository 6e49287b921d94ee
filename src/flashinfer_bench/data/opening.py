"""Files of a dataset are opened here: regular ones, of bounded size, and only where no link leads out of its folder.

A dataset may come from a stranger. A pipe would keep its reader waiting, a device would never end, and a link to a
file of the reader's own would carry that file into pages, merged datasets and solutions.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from flashinfer_bench.errors import DatasetError, DatasetNotFoundError

_MIB = 1 << 20
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
SOURCE_BYTES = 16 * _MIB
"""Largest source file."""
DOCUMENT_BYTES = 64 * _MIB
"""Largest file of one definition, solution or profile; and all sources of a solution together."""
LINES_BYTES = 1024 * _MIB
"""Largest file of workloads, traces or samples."""

_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# The hub's client keeps files once, under their hashes; a snapshot is a folder of links to them.
_HUB_SNAPSHOT = re.compile(r"(.*/datasets--[^/]+)/snapshots/[0-9a-f]{40}(?:/.*)?")


def read_bytes(path: Path | str, limit: int | None = DOCUMENT_BYTES) -> bytes:
    """Read a file; one that is missing, unreadable, too large or no regular file is an error that names it."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if limit is not None and size > limit:
            raise too_large(path, size, limit)
        try:
            return file.read()
        except OSError as error:
            raise DatasetError(error.strerror or str(error), path=path) from error


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file for reading, unbuffered; anything else is refused before it is opened."""
    try:
        _require_kind(os.stat(path).st_mode, path)  # noqa: PTH116 - thousands of files are read this way
        descriptor = os.open(path, _READING)
    except DatasetError:  # it is a `ValueError`, too
        raise
    except FileNotFoundError:
        raise DatasetNotFoundError("no such file", path=path) from None
    except OSError as error:
        raise DatasetError(error.strerror or str(error), path=path) from error
    except ValueError as error:  # a NUL in the name
        raise DatasetNotFoundError(f"no such file: {error}", path=path) from None
    file = os.fdopen(descriptor, "rb", buffering=0)
    try:
        _require_kind(os.fstat(descriptor).st_mode, path)  # it may be another one by now
    except DatasetError:
        file.close()
        raise
    return file


def require_regular(path: Path | str) -> None:
    """Refuse what cannot be read as a file, without reading it."""
    open_regular(path).close()


def kind_of(mode: int) -> str | None:
    """Say what is there instead of a regular file; None where it is one."""
    if stat.S_ISREG(mode):
        return None
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "of an unknown kind")


def require_inside(path: Path | str, folder: Path | str, what: str = "the dataset") -> None:
    """Refuse a path that a link leads out of a folder; `what` is what the folder holds."""
    try:
        real, home = os.path.realpath(path), os.path.realpath(folder)
    except ValueError:  # a NUL in the name: there is no such file
        return
    snapshot = _HUB_SNAPSHOT.fullmatch(home)
    homes = (home, f"{snapshot[1]}/blobs") if snapshot else (home,)
    if not any(real == each or real.startswith(f"{each.rstrip('/')}/") for each in homes):
        raise DatasetError(
            f"leads by a link to {real}, outside of {what}: put a copy in the link's place",
            path=path,
        )


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


def too_large(path: Path | str, size: int, limit: int) -> DatasetError:
    """Say that a file is larger than what is read of its kind."""
    return DatasetError(
        f"is {size / _MIB:,.1f} MiB; a file of its kind is read up to {limit // _MIB:,} MiB: make it smaller",
        path=path,
    )


def _require_kind(mode: int, path: Path | str) -> None:
    kind = kind_of(mode)
    if kind is not None:
        raise DatasetError(f"is {kind}, not a file: put a regular file in its place", path=path)
