"""What the kernel tells of each thread of a process. It is asked beside every block, so it has to be quick."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC = Path("/proc")
_CHUNK_BYTES = 1 << 16


def told_of_threads(pid: int, file: str, *, proc: Path = _PROC) -> Iterator[list[bytes]]:
    """Yield the words of a file under /proc/PID/task/TID, thread by thread; of those that are still there."""
    folder = f"{proc}/{pid}/task"
    with contextlib.suppress(OSError):  # the process ended
        for thread in os.listdir(folder):  # noqa: PTH208  # names are numbers, not paths
            with contextlib.suppress(OSError):  # the thread ended meanwhile
                yield _read(f"{folder}/{thread}/{file}").split()


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = iter(lambda: os.read(descriptor, _CHUNK_BYTES), b"")
        return b"".join(chunks)
    finally:
        os.close(descriptor)
