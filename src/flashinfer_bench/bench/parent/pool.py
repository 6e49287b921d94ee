"""The parent: jobs in, outcomes out; one thread owns one device and its workers, under a lock."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar

from filelock import Timeout

from flashinfer_bench.bench.attempts import Attempt, Keys
from flashinfer_bench.bench.channel import ChannelClosed
from flashinfer_bench.bench.outcomes import Passed, Skipped
from flashinfer_bench.bench.parent.builds_ahead import BuildsAhead
from flashinfer_bench.bench.parent.device_locks import PROCESSOR, device_lock
from flashinfer_bench.bench.parent.events import Building, Lost, Progress, Reached, Started, Waiting
from flashinfer_bench.bench.parent.holders import (
    holder_text,
    ourselves,
    read_holder,
    write_holder,
)
from flashinfer_bench.bench.parent.launcher import Cancelled, Launcher
from flashinfer_bench.bench.parent.session import Session
from flashinfer_bench.bench.parent.work import Handed, OpenBatches
from flashinfer_bench.bench.sandbox.policy import Sandbox
from flashinfer_bench.data import settings
from flashinfer_bench.errors import UsageError, WorkerError
from flashinfer_bench.tensors import machine
from flashinfer_bench.tensors.other_hardware import refusal_of

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.jobs import Job, Target
    from flashinfer_bench.bench.outcomes import Outcome
    from flashinfer_bench.bench.parent.builds_ahead import KnownFailure
    from flashinfer_bench.bench.protocol import Opened
    from flashinfer_bench.data import Solution

_LOCK_POLL_S = 0.05
_TRIES = 2
_STOP_DEADLINE_S = 12.0
"""Longer than the fork server takes to end the processes of a swarm: who is not done by then is pulled from under."""

_SANDBOX = Sandbox("process")
_FIRST = Attempt()

Batch = Sequence["Job"]
_T = TypeVar("_T")
_NOT_ACCEPTED = Skipped("it did not pass all its workloads")
_ANY: Mapping[str, Target] = MappingProxyType({})
"""Devices of which no target is known take any job."""


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
    build_ms: float | None = None
    """How long its solution took to build."""
    device_name: str = ""
    """The device as the run names it."""
    packages: Mapping[str, str] | None = None
    """Versions where it ran; None for those of this machine."""


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
        if refusal := refusal_of(name):
            raise UsageError(f"device {name!r}: {refusal}")
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
        if mask is not None:
            found += f", CUDA_VISIBLE_DEVICES is {mask!r} and what it leaves is counted from 0"
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
        targets: Mapping[str, Target] = _ANY,
        best_speedup: Callable[[Job], float | None] = attrgetter("best_speedup"),
    ) -> None:
        self.key = config.seed if config.seed is not None else secrets.randbits(64)
        self._keys = Keys(self.key, is_seed=config.seed is not None)
        self._config = config
        self._roots = tuple(str(root) for root in roots)
        self._threads = threads
        self._devices = tuple(devices)
        self._targets = targets
        self._best_speedup = best_speedup
        self._owners = [_DeviceOwner(name, targets.get(name), self) for name in devices]
        self._builds: BuildsAhead | None = None
        self._is_running = False

    def run(
        self, batches: Sequence[Batch], observe: Callable[[Progress], None]
    ) -> Iterator[FinishedJob]:
        """Run the batches; each device takes the next one for its target when it is free, or a share of another's.

        A device that fails twice at a job does no more, and others do what it left. The last one's error is raised,
        and so is that of a second device at the same job: then it is not the device's fault.
        """
        if self._is_running:
            raise UsageError("another run of this benchmark is under way; finish or stop it first")
        work = OpenBatches(batches)
        events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._builds = self._builds_of(batches, events)
        for owner in self._owners:
            owner.begin(work, events)
        working, lost = len(self._owners), dict[str, str]()
        self._is_running = True
        try:
            while working:
                event = events.get()
                match event:
                    case Started() | Waiting() | Building() | Reached() | Lost():
                        observe(event)
                    case _Done(finished=finished, recorded=recorded):
                        yield finished
                        recorded.set()
                    case _Failed(device=device, error=error):
                        working -= 1
                        lost[device] = str(error)
                        observe(Lost(device, str(error)))
                        if len(lost) == len(self._owners):
                            raise error
                    case _Idle(error=error):
                        working -= 1
                        if error is not None:
                            raise error
            work.require_none_left(lost)
        finally:
            self._is_running = False
            self._builds.close()
            if working:  # stopped early: nobody hears the devices any more
                self.close()

    def close(self) -> None:
        """Stop within a second or two, whatever the workers are doing."""
        if self._builds is not None:
            self._builds.close()
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
            known_failure=self._known_failure,
            peers=self._peers_of(device),
            best_speedup=self._best_speedup,
        )

    def _peers_of(self, device: str) -> tuple[str, ...]:
        """Name the run's other devices of the same model, on which further ranks of a job may run."""
        target = self._targets.get(device)
        return tuple(
            other
            for other in self._devices
            if other != device and self._targets.get(other) == target
        )

    def await_builds(
        self, batch: Batch, arch: Callable[[], str | None], is_stopping: threading.Event
    ) -> None:
        """Wait until all that compilers make for a batch is made, or is known to fail."""
        if self._builds is not None and self._builds.concerns(batch):
            self._builds.wait_for(batch, self._config.arch or arch(), is_stopping)

    def build_ms(self, session: Session, solution: Solution) -> float | None:
        """Say how long a solution took to build, on the device or ahead; None where it was not built."""
        took_ms = session.build_ms(solution)
        if took_ms is None or self._builds is None:
            return took_ms
        return max(took_ms, self._builds.build_ms(solution))

    def _known_failure(self, solution: Solution, arch: str | None) -> KnownFailure | None:
        return None if self._builds is None else self._builds.failure_of(solution, arch)

    def _builds_of(
        self, batches: Sequence[Batch], events: queue.SimpleQueue[_Event]
    ) -> BuildsAhead:
        return BuildsAhead(
            batches,
            devices=self._devices,
            threads=self._threads,
            roots=self._roots,
            cache_root=settings.cache_path(),
            config=self._config,
            observe=events.put,
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


@dataclass(frozen=True, slots=True)
class _Failed:
    device: str
    error: WorkerError


_Event = Progress | _Done | _Idle | _Failed


class _CannotBeOpened(Exception):  # noqa: N818  # what becomes of it is an event
    """A device does not open, with no job in hand."""


class _DeviceOwner:
    """The one thread that owns a device and its workers."""

    def __init__(self, device: str, target: Target | None, pool: LocalPool) -> None:
        self._device = device
        self._target = target
        self._pool = pool
        self._stop_reader, self._stop_writer = -1, -1
        self._thread: threading.Thread | None = None
        self._beginning = threading.Lock()
        """Held until the thread runs: who stops it may be another thread than the one that begins it."""
        self._launcher: Launcher | None = None
        self._session: Session | None = None
        self._opened: Opened | None = None
        self._is_stopping = threading.Event()
        self._holds_since_s = 0.0

    def begin(self, work: OpenBatches, events: queue.SimpleQueue[_Event]) -> None:
        """Start taking batches."""
        self.join()
        self._is_stopping.clear()
        self._holds_since_s = 0.0
        if self._stop_reader < 0:
            self._stop_reader, self._stop_writer = os.pipe2(os.O_CLOEXEC)
        with self._beginning:
            self._thread = threading.Thread(
                target=self._work, args=(work, events), name=f"bench-{self._device}", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Interrupt whatever is waited for, and end the workers."""
        self._is_stopping.set()
        if self._stop_writer >= 0:
            with contextlib.suppress(OSError):
                os.write(self._stop_writer, b"x")
        self.join()
        self._end_session()
        for descriptor in {self._stop_reader, self._stop_writer} - {-1}:
            os.close(descriptor)
        self._stop_reader = self._stop_writer = -1

    def join(self) -> None:
        """Wait for the thread."""
        with self._beginning:
            thread = self._thread
        if thread is not None:
            thread.join(_STOP_DEADLINE_S)

    def _work(self, work: OpenBatches, events: queue.SimpleQueue[_Event]) -> None:
        try:
            while handed := work.await_batch(self._target, self._is_stopping, self._is_free):
                try:
                    self._run_batch(handed, work, events)
                except WorkerError as error:
                    if handed.left and work.note_failure(handed.left[0]):
                        raise
                    self._end_session()
                    work.give_back(handed)
                    events.put(_Failed(self._device, error))
                    return
                work.finish(handed)
            events.put(_Idle())
        except Cancelled:
            events.put(_Idle())
        except _CannotBeOpened as error:
            self._end_session()
            events.put(_Failed(self._device, WorkerError(str(error))))
        except BaseException as error:  # noqa: BLE001  # carried to the caller's thread and raised there
            events.put(_Idle(error))

    def _is_free(self) -> bool:
        """Tell whether nobody times on this device: jobs that it took over would wait, and another could do them."""
        try:
            self._surely(self._require_session)
        except WorkerError as error:
            raise _CannotBeOpened(str(error)) from error
        assert self._opened is not None
        lock = device_lock(self._opened.lock_name)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return False
        lock.release()
        return True

    def _run_batch(
        self, handed: Handed, work: OpenBatches, events: queue.SimpleQueue[_Event]
    ) -> None:
        self._pool.await_builds(tuple(handed.left), self._own_arch, self._is_stopping)
        has_failed = False
        while handed.left:
            job = handed.left[0]
            with self._devices_to_myself(job, events):
                if job.is_unseen and has_failed:
                    outcome: Outcome = _NOT_ACCEPTED
                else:
                    events.put(Started(self._device, job))
                    outcome = self._run_surely(job, events)
            has_failed |= not (job.is_unseen or isinstance(outcome, Passed))
            assert self._opened is not None
            recorded = threading.Event()
            session = self._require_session()
            finished = FinishedJob(
                job,
                outcome,
                self._opened,
                session.sandbox,
                session.attempt,
                self._pool.build_ms(session, job.solution),
                self._device,
            )
            work.finish_job(handed)
            events.put(_Done(finished, recorded))
            while not recorded.wait(_LOCK_POLL_S):
                if self._is_stopping.is_set():
                    raise Cancelled
        if self._session is not None:
            self._session.end_candidate()

    def _own_arch(self) -> str | None:
        """Name what GPU code is compiled for here; a CPU need not be opened to know that."""
        if self._device == PROCESSOR:
            return None
        self._surely(self._require_session)
        assert self._opened is not None
        return self._opened.arch

    def _run_surely(self, job: Job, events: queue.SimpleQueue[_Event]) -> Outcome:
        def run() -> Outcome:
            session = self._require_session()
            session.tell = lambda *reached: events.put(Reached(self._device, job, *reached))
            return session.run(job)

        return self._surely(run)

    def _surely(self, do: Callable[[], _T]) -> _T:
        """Do it; when our own machinery fails, start it anew and try once more."""
        for attempt in range(1, _TRIES + 1):
            try:
                return do()
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
        if self._session is not None:
            self._session.close()
        if self._launcher is not None:
            self._launcher.close()
        self._launcher = self._session = None

    @contextlib.contextmanager
    def _devices_to_myself(self, job: Job, events: queue.SimpleQueue[_Event]) -> Iterator[None]:
        """Hold the machine-wide locks of a job's devices, so that no two benchmarks time on them at once.

        Locks are taken in the order of their names, by everybody: two jobs never wait for each other.
        """
        session = self._surely(self._require_session)
        assert self._opened is not None
        names = {self._opened.lock_name}
        if job.definition.world_size is not None:
            names |= {
                self._opened.lock_names.get(device, self._opened.lock_name)
                for device in session.devices_of(job)
            }
        with contextlib.ExitStack() as stack:
            for name in sorted(names):
                stack.enter_context(self._lock_to_myself(name, events))
            yield

    @contextlib.contextmanager
    def _lock_to_myself(self, name: str, events: queue.SimpleQueue[_Event]) -> Iterator[None]:
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
