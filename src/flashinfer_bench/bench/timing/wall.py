"""What a clock is, and the one that needs no torch."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from flashinfer_bench.bench.timing.hold import Hold

Call = Callable[..., object]
Arguments = Sequence[Any]
LatencyKind = Literal["device", "call", "wall"]

_now_ns = time.perf_counter_ns  # bound before any solution is loaded

_REPEATS = 200
_COLD_REPEATS = 20


def nothing() -> None:
    """Do nothing: what overhead is measured with."""


class Clock(Protocol):
    """Runs calls back to back and says how long they took together."""

    name: str
    version: str
    latency_kind: LatencyKind
    is_cold: bool
    """Whether caches are evicted before each sample."""
    host_ns: int | None
    """How long the calls of the last sample kept the host, where that is not what is timed."""

    is_hidden: bool
    """Whether the device was kept busy until the last call was launched, where that is not what is timed."""

    launches: int | None
    """How many pieces of work the calls of the last sample gave the device; None where nobody counts."""

    is_told_late: bool
    """Whether saying how long calls took takes longer the more they were."""

    hold: Hold | None
    """What can hold the calls of a sample until the judge says go on; None on a CPU, and where a driver refuses."""

    def begin(self, host_ns: float | None = None) -> None:
        """Start a session, in which the calls of a sample keep the host for so long; None where it is not known.

        Within a session whatever a sample costs beside its calls is constant, and it is the same for all that
        begin one with the same number.
        """
        ...

    def use_cache(self, *, is_cold: bool) -> None:
        """From now on evict caches before each sample, or do not."""
        ...

    def get_ready(self) -> None:
        """Put away what preparing the next sample left behind: otherwise that is done inside the sample."""
        ...

    def time_ns(
        self, call: Call, calls: Sequence[Arguments], done: Callable[[], object] = nothing
    ) -> tuple[int, list[object]]:
        """Run `call` over each set of arguments; return nanoseconds and what the calls returned.

        A clock that tells late calls `done` when all is computed and it is still to find out how long it took.
        """
        ...


class WallClock:
    """`perf_counter_ns` around the calls, cyclic garbage collector off. What a Python caller waits for.

    `evict` is run before each sample, outside the window; `settle` at its end, inside: it waits for work
    that the calls only started.
    """

    name = "wall"
    version = "1"
    latency_kind: LatencyKind = "wall"
    hold: Hold | None = None
    is_told_late = False
    host_ns: int | None = None
    is_hidden = True
    launches: int | None = None

    def __init__(
        self,
        *,
        evict: Callable[[], object] | None = None,
        settle: Callable[[], object] | None = None,
    ) -> None:
        self._evictor = self._evict = evict
        self._settle = settle
        self.is_cold = evict is not None

    def begin(self, host_ns: float | None = None) -> None:
        """Do nothing: a sample costs nothing beside its calls."""

    def use_cache(self, *, is_cold: bool) -> None:
        """From now on evict caches before each sample, or do not; what evicts was given."""
        self._evict = self._evictor if is_cold else None
        self.is_cold = self._evict is not None

    def get_ready(self) -> None:
        """Do nothing: nothing is left behind."""

    def time_ns(
        self,
        call: Call,
        calls: Sequence[Arguments],
        done: Callable[[], object] = nothing,  # noqa: ARG002  # it is not late
    ) -> tuple[int, list[object]]:
        """Time the calls together; one call is timed without a loop around it."""
        if self._evict is not None:
            self._evict()
        if self._settle is not None:
            self._settle()
            return self._time_until_settled_ns(call, calls, self._settle)
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            if len(calls) == 1:
                (arguments,) = calls
                started_ns = _now_ns()
                result = call(*arguments)
                return _now_ns() - started_ns, [result]
            started_ns = _now_ns()
            results = [call(*arguments) for arguments in calls]
            return _now_ns() - started_ns, results
        finally:
            if was_enabled:
                gc.enable()

    def _time_until_settled_ns(
        self, call: Call, calls: Sequence[Arguments], settle: Callable[[], object]
    ) -> tuple[int, list[object]]:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            started_ns = _now_ns()
            results = [call(*arguments) for arguments in calls]
            self.host_ns = _now_ns() - started_ns
            settle()
            return _now_ns() - started_ns, results
        finally:
            if was_enabled:
                gc.enable()


class Evictor:
    """Reads a buffer twice as large as the last-level cache, so that nothing else stays in it.

    One thread reads: private caches of other cores keep what they hold.
    """

    def __init__(self, cache_bytes: int) -> None:
        self._buffer = b"\x01" * (2 * cache_bytes)  # written to: untouched pages would all be one

    def __call__(self) -> None:
        """Look for what is not there; that reads all of it."""
        self._buffer.find(b"\x02")


def overhead_ns(clock: Clock, *, repeats: int | None = None) -> float:
    """Measure what the clock reports for a call that does nothing; less often where evicting takes long."""
    clock.begin()
    repeats = repeats or (_COLD_REPEATS if clock.is_cold else _REPEATS)
    return statistics.median(clock.time_ns(nothing, [()])[0] for _ in range(repeats))


def spin_for(duration_ns: int) -> None:
    """Keep the processor busy for a known time, by the clock that times it."""
    until_ns = _now_ns() + duration_ns
    while _now_ns() < until_ns:
        pass
