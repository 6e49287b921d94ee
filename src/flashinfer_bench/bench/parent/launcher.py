"""The parent's side of the fork server: start workers, hear them, notice their end, kill them.

One long file: a worker's life is read in one place, and its parts share the same descriptors.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from flashinfer_bench.bench.channel import Channel, ChannelClosed, ChannelTimeout, pair
from flashinfer_bench.bench.parent.children_clock import open_children_clock
from flashinfer_bench.bench.protocol import (
    Exited,
    FromServer,
    Kill,
    Killed,
    Message,
    NotSpawned,
    ServerReady,
    ShowStack,
    Spawn,
    Spawned,
)
from flashinfer_bench.bench.sandbox.policy import RankPlace
from flashinfer_bench.errors import MissingPackageError, WorkerError
from flashinfer_bench.tensors import memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.bench.parent.children_clock import ChildrenClock
    from flashinfer_bench.bench.protocol import Role, Wrapping
    from flashinfer_bench.bench.sandbox.policy import Missing, SandboxPolicy

_START_DEADLINE_S = 180.0
_ANSWER_DEADLINE_S = 30.0
_SPAWN_DEADLINE_S = 90.0
_GOODBYE_S = 1.0
_STACK_S = 0.5
_HEAD_BYTES = 48 << 10
_TAIL_BYTES = 16 << 10
_PIPE_BYTES = 1 << 20
_DRAIN_CHUNKS = 64

_KEPT_VARIABLES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "LD_PRELOAD",
        "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
        "CUTLASS_PATH", "NVIDIA_VISIBLE_DEVICES", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME",
        "SSL_CERT_FILE", "MALLOC_ARENA_MAX", "FLASHINFER_WORKSPACE_BASE",
    }
)  # fmt: skip
"""What workers see of the environment: no tokens, no keys."""

_KEPT_PREFIXES = ("NCCL_", "GLOO_", "NVSHMEM_", "TORCH_NCCL_", "TORCH_SYMM_MEM_")
"""Settings of libraries that connect ranks."""

_OF_RANKS = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
"""Ranks are on one host: nothing of them listens on the network."""

_STEADY_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the largest glibc takes
    "MALLOC_TRIM_THRESHOLD_": str(2 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""glibc keeps freed memory: otherwise it depends on a process's history whether a temporary tensor is
mapped and page-faulted anew in every call, and the same kernel is two or three times slower in one
process than in the next."""

Received = TypeVar("Received")


class WorkerDied(Exception):  # noqa: N818  # an event, turned into an outcome by who knows the role
    """A worker's process ended while something was expected of it."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker.ending)
        self.worker = worker


class Cancelled(Exception):  # noqa: N818
    """The run is being stopped."""


@dataclass
class Worker:
    """One process, its log, and the wait status once it has ended."""

    pid: int
    role: str
    log: Log
    scratch: Path
    channel: Channel[Any]
    status: int | None = None
    computing_pid: int = 0
    """The process that computes; another one than `pid` in a container."""
    missing: tuple[Missing, ...] = ()
    """What was to hold it and is not in force."""
    granted_bytes: int | None = None
    """Private memory it may have; None: as much as there is."""
    children: ChildrenClock | None = None
    """What its children use, ended ones too; None where the kernel does not count it."""
    peak_bytes: int = 0
    """What it had in memory at most, by the kernel's account, once it has ended."""

    def has_said(self) -> bool:
        """Tell whether something can be read from its channel now."""
        return self.channel.is_readable()

    def most_bytes(self) -> int:
        """Tell what it had in memory at most until now."""
        return self.peak_bytes or memory.peak_bytes(self.computing_pid)

    @property
    def ending(self) -> str:
        """Say how the process ended."""
        if self.status is None:
            return "its process runs"
        code = os.waitstatus_to_exitcode(self.status)
        if code >= 0:
            return f"its process exited with code {code}"
        hint = " (perhaps out of memory)" if -code == signal.SIGKILL else ""
        # real-time signals have no names
        known = {each.value: each.name for each in signal.Signals}
        return f"its process was ended by {known.get(-code, f'signal {-code}')}{hint}"


