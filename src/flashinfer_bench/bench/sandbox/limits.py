"""What a worker process may use up, and what the kernel does when its parent dies."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_LARGEST_FILE_BYTES = 8 << 30
_MOST_TIMERS = 32
MOST_PROCESSES = 4096
_SHARE_OF_MEMORY = 0.9
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_CGROUP_USE = Path("/sys/fs/cgroup/memory.current")


def become_subreaper() -> None:
    """Adopt orphaned descendants, those that called `setsid` included."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends, and never let it gain rights."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _lower(resource.RLIMIT_CORE, 0)


def sleep_no_longer() -> None:
    """Have this thread's sleeps end when they should, where the kernel can; without, it adds up to 50 µs."""
    with contextlib.suppress(OSError):
        _prctl(_PR_SET_TIMERSLACK, 1)


def hide_from_debuggers() -> None:
    """Keep other processes of the user out of this one's memory and descriptors."""
    _prctl(_PR_SET_DUMPABLE, 0)


def be_first_to_go(*, is_judge: bool) -> None:
    """When memory runs out, the kernel ends a candidate, then the judge, then other programs."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500" if is_judge else "1000")


def limit_resources(*, limits_files: bool, limits_memory: bool) -> None:
    """Bound processes, timers and, where wanted, the size of files, shared memory included, and private memory.

    A timer that rings takes its time from whoever runs there. Address space is no measure of memory, least of all
    with CUDA, which reserves terabytes of it.
    """
    _lower(resource.RLIMIT_NPROC, tasks_of_machine() + MOST_PROCESSES)  # it counts all of a user's
    _lower(resource.RLIMIT_SIGPENDING, _signals_of_user() + _MOST_TIMERS)  # timers hold one each
    if limits_files:
        _lower(resource.RLIMIT_FSIZE, _LARGEST_FILE_BYTES)
    if limits_memory:
        _lower(resource.RLIMIT_DATA, int(_available_bytes() * _SHARE_OF_MEMORY))


def is_exempt_from_process_limit() -> bool:
    """Tell whether the kernel lets this user start any number of processes, whatever the limit."""
    return os.getuid() == 0


def tasks_of_machine() -> int:
    """Count the threads of all processes, in microseconds."""
    running_of_total = Path("/proc/loadavg").read_text(encoding="ascii").split()[3]
    return int(running_of_total.partition("/")[2])


def _signals_of_user() -> int:
    """Count the signals that wait for all of a user's processes, and the timers that will send one."""
    told = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    (line,) = (line for line in told.splitlines() if line.startswith("SigQ:"))
    return int(line.split()[1].partition("/")[0])


def _available_bytes() -> int:
    """Memory that can be had without driving out what others use."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
            break
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # "max" is no number: no limit
        limit = int(_CGROUP_LIMIT.read_text(encoding="ascii"))
        free = min(free, limit - int(_CGROUP_USE.read_text(encoding="ascii")))
    return max(0, free)


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (limit, limit))


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")
