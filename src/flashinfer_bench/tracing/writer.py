"""A thread that writes what was traced, so that the program does not wait for the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from flashinfer_bench.data import appending
from flashinfer_bench.data.files import lines_of, write_whole
from flashinfer_bench.data.opening import require_inside
from flashinfer_bench.errors import StorageError
from flashinfer_bench.tracing.records import KnownWorkloads, record_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Definition
    from flashinfer_bench.data.layout import Layout
    from flashinfer_bench.tracing.records import Record, WorkloadEntry

_LOG = logging.getLogger("flashinfer_bench.tracing")
_NAME = "flashinfer-bench tracing"
_LARGEST_BATCH = 256
_LINGER_S, _NAP_S = 0.05, 0.002
_FULL_PAUSE_S = 0.001


@dataclass
class WriterCounts:
    """What a writer did so far, by definition."""

    workloads: Counter[str] = field(default_factory=Counter)
    """New ones."""
    repeated: Counter[str] = field(default_factory=Counter)
    """Those that were there already."""
    lost: Counter[str] = field(default_factory=Counter)
    """Those that could not be written."""
    blob_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Queued:
    entry: WorkloadEntry
    definition: Definition
    nbytes: int


class Writer:
    """Takes entries, and has them on disk when `flush` returns.

    No more than `buffer_bytes` of tensors wait at a time: `put` waits for the disk beyond that. Nothing here
    holds a lock that a signal's handler would need: a handler may put and flush wherever it interrupts.
    """

    def __init__(self, layout: Layout, buffer_bytes: int) -> None:
        self.written = WriterCounts()
        self._layout = layout
        self._buffer_bytes = buffer_bytes
        self._known = KnownWorkloads()
        self._failure: StorageError | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        self._inbox: SimpleQueue[_Queued | threading.Event] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.RLock()  # reentrant, both: a handler may interrupt their holder
        self._counting = threading.RLock()
        self._put_bytes = 0
        self._done_bytes = 0
        self._is_awaited = False
        self.writing = threading.Lock()

    def start(self) -> None:
        """Start the thread; a child of a fork starts its own with the first entry."""
        self._ensure_thread()

    def put(self, entry: WorkloadEntry, definition: Definition) -> None:
        """Hand an entry over; waits while too much is waiting already."""
        nbytes = entry.nbytes
        while self._waiting_bytes and self._waiting_bytes + nbytes > self._buffer_bytes:
            time.sleep(
                _FULL_PAUSE_S
            )  # not a condition: its lock could be held by what we interrupted
        with self._counting:
            self._put_bytes += nbytes
        self._inbox.put(_Queued(entry, definition, nbytes))
        self._ensure_thread()

    @property
    def _waiting_bytes(self) -> int:
        return self._put_bytes - self._done_bytes

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all that was put is on disk. Raises what kept anything from it."""
        if self._thread is not None or not self._inbox.empty():
            done = threading.Event()
            self._is_awaited = True
            self._inbox.put(done)
            self._ensure_thread()
            if not done.wait(timeout_s):
                raise StorageError(f"traced workloads were not on disk after {timeout_s} s")
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread, and what it has yet to write, are the parent's."""
        self.written = WriterCounts()
        self._start_anew()

    def _ensure_thread(self) -> None:
        if self._thread is not None:
            return
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=_NAME, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            batch, flushed = self._next_batch()
            with self.writing:
                self._write_or_lose(batch)
            self._done_bytes += sum(queued.nbytes for queued in batch)
            for event in flushed:
                event.set()

    def _next_batch(self) -> tuple[list[_Queued], list[threading.Event]]:
        """Wait for work, and a little for more of it; take what is there, up to the next flush."""
        batch: list[_Queued] = []
        item = self._inbox.get()
        if isinstance(item, _Queued):
            self._linger()
        while isinstance(item, _Queued):
            batch.append(item)
            if len(batch) == _LARGEST_BATCH:
                return batch, []
            try:
                item = self._inbox.get_nowait()
            except Empty:
                return batch, []
        self._is_awaited = False
        return batch, [item]

    def _linger(self) -> None:
        """Let entries gather, asleep: a batch costs little more than an entry, and whoever puts wakes nobody."""
        until_s = time.monotonic() + _LINGER_S
        while time.monotonic() < until_s:
            if self._is_awaited or 2 * self._waiting_bytes > self._buffer_bytes:
                return
            time.sleep(_NAP_S)

    def _write_or_lose(self, batch: Sequence[_Queued]) -> None:
        """Write a batch; where that fails, write each by itself, and count what is lost."""
        try:
            self._write(batch)
        except Exception as error:  # noqa: BLE001 - a flush reports it; the traced program goes on
            if len(batch) > 1:
                for queued in batch:
                    self._write_or_lose([queued])
            else:
                self._lost(batch[0], error)

    def _write(self, batch: Sequence[_Queued]) -> None:
        """Write blobs, then the lines that name them."""
        records = [record_of(each.entry, each.definition, self._layout) for each in batch]
        repeated: list[str] = []
        by_path: defaultdict[str, dict[str, Record]] = defaultdict(dict)
        for record in records:
            path = str(self._layout.workload_file(record.definition))
            require_inside(path, self._layout.root)
            if self._known.holds(path, record.uuid) or record.uuid in by_path[path]:
                repeated.append(record.definition.name)
            else:
                by_path[path][record.uuid] = record
        for record in (each for new in by_path.values() for each in new.values()):
            if record.blob_path is not None and not record.blob_path.exists():
                require_inside(record.blob_path, self._layout.root)
                write_whole(record.blob_path, record.blob)
                self.written.blob_bytes += len(record.blob)
        appending.append(
            {
                path: lines_of(each.trace for each in new.values())
                for path, new in by_path.items()
                if new
            }
        )
        self.written.repeated.update(repeated)
        for new in by_path.values():
            self.written.workloads.update(each.definition.name for each in new.values())

    def _lost(self, queued: _Queued, error: Exception) -> None:
        self.written.lost[queued.definition.name] += 1
        if self._failure is None:
            _LOG.error("traced workloads were lost: %s", error)
        self._failure = error if isinstance(error, StorageError) else StorageError(str(error))