@dataclass
class Log:
    """What a worker prints: the first and the last of it, and how much fell out between."""

    descriptor: int
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)
    _dropped_bytes: int = 0

    def drain(self) -> bool:
        """Read what is there; return False at the end of the stream."""
        for _ in range(_DRAIN_CHUNKS):
            try:
                data = os.read(self.descriptor, _PIPE_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._add(data)
        return True

    def take(self) -> str:
        """Return the text so far and start anew."""
        cut = f"\n[… {self._dropped_bytes} bytes left out …]\n" if self._dropped_bytes else ""
        text = (self._head + cut.encode() + self._tail).decode(errors="replace")
        self._head, self._tail, self._dropped_bytes = bytearray(), bytearray(), 0
        return text

    def _add(self, data: bytes) -> None:
        room = _HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        surplus = len(self._tail) - _TAIL_BYTES
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped_bytes += surplus


@dataclass(frozen=True, slots=True)
class _Starting:
    """A worker that is asked for: our ends of what it will hold, and the other ends."""

    request: Spawn
    scratch: Path
    log: Log
    ours: socket.socket
    theirs: tuple[int, int]

    @contextlib.contextmanager
    def handed_over(self) -> Iterator[None]:
        """Close the other ends at the end: the server has them."""
        try:
            yield
        finally:
            for descriptor in self.theirs:
                os.close(descriptor)


class Launcher:
    """One fork server and the workers it has forked."""

    def __init__(
        self, *, environment: Mapping[str, str], threads: int, stop: int, niceness: int = 0
    ) -> None:
        self._environment = environment
        self._threads = threads
        self._stop = stop
        self._niceness = niceness
        self._process: subprocess.Popen[bytes] | None = None
        self._control: Channel[FromServer] | None = None
        self._workers: dict[int, Worker] = {}
        self._selector = selectors.DefaultSelector()
        self._answers: list[FromServer] = []
        self._next_id = 1
        self._folder = Path(tempfile.gettempdir())

    def start(self) -> None:
        """Start the server and wait until it has imported torch."""
        if importlib.util.find_spec("torch") is None:
            raise MissingPackageError("torch", extra="torch", needed_for="running solutions")
        ours, theirs = pair()
        self._folder = Path(tempfile.mkdtemp(prefix="flashinfer-bench-"))
        output = (self._folder / "server.log").open("wb")
        with theirs, output:
            self._process = subprocess.Popen(
                _server_command(theirs.fileno(), self._folder),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._worker_environment(),
                start_new_session=True,
            )
        if self._niceness:
            os.setpriority(os.PRIO_PROCESS, self._process.pid, self._niceness)
        self._control = Channel(ours, FromServer)
        self._selector.register(self._control, selectors.EVENT_READ, "control")
        self._selector.register(self._stop, selectors.EVENT_READ, "stop")
        self._ask_server(None, ServerReady, deadline_s=_START_DEADLINE_S)

    def spawn(
        self,
        role: Role,
        receives: Any,
        *,
        is_trusted: bool,
        policy: SandboxPolicy,
        wrapping: Wrapping | None = None,
        libraries: tuple[str, ...] = (),
    ) -> Worker:
        """Start a worker that answers on a channel of `receives`, shut in before it reads anything.

        The folders of a policy that are not named are the worker's scratch folder. With `wrapping`, a tool starts it.
        `libraries`: modules that it finds imported.
        """
        starting = self._prepare(
            role, policy, is_trusted=is_trusted, wrapping=wrapping, libraries=libraries
        )
        with starting.handed_over():
            spawned: Spawned | NotSpawned = self._ask_server(
                starting.request,
                (Spawned, NotSpawned),
                descriptors=starting.theirs,
                deadline_s=_SPAWN_DEADLINE_S,
            )
        return self._started(starting, spawned, receives)

    def spawn_ranks(
        self,
        receives: Any,
        *,
        is_trusted: bool,
        policies: Sequence[SandboxPolicy],
        backend: Literal["gloo", "nccl"],
    ) -> list[Worker]:
        """Start the candidates of a job for several ranks: they meet, and then each is shut in.

        Raises `WorkerError` with what the first one said that did not start.
        """
        with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:
            port, every = listener.getsockname()[1], []
            for rank, policy in enumerate(policies):
                place = RankPlace(rank, len(policies), backend, port)
                placed = msgspec.structs.replace(policy, rank=place)
                starting = self._prepare("candidate", placed, is_trusted=is_trusted)
                stack.enter_context(starting.handed_over())
                every.append(starting)
            answers = self._ask_for_ranks(every, listener.fileno())
        workers: list[Worker] = []
        failed: WorkerError | None = None
        for rank, starting in enumerate(every):
            try:
                workers.append(self._started(starting, answers[starting.request.id], receives))
            except WorkerError as error:
                failed = failed or WorkerError(f"rank {rank}: {error}")
        if failed is not None:
            for worker in workers:
                self.kill(worker)
            raise failed
        for worker in workers:
            worker.log.drain()
            worker.log.take()  # what libraries said while ranks met is nobody's doing
        return workers

    def _ask_for_ranks(
        self, every: Sequence[_Starting], listener: int
    ) -> dict[int, Spawned | NotSpawned]:
        """Ask for all, and then hear of all: none is there before the last one is asked for."""
        assert self._control is not None
        until_s = time.monotonic() + _SPAWN_DEADLINE_S + len(every)
        try:
            for rank, starting in enumerate(every):
                more = [listener] if rank == 0 else []
                self._control.send(starting.request, [*starting.theirs, *more])
            while len(self._answers) < len(every):
                self._turn(until_s, None)
        except (ChannelClosed, ChannelTimeout) as error:
            raise WorkerError(f"the fork server failed: {self._server_log()}") from error
        answers, self._answers = self._answers, []
        return {each.id: each for each in answers if isinstance(each, Spawned | NotSpawned)}

    def _prepare(
        self,
        role: Role,
        policy: SandboxPolicy,
        *,
        is_trusted: bool,
        wrapping: Wrapping | None = None,
        libraries: tuple[str, ...] = (),
    ) -> _Starting:
        """Make a worker's folder, its channel and the pipe of its log."""
        request_id = self.new_id()
        scratch = self._folder / f"{role}-{request_id}"
        scratch.mkdir(mode=0o700)
        ours, theirs = pair()
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        placed = self._placed(policy, scratch)
        wrapped = wrapping.placed(str(scratch)) if wrapping else None
        request = Spawn(request_id, role, is_trusted, placed, wrapped, libraries)
        return _Starting(request, scratch, Log(reader), ours, (theirs.detach(), writer))

    def _started(self, starting: _Starting, spawned: Spawned | NotSpawned, receives: Any) -> Worker:
        role, log, reader = starting.request.role, starting.log, starting.log.descriptor
        if isinstance(spawned, NotSpawned):
            log.drain()
            starting.ours.close()
            os.close(reader)
            raise WorkerError(f"a {role} did not start: {log.take().strip() or 'no output'}")
        channel: Channel[Any] = Channel(starting.ours, receives)
        worker = Worker(
            spawned.pid,
            role,
            log,
            starting.scratch,
            channel,
            computing_pid=spawned.computing_pid or spawned.pid,
            missing=spawned.missing,
            granted_bytes=memory.granted_bytes(spawned.computing_pid or spawned.pid),
            children=_clock_of_children(spawned) if role == "candidate" else None,
        )
        self._workers[worker.pid] = worker
        self._selector.register(reader, selectors.EVENT_READ, worker.log)
        return worker

    def _placed(self, policy: SandboxPolicy, scratch: Path) -> SandboxPolicy:
        """Give a policy its folder, and hide those of the other workers."""
        return msgspec.structs.replace(
            policy,
            scratch=str(scratch),
            build_folder=policy.build_folder or str(scratch),
            hidden=(*policy.hidden, str(self._folder)),
        )

    def kill(self, worker: Worker) -> int:
        """End a worker and all it left behind; return how many processes that were."""
        killed: Killed = self._ask_server(Kill(self.new_id(), worker.pid), Killed)
        self._forget(worker)
        return killed.leftovers

    def receive(
        self,
        channel: Channel[Received],
        *,
        deadline_s: float,
        watching: Sequence[Worker],
    ) -> Received:
        """Return the channel's next message, or raise when a watched worker dies before it comes."""
        with self._listening(channel):
            while True:
                message = channel.pending()
                if message is not None:
                    return message
                for worker in watching:
                    if worker.status is not None:
                        last = _last_message(channel) if worker.channel is channel else None
                        if last is not None:
                            return last
                        worker.log.drain()
                        raise WorkerDied(worker)
                self._turn(deadline_s, channel)

    def wait_for_any(self, workers: Sequence[Worker], seconds: float) -> None:
        """Wait until one of them has said something or ended, or the time is over."""
        with contextlib.ExitStack() as stack:
            for worker in workers:
                stack.enter_context(self._listening(worker.channel))
            with contextlib.suppress(ChannelTimeout):
                self._turn(time.monotonic() + seconds, None)

    def wait_for_end(self, worker: Worker, *, seconds: float) -> None:
        """Give a worker whose channel closed a moment to be reported dead."""
        deadline_s = time.monotonic() + seconds
        with contextlib.suppress(ChannelTimeout):
            while worker.status is None:
                self._turn(deadline_s, None)
        worker.log.drain()

    def stack_of(self, worker: Worker) -> str:
        """Ask a process that hangs where its Python code is; give what it prints meanwhile.

        Take its log before. It may print nothing, or what it likes: it is for people to read.
        """
        assert self._control is not None
        with contextlib.suppress(ChannelTimeout, ChannelClosed):
            self._control.send(ShowStack(self.new_id(), worker.pid))
            self.wait_for_end(worker, seconds=_STACK_S)
        return worker.log.take()

    def new_id(self) -> int:
        """Return a request id that was not used before."""
        self._next_id += 1
        return self._next_id

    def close(self) -> None:
        """End the server; it kills every worker on its way out."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(_GOODBYE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for worker in list(self._workers.values()):
            self._forget(worker)
        self._selector.close()
        if self._process is not None:
            remove_tree(self._folder)

    def _turn(self, deadline_s: float, channel: Channel[Any] | None) -> None:
        """Wait for one round of events and digest them."""
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise ChannelTimeout
        for key, _ in self._selector.select(left_s):
            if key.data == "stop":
                raise Cancelled
            if key.data == "control":
                self._hear_server()
            elif isinstance(key.data, Log):
                if not key.data.drain():
                    self._selector.unregister(key.fileobj)
            elif channel is not None:
                channel.fill()

    @contextlib.contextmanager
    def _listening(self, channel: Channel[Any]) -> Any:
        self._selector.register(channel, selectors.EVENT_READ, channel)
        try:
            yield
        finally:
            self._selector.unregister(channel)

    def _ask_server(
        self,
        request: Message | None,
        expected: type[Message] | tuple[type[Message], ...],
        *,
        descriptors: Sequence[int] = (),
        deadline_s: float = _ANSWER_DEADLINE_S,
    ) -> Any:
        assert self._control is not None
        until_s = time.monotonic() + deadline_s
        try:
            if request is not None:
                self._control.send(request, descriptors)
            while not self._answers:
                self._turn(until_s, None)
        except (ChannelClosed, ChannelTimeout) as error:
            raise WorkerError(f"the fork server failed: {self._server_log()}") from error
        answer = self._answers.pop()
        if not isinstance(answer, expected):
            raise WorkerError(f"the fork server answered {request!r} with {answer!r}")
        return answer

    def _hear_server(self) -> None:
        assert self._control is not None
        try:
            self._control.fill()
        except ChannelClosed as error:
            raise self._server_ended() from error
        while (message := self._control.pending()) is not None:
            if not isinstance(message, Exited):
                self._answers.append(message)
            elif message.pid in self._workers:
                self._workers[message.pid].status = message.status
                self._workers[message.pid].peak_bytes = message.peak_bytes

    def _forget(self, worker: Worker) -> None:
        self._workers.pop(worker.pid, None)
        worker.log.drain()
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(worker.log.descriptor)
        os.close(worker.log.descriptor)
        worker.channel.close()
        if worker.children is not None:
            worker.children.close()
        remove_tree(worker.scratch)

    def _server_ended(self) -> WorkerError:
        """Say the last line of its log; `--log-level DEBUG` has the rest."""
        log = self._server_log()
        is_import = "/torch/__init__.py" in log
        what = "torch cannot be imported" if is_import else "the fork server ended"
        remedy = "; install torch again, or see `flashinfer-bench doctor`" if is_import else ""
        error = WorkerError(f"{what}: {log.strip().splitlines()[-1]}{remedy}")
        error.add_note(log)
        return error

    def _server_log(self) -> str:
        try:
            return (self._folder / "server.log").read_text(errors="replace")[-4000:] or "no output"
        except OSError:
            return "no output"

    def _worker_environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self._environment.items()
            if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
        }
        threads = str(self._threads)
        return (
            _OF_RANKS
            | kept
            | {
                "OMP_NUM_THREADS": threads,
                "MKL_NUM_THREADS": threads,
                "OPENBLAS_NUM_THREADS": threads,
                "OMP_WAIT_POLICY": "PASSIVE",  # idle threads of one candidate must not slow the other
                "KMP_BLOCKTIME": "0",
                "OPENBLAS_THREAD_TIMEOUT": "4",  # the least; else they spin for 30 ms
                **_STEADY_MALLOC,
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONUNBUFFERED": "1",
                # Asked in the usual way, `torch.cuda.is_available()` starts CUDA, and tvm_ffi asks when it
                # is imported: nothing could be forked after that.
                "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
                "TMPDIR": str(self._folder),
            }
        )


def _clock_of_children(spawned: Spawned) -> ChildrenClock | None:
    """Nothing runs in a worker yet that could have started a child."""
    return open_children_clock(spawned.computing_pid or spawned.pid)


def remove_tree(folder: Path) -> None:
    """Remove a folder that a solution has filled, however deep."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        subprocess.run(["rm", "-rf", "--", str(folder)], stderr=subprocess.DEVNULL, check=False)


def _server_command(descriptor: int, folder: Path) -> list[str]:
    """-P: nothing in the working folder may shadow torch."""
    module = "flashinfer_bench.bench.worker"
    return [sys.executable, "-P", "-m", module, str(descriptor), str(folder)]


def _last_message(channel: Channel[Received]) -> Received | None:
    """Give what a worker said before it ended: its end is told by the server, which may be quicker."""
    with contextlib.suppress(ChannelClosed):
        while channel.is_readable():
            channel.fill()
            message = channel.pending()
            if message is not None:
                return message
    return None
