"""Processor time of all that a process has ever started, counted by the kernel, ended ones too.

A process's own clock ends with it: who starts children that are gone before anybody looks takes their time along. A
counter that a trusted process opens is inherited by every child, whatever it does, and keeps what they have used.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.bench.sandbox import seccomp

if TYPE_CHECKING:
    from collections.abc import Callable

    # Takes a thread's id and whether only threads inherit; gives a descriptor, or raises `OSError`.
    Open = Callable[[int, bool], int]

_TYPE_SOFTWARE, _TASK_CLOCK = 1, 1
_ATTRIBUTES_BYTES = 64
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
"""A clock runs on in the kernel all the same; but without these two only root may open one."""
_INHERIT_THREAD = 1 << 35
_CLOSE_ON_EXEC = 8
_MOST_TRIES = 10


def open_counter(thread: int, only_threads: bool) -> int:
    """Have the kernel count the processor time of a thread and what it starts from now on."""
    if not seccomp.is_known_machine():
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    flags |= _INHERIT_THREAD if only_threads else 0
    attributes = struct.pack(
        "=IIQQQQQ", _TYPE_SOFTWARE, _ATTRIBUTES_BYTES, _TASK_CLOCK, 0, 0, 0, flags
    )
    buffer = ctypes.create_string_buffer(attributes, _ATTRIBUTES_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    number = seccomp.number_of("perf_event_open")
    descriptor = libc.syscall(number, buffer, thread, -1, -1, _CLOSE_ON_EXEC)
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(descriptor)


@dataclass(frozen=True, slots=True)
class ChildrenClock:
    """Counters of a process: with all that it starts, and with its threads only. What they differ by are children."""

    all_started: tuple[int, ...]
    only_threads: tuple[int, ...]

    def read_ns(self) -> tuple[int, int]:
        """Nanoseconds that children, and theirs, have used since the clock was opened: at least, and at most.

        Threads that compute while counters are read one after the other are not taken for children.
        """
        early_ns = _sum_of(self.only_threads)
        started_ns = _sum_of(self.all_started)
        late_ns = _sum_of(self.only_threads)
        return max(0, started_ns - late_ns), max(0, started_ns - early_ns)

    def close(self) -> None:
        """Count no more."""
        for descriptor in (*self.all_started, *self.only_threads):
            os.close(descriptor)


def open_children_clock(pid: int, open_: Open = open_counter) -> ChildrenClock | None:
    """Start to count, before anything untrusted runs there; None where the kernel refuses.

    A thread that is opened hands its counters on to the next; one that came just before is seen in a second look.
    """
    for _ in range(_MOST_TRIES):
        try:
            threads = _threads_of(pid)
            clock = _opened(threads, open_)
            if _threads_of(pid) == threads:
                return clock
        except OSError:
            return None
        clock.close()
    return None


def why_not_counted() -> str | None:
    """Say why children's time cannot be counted here; None where it can."""
    try:
        _opened((os.getpid(),), open_counter).close()
    except OSError as error:
        return error.strerror
    return None


def _opened(threads: tuple[int, ...], open_: Open) -> ChildrenClock:
    with contextlib.ExitStack() as opened:
        found: dict[bool, list[int]] = {False: [], True: []}
        for only_threads, descriptors in found.items():
            for thread in threads:
                descriptors.append(open_(thread, only_threads))
                opened.callback(os.close, descriptors[-1])
        opened.pop_all()
    return ChildrenClock(tuple(found[False]), tuple(found[True]))


def _threads_of(pid: int) -> tuple[int, ...]:
    return tuple(sorted(int(name) for name in os.listdir(f"/proc/{pid}/task")))  # noqa: PTH208  # names are numbers


def _sum_of(descriptors: tuple[int, ...]) -> int:
    return sum(int.from_bytes(os.read(each, 8), "little") for each in descriptors)
