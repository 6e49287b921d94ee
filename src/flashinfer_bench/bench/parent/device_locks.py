"""The machine-wide locks of devices: a timing holds one alone, builds hold the processor's together."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from filelock import FileLock

from flashinfer_bench.data import settings

if TYPE_CHECKING:
    from pathlib import Path

PROCESSOR = "cpu"
"""The lock's name of the one CPU device."""


def device_lock(name: str) -> FileLock:
    """Make the lock of a device, by which no two benchmarks time on it at once."""
    return FileLock(_folder() / f"{name}.lock", mode=0o666)


class SharedHold:
    """The lock of a device, held together with all who hold it so; nobody has it alone meanwhile."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._descriptor = -1

    def take(self) -> bool:
        """Take it, unless it is held alone; tell whether it is held now."""
        if self._descriptor >= 0:
            return True
        descriptor = _opened(_folder() / f"{self._name}.lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        if os.fstat(descriptor).st_nlink == 0:  # the file was removed since it was opened
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let go of it, where it is held."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _folder() -> Path:
    folder = settings.lock_folder()
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)  # every user of the machine takes these locks, like /tmp itself
    return folder


def _opened(path: Path) -> int:
    """Open a lock's file, of another user too; without O_CREAT, which the kernel refuses for such a file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)
            return descriptor
        return os.open(path, flags)
