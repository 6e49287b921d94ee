"""What a clock is, and the one that needs no torch."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

Call = Callable[..., object]
Arguments = Sequence[Any]
LatencyKind = Literal["device", "call", "wall"]

_now_ns = time.perf_counter_ns  # bound before any solution is loaded


class Clock(Protocol):
    """Runs calls back to back and says how long they took together."""

    name: str
    version: str
    latency_kind: LatencyKind
    is_cold: bool

    def time_ns(self, call: Call, calls: Sequence[Arguments]) -> tuple[int, list[object]]:
        """Run `call` over each set of arguments; return nanoseconds and what the calls returned."""
        ...


class WallClock:
    """`perf_counter_ns` around the calls, cyclic garbage collector off. What a Python caller waits for."""

    name = "wall"
    version = "1"
    latency_kind: LatencyKind = "wall"
    is_cold = False

    def time_ns(self, call: Call, calls: Sequence[Arguments]) -> tuple[int, list[object]]:
        """Time the calls together; one call is timed without a loop around it."""
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


def overhead_ns(clock: Clock, *, repeats: int = 200) -> float:
    """Measure what the clock reports for a call that does nothing."""
    return statistics.median(clock.time_ns(_nothing, [()])[0] for _ in range(repeats))


def spin_for(duration_ns: int) -> None:
    """Keep the processor busy for a known time, by the clock that times it."""
    until_ns = _now_ns() + duration_ns
    while _now_ns() < until_ns:
        pass


def _nothing() -> None:
    return None
