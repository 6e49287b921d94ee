"""The parent: jobs in, outcomes out; one thread owns one device and its workers, under a lock."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from filelock import FileLock, Timeout

from flashinfer_bench.bench.attempts import Attempt, Keys
from flashinfer_bench.bench.channel import ChannelClosed
from flashinfer_bench.bench.parent.holders import (
    holder_text,
    ourselves,
    read_holder,
    write_holder,
)
from flashinfer_bench.bench.parent.launcher import Cancelled, Launcher
from flashinfer_bench.bench.parent.session import Session
from flashinfer_bench.bench.sandbox.policy import Sandbox
from flashinfer_bench.data import settings
from flashinfer_bench.errors import UsageError, WorkerError
from flashinfer_bench.tensors import machine

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.outcomes import Outcome
    from flashinfer_bench.bench.plan import Job
    from flashinfer_bench.bench.protocol import Opened

_LOCK_POLL_S = 0.05
_TRIES = 2
_STOP_DEADLINE_S = 5.0

_SANDBOX = Sandbox("process")
_FIRST = Attempt()

Batch = Sequence["Job"]


@dataclass(frozen=True, slots=True)
class Started:
    """A device began a job."""

    device: str
    job: Job


@dataclass(frozen=True, slots=True)
class Waiting:
    """A device is in use by another benchmark."""

    device: str
    holder: str = ""
    """Who that is, as a clause; empty where it is not known."""


Progress = Started | Waiting


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job and how it ended, on which device."""

    job: Job
    outcome: Outcome
    device: Opened
    sandbox: Sandbox = _SANDBOX
    """What was in force around the solution."""
    attempt: Attempt = _FIRST
    """The attempt that counted."""


class Pool(Protocol):
    """Jobs in, outcomes out. A trace is recorded before its device's next job starts."""

    key: int

    def run(
        self, batches: Sequence[Batch], observe: Callable[[Progress], None]
    ) -> Iterator[FinishedJob]:
        """Run the batches and yield each job as it finishes."""
        ...

    def close(self) -> None:
        """Stop all work and end every process."""
        ...


def device_names(wanted: str) -> tuple[str, ...]:
    """Turn `auto`, `cpu`, `cuda`, or `cuda:0,cuda:1` into device names."""
    if wanted == "auto":
        count = len(machine.gpu_names())
        return tuple(f"cuda:{index}" for index in range(count)) or ("cpu",)
    words = (name.strip() for name in wanted.split(",") if name.strip())
    names = tuple("cuda:0" if word == "cuda" else word for word in words)
    for name in names:
        kind, _, index = name.partition(":")
        if (kind, index) != ("cpu", "") and not (kind == "cuda" and index.isdecimal()):
            raise UsageError(f"no device {name!r}; use 'auto', 'cpu', 'cuda:0' or 'cuda:0,cuda:1'")
    if not names or len(set(names)) != len(names):
        raise UsageError(f"no list of different devices: {wanted!r}")
    return names


def hardware_of(device: str) -> str:
    """Name the hardware behind a device as traces do, without starting anything."""
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return machine.processor_name()
    gpus = machine.visible_gpus()
    mask = settings.visible_gpus()
    if int(index) >= len(gpus.names):
        found = f"{len(gpus.names)} found" if gpus.names else "none found"
        found += "" if mask is None else f", CUDA_VISIBLE_DEVICES is {mask!r}"
        raise UsageError(f"there is no CUDA device {device!r} ({found}); use --device cpu")
    if not gpus.is_order_known:
        raise UsageError(
            f"which GPU {device!r} is cannot be told before it runs: GPUs of several names are here, and CUDA counts "
            "the fastest one first; set CUDA_DEVICE_ORDER=PCI_BUS_ID to count as nvidia-smi does, or name GPUs "
            "by UUID in CUDA_VISIBLE_DEVICES"
        )
    return gpus.names[int(index)]


class LocalPool:
    """This machine's devices. Processes start with the first job and end with `close`."""

    def __init__(
        self,
        devices: Sequence[str],
        *,
        config: BenchmarkConfig,
        roots: Sequence[Path],
        threads: int,
    ) -> None:
        self.key = config.seed if config.seed is not None else secrets.randbits(64)
        self._keys = Keys(self.key, is_seed=config.seed is not None)
        self._config = config
        self._roots = tuple(str(root) for root in roots)
        self._threads = threads
        self._owners = [_DeviceOwner(name, self) for name in devices]
        self._is_running = False

    def run(
        self, batches: Sequence[Batch], observe: Callable[[Progress], None]
    ) -> Iterator[FinishedJob]:
        """Run the batches; each device takes the next one when it is free."""
        if self._is_running:
            raise UsageError("another run of this benchmark is under way; finish or stop it first")
        todo: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        for batch in batches:
            todo.put(batch)
        events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        for owner in self._owners:
            owner.begin(todo, events)
        working = len(self._owners)
        self._is_running = True
        try:
            while working:
                event = events.get()
                match event:
                    case Started() | Waiting():
                        observe(event)
                    case _Done(finished=finished, recorded=recorded):
                        yield finished
                        recorded.set()
                    case _Idle(error=error):
                        working -= 1
                        if error is not None:
                            raise error
        finally:
            self._is_running = False
            if working:  # stopped early: nobody hears the devices any more
                self.close()

    def close(self) -> None:
        """Stop within a second or two, whatever the workers are doing."""
        for owner in self._owners:
            owner.stop()
        for owner in self._owners:
            owner.join()

    def open_session(self, launcher: Launcher, device: str) -> Session:
        """Make the session of one device; starts nothing."""
        return Session(
            launcher,
            device=device,
            threads=self._threads,
            keys=self._keys,
            roots=self._roots,
            cache_root=settings.cache_path(),
            config=self._config,
        )

    @property
    def threads(self) -> int:
        """CPU threads of every worker."""
        return self._threads


