"""Builds ahead: what compilers make for a run is made side by side, before a device is held for it.

A thread with a fork server of its own compiles the solutions of a plan, a process each, in the sandbox and with the
deadline and the log of any build. The process on the device then finds the binary, or it is known why there is none.
What ended otherwise (a process that died, a cache that cannot be written) is left to the build on the device, which
meets it alone.

A build must not disturb a timing on a CPU. So builds hold the processor's lock together, and a timing on the CPU holds
it alone: a run builds a share of its solutions, times them, and builds the next. Beside a GPU, builds go on while it
is timed, with low priority, and leave cores to those who time.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
from filelock import FileLock, Timeout

from flashinfer_bench.bench.channel import ChannelClosed
from flashinfer_bench.bench.outcomes import NotBuilt, Skipped
from flashinfer_bench.bench.parent.candidates import Candidates, PendingBuild, subject_of
from flashinfer_bench.bench.parent.device_locks import PROCESSOR, SharedHold
from flashinfer_bench.bench.parent.events import Building, Waiting
from flashinfer_bench.bench.parent.holders import (
    holder_text,
    ourselves,
    read_holder,
    write_holder,
)
from flashinfer_bench.bench.parent.launcher import Cancelled, Launcher
from flashinfer_bench.bench.protocol import Built
from flashinfer_bench.compile.builder import is_compiled_ahead, is_left_to_compile
from flashinfer_bench.compile.cache import solution_folder
from flashinfer_bench.data import settings
from flashinfer_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.bench.sandbox.policy import Sandbox
    from flashinfer_bench.data import Definition, Solution

_POLL_S = 0.05
_STOP_DEADLINE_S = 5.0
_BYTES_EACH = 2 << 30
_CORES_FOR_EACH_GPU = 2
_LOW_PRIORITY = 10
_SHARE = 8
"""Where builds and timings take turns, so many solutions for each process are built in a turn."""
_MEMORY_RAN_OUT = re.compile(
    r"killed|kill signal|out of memory|cannot allocate memory", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """What came of a build instead of a binary."""

    outcome: NotBuilt | Skipped
    sandbox: Sandbox


@dataclass(eq=False, slots=True)
class _Entry:
    """One solution for one architecture."""

    solution: Solution
    definition: Definition
    arch: str | None
    failure: KnownFailure | None = None
    is_done: bool = False
    took_ms: float = 0.0


@dataclass(eq=False, slots=True)
class _RunningBuild:
    entry: _Entry
    lock: FileLock
    pending: PendingBuild
    sandbox: Sandbox


class BuildsAhead:
    """The builds of one run. Devices ask from their threads; one thread builds."""

    def __init__(
        self,
        batches: Sequence[Sequence[Job]],
        *,
        devices: Sequence[str],
        threads: int,
        roots: tuple[str, ...],
        cache_root: Path,
        config: BenchmarkConfig,
        observe: Callable[[Building | Waiting], None],
    ) -> None:
        self._planned: dict[str, tuple[Solution, Definition]] = {
            subject_of(solution): (solution, job.definition)
            for batch in batches
            for job in batch
            for solution in (job.solution, job.opponent)
            if solution is not None and is_compiled_ahead(solution)
        }
        gpus = [name for name in devices if name != PROCESSOR]
        self._takes_turns = not gpus
        self._at_once = builds_at_once(len(gpus))
        self._threads, self._roots, self._cache_root = threads, roots, cache_root
        self._config = config
        self._observe = observe
        self._entries: dict[tuple[str, str | None], _Entry] = {}
        self._due: deque[_Entry] = deque()
        self._running: list[_RunningBuild] = []
        self._processor = SharedHold(PROCESSOR)
        self._changed = threading.Condition()
        self._stop_reader, self._stop_writer = -1, -1
        self._thread: threading.Thread | None = None
        self._launcher: Launcher | None = None
        self._candidates: Candidates | None = None
        self._has_told = False
        self._is_closed = False
        self._has_given_up = False
        self._error: BaseException | None = None

    def concerns(self, batch: Sequence[Job]) -> bool:
        """Tell whether something of a batch is compiled ahead."""
        return bool(self._subjects(batch))

    def wait_for(
        self, batch: Sequence[Job], arch: str | None, is_stopping: threading.Event
    ) -> None:
        """Wait until it is known what comes of a batch's builds for an architecture."""
        with self._changed:
            wanted = self._made_due(self._subjects(batch), arch)
            self._changed.notify_all()
            while not all(entry.is_done for entry in wanted) and not self._has_given_up:
                if self._error is not None:
                    raise self._error
                if is_stopping.is_set():
                    raise Cancelled
                self._changed.wait(_POLL_S)

    def failure_of(self, solution: Solution, arch: str | None) -> KnownFailure | None:
        """Give what came of a solution's build where it is no binary; None where that is not known."""
        entry = self._entries.get((subject_of(solution), arch))
        return None if entry is None else entry.failure

    def build_ms(self, solution: Solution) -> float:
        """Say how long a solution's compilers took here; 0 where nothing was left for them."""
        subject = subject_of(solution)
        return max(
            (e.took_ms for (name, _), e in self._entries.items() if name == subject), default=0.0
        )

    def close(self) -> None:
        """Stop building, and end every process."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is None:
            return
        os.write(self._stop_writer, b"x")
        self._thread.join(_STOP_DEADLINE_S)
        for descriptor in (self._stop_reader, self._stop_writer):
            os.close(descriptor)
        self._thread = None

    def _subjects(self, batch: Sequence[Job]) -> list[str]:
        every = (each for job in batch for each in (job.solution, job.opponent) if each is not None)
        return [name for name in dict.fromkeys(map(subject_of, every)) if name in self._planned]

    def _made_due(self, subjects: Sequence[str], arch: str | None) -> list[_Entry]:
        """Have entries built, and give those to wait for: in turns a share of them, else what is wanted."""
        if (next(iter(self._planned)), arch) not in self._entries:
            for subject, (solution, definition) in self._planned.items():
                self._entries[subject, arch] = _Entry(solution, definition, arch)
            if not self._takes_turns:
                self._due.extend(e for e in self._entries.values() if e.arch == arch)
        wanted = [self._entries[subject, arch] for subject in subjects]
        if self._takes_turns and not all(entry.is_done for entry in wanted):
            later = (entry for entry in self._entries.values() if not entry.is_done)
            share = dict.fromkeys([*wanted, *later])
            wanted = [entry for entry in share if not entry.is_done][: self._at_once * _SHARE]
            self._due.extend(wanted)
        if self._due and self._thread is None:
            self._stop_reader, self._stop_writer = os.pipe2(os.O_CLOEXEC)
            self._thread = threading.Thread(target=self._work, name="bench-builds", daemon=True)
            self._thread.start()
        return wanted

    # ------------------------------------------------------------------ the thread that builds

    def _work(self) -> None:
        try:
            while not self._is_closed:
                self._begin_what_can_be()
                if self._running:
                    self._finish_what_ended()
                else:
                    self._rest()
        except Cancelled:
            pass
        except (BenchError, ChannelClosed, OSError):
            self._has_given_up = True  # the build on the device meets it too, and says so
        except BaseException as error:  # noqa: BLE001  # carried to the threads that wait
            self._error = error
        finally:
            self._end()

    def _begin_what_can_be(self) -> None:
        for _ in range(len(self._due)):
            if len(self._running) == self._at_once:
                return
            entry = self._due.popleft()
            lock = self._entry_lock(entry)
            try:
                lock.acquire(timeout=0)
            except Timeout:  # another run builds it
                self._due.append(entry)
                continue
            if not is_left_to_compile(entry.solution, entry.arch, self._cache_root):
                lock.release()
                self._note_done(entry)
            elif self._has_processor():
                self._begin(entry, lock)
            else:
                lock.release()
                self._due.appendleft(entry)
                return

    def _begin(self, entry: _Entry, lock: FileLock) -> None:
        try:
            candidates = self._require_candidates()
            pending = candidates.begin(
                entry.solution, entry.definition, arch=entry.arch, only_compiles=True
            )
        except BaseException:
            lock.release()
            raise
        self._running.append(_RunningBuild(entry, lock, pending, candidates.sandbox))
        self._say()

    def _finish_what_ended(self) -> None:
        assert self._launcher is not None
        self._launcher.wait_for_any([each.pending.worker for each in self._running], _POLL_S)
        now_s = time.monotonic()
        for each in list(self._running):
            worker = each.pending.worker
            if worker.status is not None or now_s > each.pending.deadline_s or worker.has_said():
                self._finish(each)

    def _finish(self, running: _RunningBuild) -> None:
        entry, worker = running.entry, running.pending.worker
        candidates = self._require_candidates()
        answer = candidates.finish(running.pending, None)
        entry.took_ms = candidates.build_ms[subject_of(entry.solution)]
        if isinstance(answer, Built):
            candidates.drop(running.pending)
        elif not _may_go_better_alone(answer, worker.status):
            entry.failure = KnownFailure(answer, running.sandbox)
        running.lock.release()
        self._running.remove(running)
        self._note_done(entry)
        self._say()

    def _rest(self) -> None:
        """Nothing is built now: let timings have the processor, and wait for what else is wanted."""
        self._processor.release()
        with self._changed:
            if not self._due and all(entry.is_done for entry in self._entries.values()):
                self._close_launcher()
            if not self._is_closed:
                self._changed.wait(_POLL_S if self._due else None)

    def _note_done(self, entry: _Entry) -> None:
        with self._changed:
            entry.is_done = True
            self._changed.notify_all()

    def _has_processor(self) -> bool:
        """Tell whether nothing is timed on the CPU, and nothing will be while this holds."""
        if self._processor.take():
            write_holder(PROCESSOR, ourselves(time.time()))
            self._has_told = False
            return True
        if not self._has_told:
            self._observe(Waiting(PROCESSOR, holder_text(read_holder(PROCESSOR))))
            self._has_told = True
        return False

    def _say(self) -> None:
        names = tuple(each.entry.solution.name for each in self._running)
        self._observe(Building(names, len(self._due)))

    def _entry_lock(self, entry: _Entry) -> FileLock:
        """Make the lock by which a content is built once for an architecture, whoever asks."""
        folder = self._cache_root / "building"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = solution_folder(self._cache_root, entry.solution).name
        return FileLock(folder / f"{name}{'' if entry.arch is None else f'-{entry.arch}'}.lock")

    def _require_candidates(self) -> Candidates:
        if self._candidates is None:
            self._launcher = Launcher(
                environment=settings.environment_copy(),
                threads=self._threads,
                stop=self._stop_reader,
                niceness=0 if self._takes_turns else _LOW_PRIORITY,
            )
            self._launcher.start()
            self._candidates = Candidates(
                self._launcher,
                device=PROCESSOR,  # a compiler needs no other
                threads=self._threads,
                roots=self._roots,
                cache_root=self._cache_root,
                config=self._config,
            )
        return self._candidates

    def _end(self) -> None:
        """Leave nothing behind: no process, no copy, no lock."""
        self._close_launcher()
        for each in self._running:
            each.lock.release()
        self._running.clear()
        self._processor.release()
        with self._changed:
            self._changed.notify_all()

    def _close_launcher(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
        if self._candidates is not None:
            self._candidates.discard_copies()
        self._launcher = self._candidates = None


def is_built_ahead(jobs: Iterable[Job]) -> bool:
    """Tell whether something of these jobs is compiled before they run."""
    return any(is_compiled_ahead(job.solution) for job in jobs)


def builds_at_once(gpu_count: int) -> int:
    """Say how many builds run side by side: as many as there are cores and memory, less what timing on GPUs takes."""
    cores = len(os.sched_getaffinity(0)) - gpu_count * _CORES_FOR_EACH_GPU
    return max(1, min(cores, psutil.virtual_memory().available // _BYTES_EACH))


def _may_go_better_alone(answer: NotBuilt | Skipped, status: int | None) -> bool:
    """Tell whether a build failed perhaps for others beside it: its process or its compiler was killed."""
    if status is not None and os.waitstatus_to_exitcode(status) != 0:
        return True
    return isinstance(answer, NotBuilt) and _MEMORY_RAN_OUT.search(answer.log) is not None
