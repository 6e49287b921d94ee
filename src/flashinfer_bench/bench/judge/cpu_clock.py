"""How much processor time another process has used, asked from outside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from flashinfer_bench.bench.timing.observed import RELATIVE_ALLOWANCE
from flashinfer_bench.bench.worker.processes import descendants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class CpuClock:
    """Processor time of a process, all its threads, and what it has started.

    The kernel keeps it; the process itself can neither see it being read nor change it. `find` says which
    processes are below it, `count` what they have used at least and at most, whether met or not. One of them that
    has ended is taken to have been busy since it was last seen: it takes its figure with it, and the sum must not
    run backwards.
    """

    def __init__(
        self,
        pid: int,
        find: Callable[[int], Iterable[int]] = descendants_of,
        count: Callable[[], tuple[int, ...]] = tuple,
    ) -> None:
        self.pid = pid
        self._find, self._count = find, count
        self._own = _clock_of(pid)
        self._seen: dict[int, _LastReading] = {self._own: _LastReading()}
        self._ended_ns = 0
        self._met_ns = 0
        self._counted: tuple[int, ...] = ()

    def look_for_children(self) -> None:
        """Find the processes it has started, and start to count for `unmet_ns`; too slow to be done for every call."""
        self.read_ns()
        before = self._seen
        clocks = map(_clock_of, (self.pid, *self._find(self.pid)))
        self._seen = {
            clock: before.get(clock) or _LastReading(_read(clock) or 0) for clock in clocks
        }
        self._ended_ns += sum(
            seen.used_ns for clock, seen in before.items() if clock not in self._seen
        )
        self._met_ns, self._counted = 0, self._count()

    def unmet_ns(self) -> int:
        """Say what children have used since they were looked for, besides those found then; 0 where nobody counts."""
        counted = self._count()
        if not counted or not self._counted:
            return 0
        self.read_ns()
        met_ns = round((1 + RELATIVE_ALLOWANCE) * self._met_ns)  # by another clock: 1% apart
        return max(0, min(counted) - max(self._counted) - met_ns)

    def born_ns(self) -> int:
        """Find its children again; return the processor time of those that were not there the last time."""
        before = set(self._seen)
        self.look_for_children()
        new = (_read(clock) for clock in self._seen if clock not in before)
        return sum(used_ns for used_ns in new if used_ns is not None)

    def read_ns(self) -> int:
        """Nanoseconds used so far."""
        total_ns, now_ns = 0, time.monotonic_ns()
        for clock, seen in list(self._seen.items()):
            used_ns = _read(clock)
            if used_ns is None:
                del self._seen[clock]
                self._ended_ns += seen.used_ns + (now_ns - seen.at_ns if seen.at_ns else 0)
            else:
                self._seen[clock] = _LastReading(used_ns, now_ns)
                self._met_ns += used_ns - seen.used_ns if clock != self._own else 0
                total_ns += used_ns
        return total_ns + self._ended_ns


class _LastReading(NamedTuple):
    """What a process had used when it was looked at last."""

    used_ns: int = 0
    at_ns: int = 0


def _read(clock: int) -> int | None:
    """Give what a process has used; None where it has ended."""
    try:
        return time.clock_gettime_ns(clock)
    except OSError:
        return None


def _clock_of(pid: int) -> int:
    """Return the identity of a process's CPU-time clock, as Linux composes it (`clock_getcpuclockid`)."""
    return (~pid << 3) | 2
