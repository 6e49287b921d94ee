"""The kernel's account of a process's memory, readable by others; what the process says of itself is not asked."""

from __future__ import annotations

import contextlib
from pathlib import Path

_PROC = Path("/proc")
_NO_MEMORY_WORDS = (
    "MemoryError",
    "can't allocate memory",
    "Cannot allocate memory",
    "not enough memory",
    "bad_alloc",
    "(perhaps out of memory)",
)
"""How Python, torch, C++ and the kernel say that memory ran out."""


def granted_bytes(pid: int) -> int | None:
    """Tell how much private memory a process may have; None where nothing limits it, or it is gone."""
    words = _words_after("Max data size", _PROC / str(pid) / "limits")
    return int(words[0]) if words and words[0].isdecimal() else None


def peak_bytes(pid: int) -> int:
    """Tell what a process had in memory at most; 0 if it is gone."""
    words = _words_after("VmHWM:", _PROC / str(pid) / "status")
    return int(words[0]) << 10 if words else 0


def is_about_memory(text: str) -> bool:
    """Tell whether a failure is said to be one of memory that cannot be had."""
    return any(words in text for words in _NO_MEMORY_WORDS)


def _words_after(start: str, file: Path) -> list[str]:
    with contextlib.suppress(OSError):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith(start):
                return line.removeprefix(start).split()
    return []
