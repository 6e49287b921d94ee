"""Who waits for something hears when it changed: open polls cost a place in a dictionary, and no thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Bell:
    """Rings for one who waits, in whatever loop that is."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake who waits; from any thread."""
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, seconds: float) -> bool:
        """Wait until it rings, and make it ready to ring again; tell whether it rang."""
        try:
            await asyncio.wait_for(self._rung.wait(), max(0.0, seconds))
        except TimeoutError:
            return False
        self._rung.clear()
        return True


def results_of(tenant: str | None) -> str:
    """Name what changes with each result of a tenant; None is all tenants."""
    return "results" if tenant is None else f"results of {tenant}"


class Changes:
    """What changed, by key: tasks by their id, and `WORK` when there may be something to do."""

    WORK = "work"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bells: defaultdict[str, set[Bell]] = defaultdict(set)
        self._results: Counter[str | None] = Counter()
        self.is_over = False
        """Whether the server ends: nobody waits any longer."""

    @contextlib.contextmanager
    def heard(self, *keys: str) -> Iterator[Bell]:
        """Give a bell that rings when one of these changes."""
        bell = Bell()
        with self._lock:
            for key in keys:
                self._bells[key].add(bell)
        try:
            yield bell
        finally:
            with self._lock:
                for key in keys:
                    self._bells[key].discard(bell)
                    if not self._bells[key]:
                        del self._bells[key]

    def tell(self, *keys: str) -> None:
        """Ring for whoever waits for one of these."""
        with self._lock:
            for bell in {bell for key in keys for bell in self._bells.get(key, ())}:
                bell.ring()

    def tell_of_result(self, tenant: str) -> None:
        """Ring for whoever looks at the results of a tenant, or at those of all."""
        with self._lock:
            self._results.update([tenant, None])
        self.tell(results_of(tenant), results_of(None))

    def result_count(self, tenant: str | None) -> int:
        """Count the results of a tenant since this server began; None is all tenants."""
        return self._results[tenant]

    def end(self) -> None:
        """Ring for everybody, for the last time."""
        self.is_over = True
        with self._lock:
            for bell in {bell for bells in self._bells.values() for bell in bells}:
                bell.ring()
