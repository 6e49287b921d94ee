"""The counters that count in this process; several may at once, each for a profile of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from flashinfer_bench.intercept import CHAIN, Rank

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.intercept import Call, Chain, Link, Proceed
    from flashinfer_bench.tracing.counting import CallCounter


class _InsideCall(threading.local):
    """Whether this thread is inside a call that was counted: what that calls is part of it."""

    counted = False


class Counters:
    """A handler of the chain that shows every call to every counter, but for calls inside of calls."""

    def __init__(self, chain: Chain = CHAIN) -> None:
        self._chain = chain
        self._counters: tuple[CallCounter, ...] = ()
        self._lock = threading.RLock()
        self._inside = _InsideCall()

    def add(self, counter: CallCounter) -> None:
        """Show it calls from now on."""
        with self._lock:
            self._counters = (*self._counters, counter)
            self._chain.set(Rank.PROFILE, self)

    def remove(self, counter: CallCounter) -> None:
        """Show it no more; without counters nothing is in the chain."""
        with self._lock:
            self._counters = tuple(each for each in self._counters if each is not counter)
            self._chain.set(Rank.PROFILE, self if self._counters else None)

    def link(self, name: str) -> Link:
        """See the calls of one definition on their way."""
        inside = self._inside

        def link(args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
            if inside.counted or not any(
                [counter.count(name, args, kwargs) for counter in self._counters]  # noqa: C419 - all count
            ):
                return proceed(*args, **kwargs)
            inside.counted = True
            try:
                return proceed(*args, **kwargs)
            finally:
                inside.counted = False

        return link

    def find(self, call: Call) -> str | None:
        """Name the definition that a library's call is, by the first counter that knows it."""
        if self._inside.counted:
            return None
        names = (counter.find(call) for counter in self._counters)
        return next((name for name in names if name is not None), None)

    def overlooked(self, readings: Sequence[Call]) -> None:
        """Count a library's call that is of no definition."""
        if not self._inside.counted:
            for counter in self._counters:
                counter.overlooked(readings)


COUNTERS = Counters()
"""The counters of this process."""