@dataclass(frozen=True, slots=True)
class _Done:
    finished: FinishedJob
    recorded: threading.Event


@dataclass(frozen=True, slots=True)
class _Idle:
    error: BaseException | None = None


_Event = Progress | _Done | _Idle


class _DeviceOwner:
    """The one thread that owns a device and its workers."""

    def __init__(self, device: str, pool: LocalPool) -> None:
        self._device = device
        self._pool = pool
        self._stop_reader, self._stop_writer = -1, -1
        self._thread: threading.Thread | None = None
        self._launcher: Launcher | None = None
        self._session: Session | None = None
        self._opened: Opened | None = None
        self._is_stopping = threading.Event()
        self._holds_since_s = 0.0

    def begin(self, todo: queue.SimpleQueue[Batch], events: queue.SimpleQueue[_Event]) -> None:
        """Start taking batches."""
        self.join()
        self._is_stopping.clear()
        self._holds_since_s = 0.0
        if self._stop_reader < 0:
            self._stop_reader, self._stop_writer = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(
            target=self._work, args=(todo, events), name=f"bench-{self._device}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Interrupt whatever is waited for, and end the workers."""
        self._is_stopping.set()
        if self._stop_writer >= 0:
            with contextlib.suppress(OSError):
                os.write(self._stop_writer, b"x")
        if self._thread is not None:
            self._thread.join(_STOP_DEADLINE_S)
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = self._session = None
        for descriptor in {self._stop_reader, self._stop_writer} - {-1}:
            os.close(descriptor)
        self._stop_reader = self._stop_writer = -1

    def join(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join(_STOP_DEADLINE_S)

    def _work(self, todo: queue.SimpleQueue[Batch], events: queue.SimpleQueue[_Event]) -> None:
        try:
            while not self._is_stopping.is_set():
                try:
                    batch = todo.get_nowait()
                except queue.Empty:
                    break
                self._run_batch(batch, events)
            events.put(_Idle())
        except Cancelled:
            events.put(_Idle())
        except BaseException as error:  # noqa: BLE001  # carried to the caller's thread and raised there
            events.put(_Idle(error))

    def _run_batch(self, batch: Batch, events: queue.SimpleQueue[_Event]) -> None:
        for job in batch:
            with self._device_to_myself(events):
                events.put(Started(self._device, job))
                outcome = self._run_surely(job)
            assert self._opened is not None
            recorded = threading.Event()
            session = self._require_session()
            finished = FinishedJob(job, outcome, self._opened, session.sandbox, session.attempt)
            events.put(_Done(finished, recorded))
            while not recorded.wait(_LOCK_POLL_S):
                if self._is_stopping.is_set():
                    raise Cancelled
        if self._session is not None:
            self._session.end_candidate()

    def _run_surely(self, job: Job) -> Outcome:
        """Run a job; when our own machinery fails, start it anew and try once more."""
        for attempt in range(1, _TRIES + 1):
            try:
                return self._require_session().run(job)
            except (WorkerError, ChannelClosed) as error:
                self._end_session()
                if attempt == _TRIES:
                    raise WorkerError(str(error) or "the judge is gone") from error
        raise AssertionError("unreachable")

    def _require_session(self) -> Session:
        if self._session is None:
            self._launcher = Launcher(
                environment=settings.environment_copy(),
                threads=self._pool.threads,
                stop=self._stop_reader,
            )
            self._launcher.start()
            self._session = self._pool.open_session(self._launcher, self._device)
            self._opened = self._session.open()
        return self._session

    def _end_session(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
        self._launcher = self._session = None

    @contextlib.contextmanager
    def _device_to_myself(self, events: queue.SimpleQueue[_Event]) -> Iterator[None]:
        """Hold the machine-wide lock of the device, so that no two benchmarks time on it at once."""
        self._require_session()
        assert self._opened is not None
        name = self._opened.lock_name
        lock = device_lock(name)
        has_told = False
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                if not has_told:
                    events.put(Waiting(self._device, holder_text(read_holder(name))))
                    has_told = True
                if self._is_stopping.is_set():
                    raise Cancelled from None
                time.sleep(_LOCK_POLL_S)
        self._holds_since_s = self._holds_since_s or time.time()
        write_holder(name, ourselves(self._holds_since_s))
        try:
            yield
        finally:
            lock.release()


def device_lock(name: str) -> FileLock:
    """Make the machine-wide lock of a device, by which no two benchmarks time on it at once."""
    folder = settings.lock_folder()
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)  # every user of the machine takes these locks, like /tmp itself
    return FileLock(folder / f"{name}.lock", mode=0o666)
