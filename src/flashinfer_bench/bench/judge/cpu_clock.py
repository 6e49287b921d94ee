"""How much processor time another process has used, asked from outside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from flashinfer_bench.bench.timing.observed import RELATIVE_ALLOWANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Children(NamedTuple):
    """Processor time of what a process has started, since it was looked for the last time."""

    born_ns: int
    """Of those that are there now and were not then."""
    unmet_ns: int | None
    """Of those that were not there then, ended ones too; None where nobody counts."""


class CpuClock:
    """Processor time of a process, all its threads, and what it has started.

    The kernel keeps it; the process itself can neither see it being read nor change it. `look` says which
    processes are below it, and what all it ever started has used, at least and at most, or nothing. One of them that
    has ended is taken to have been busy since it was last seen: it takes its figure with it, and the sum must not
    run backwards.
    """

    def __init__(self, pid: int, look: Callable[[], tuple[Iterable[int], tuple[int, ...]]]) -> None:
        self.pid = pid
        self._look = look
        self._own = _clock_of(pid)
        self._seen: dict[int, _LastReading] = {self._own: _LastReading()}
        self._ended_ns = 0
        self._met_ns = 0
        self._counted: tuple[int, ...] = ()

    def look_for_children(self) -> Children:
        """Find the processes it has started; too slow to be done for every call."""
        pids, counted = self._look()
        self.read_ns()
        before, met_ns, since = self._seen, self._met_ns, self._counted
        clocks = map(_clock_of, (self.pid, *pids))
        self._seen = {
            clock: before.get(clock) or _LastReading(_read(clock) or 0) for clock in clocks
        }
        self._ended_ns += sum(
            seen.used_ns for clock, seen in before.items() if clock not in self._seen
        )
        self._met_ns, self._counted = 0, counted
        born = (_read(clock) or 0 for clock in self._seen if clock not in before)
        return Children(sum(born), _unmet_ns(since, counted, met_ns))

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


def _unmet_ns(before: tuple[int, ...], counted: tuple[int, ...], met_ns: int) -> int | None:
    """Take off what was met, by another clock: 1% apart."""
    if not before or not counted:
        return None
    return max(0, min(counted) - max(before) - round((1 + RELATIVE_ALLOWANCE) * met_ns))


def _read(clock: int) -> int | None:
    """Give what a process has used; None where it has ended."""
    try:
        return time.clock_gettime_ns(clock)
    except OSError:
        return None


def _clock_of(pid: int) -> int:
    """Return the identity of a process's CPU-time clock, as Linux composes it (`clock_getcpuclockid`)."""
    return (~pid << 3) | 2
