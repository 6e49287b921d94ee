"""What a worker process may not do, and what the kernel does when its parent dies."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_LARGEST_FILE_BYTES = 8 << 30
_MOST_PROCESSES = 4096


def become_subreaper() -> None:
    """Adopt orphaned descendants, those that called `setsid` included."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def restrict(*, is_trusted: bool) -> None:
    """Apply the limits of a worker: none may outlive us or gain rights, or be read by others."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_DUMPABLE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    if is_trusted:
        return
    _lower(resource.RLIMIT_FSIZE, _LARGEST_FILE_BYTES)
    _lower(resource.RLIMIT_NPROC, _MOST_PROCESSES)
    with contextlib.suppress(OSError):  # when memory runs out, the kernel ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000")


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (limit, limit))


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")
