"""The runtimes that trace in this process, and what happens to what they hold when it ends."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import threading
from functools import cache
from multiprocessing import util as multiprocessing_util
from typing import TYPE_CHECKING, Any

from flashinfer_bench.errors import BenchError
from flashinfer_bench.intercept.chain import Rank
from flashinfer_bench.intercept.runtimes import Runtimes

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from flashinfer_bench.tracing.runtime import TracingRuntime

_LOG = logging.getLogger("flashinfer_bench.tracing")
_LAST_FLUSH_S = 30.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ActiveRuntimes(Runtimes["TracingRuntime"]):
    """The stack of tracing runtimes; while it holds any, the process does not end before they have flushed."""

    def __init__(self) -> None:
        super().__init__(Rank.TRACING)
        self.at_flush: list[Callable[[], None]] = []
        """Called after a flush at the process's end."""
        self.in_child: list[Callable[[], None]] = []
        """Called in a child after a fork."""
        self._before: dict[int, Any] = {}
        self._held: list[TracingRuntime] = []

    def push(self, runtime: TracingRuntime) -> bool:
        """Put a runtime in force."""
        _watch_exits()
        self._catch_signals()
        return super().push(runtime)

    def pop(self, runtime: TracingRuntime) -> None:
        """Take the runtime in force away; the last one leaves signals as they were found."""
        super().pop(runtime)
        if not self.all():
            self._release_signals()

    def flush(self) -> None:
        """Have on disk what all runtimes hold; what cannot be written is logged."""
        for runtime in self.all():
            try:
                runtime.flush(_LAST_FLUSH_S)
            except BenchError as error:
                _LOG.error("%s", error)
        for callback in self.at_flush:
            callback()

    def _catch_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may; what is collected is still written as it comes
        for number in _SIGNALS:
            if number not in self._before:
                self._before[number] = signal.signal(number, self._on_signal)

    def _release_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Flush, then do what would have been done."""
        before = self._before.get(number)
        if before is signal.SIG_IGN:
            return
        self.flush()
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def before_fork(self) -> None:
        """Hold every writer, each once, and let nobody start or stop a runtime meanwhile."""
        self._lock.acquire()
        self._held = self.all()
        for runtime in self._held:
            runtime.before_fork()

    def after_fork_in_parent(self) -> None:
        """Let every writer go on."""
        for runtime in self._held:
            runtime.after_fork_in_parent()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Give the child writers of its own, and a flush before its end."""
        for runtime in self.all():
            runtime.after_fork_in_child()
        self._lock.release()
        for callback in self.in_child:
            callback()


ACTIVE = ActiveRuntimes()
"""The tracing runtimes of this process."""


@cache
def _watch_exits() -> None:
    """Register what runs at exits and forks; it does nothing while no runtime is active."""
    atexit.register(ACTIVE.flush)
    os.register_at_fork(
        before=ACTIVE.before_fork,
        after_in_parent=ACTIVE.after_fork_in_parent,
        after_in_child=ACTIVE.after_fork_in_child,
    )
    # A child that multiprocessing forked ends without `atexit`, but runs its own finalizers.
    multiprocessing_util.register_after_fork(ACTIVE, _flush_at_end)


def _flush_at_end(active: ActiveRuntimes) -> None:
    with contextlib.suppress(ValueError):
        multiprocessing_util.Finalize(None, active.flush, exitpriority=0)
