"""How much processor time another process has used, asked from outside."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from flashinfer_bench.bench.worker.processes import descendants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class CpuClock:
    """Processor time of a process, all its threads, and what it has started.

    The kernel keeps it; the process itself can neither see it being read nor change it. `find` says which
    processes are below it.
    """

    def __init__(self, pid: int, find: Callable[[int], Iterable[int]] = descendants_of) -> None:
        self.pid = pid
        self._find = find
        self._clocks: tuple[int, ...] = (_clock_of(pid),)

    def look_for_children(self) -> None:
        """Find the processes it has started; too slow to be done for every call."""
        self._clocks = tuple(map(_clock_of, (self.pid, *self._find(self.pid))))

    def born_ns(self) -> int:
        """Find its children again; return the processor time of those that were not there the last time."""
        before = set(self._clocks)
        self.look_for_children()
        return _read(clock for clock in self._clocks if clock not in before)

    def read_ns(self) -> int:
        """Nanoseconds used so far; a process that ended meanwhile counts no more."""
        return _read(self._clocks)


def _read(clocks: Iterable[int]) -> int:
    total_ns = 0
    for clock in clocks:
        with contextlib.suppress(OSError):
            total_ns += time.clock_gettime_ns(clock)
    return total_ns


def _clock_of(pid: int) -> int:
    """Return the identity of a process's CPU-time clock, as Linux composes it (`clock_getcpuclockid`)."""
    return (~pid << 3) | 2
