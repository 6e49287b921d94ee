"""The fork server: it has imported torch and done nothing else, so a worker costs milliseconds.

It adopts and kills whatever a worker leaves behind, reports each worker's end at once, and ends with
everything it started when the parent goes away.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import math
import os
import select
import selectors
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from flashinfer_bench.bench.channel import Channel, ChannelClosed
from flashinfer_bench.bench.protocol import (
    Exited,
    FromServer,
    Kill,
    Killed,
    NotSpawned,
    ServerReady,
    ShowStack,
    Spawn,
    Spawned,
    ToServer,
    Wrapping,
)
from flashinfer_bench.bench.sandbox import allowlist, container, limits
from flashinfer_bench.bench.sandbox.policy import Missing
from flashinfer_bench.bench.worker import startup
from flashinfer_bench.bench.worker.processes import children_of, descendants_of
from flashinfer_bench.data import settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PRELOADED = (
    "torch",
    "flashinfer_bench.bench.candidate.harness",
    "flashinfer_bench.bench.judge.service",
    "flashinfer_bench.compile.builder",
)
_PRELOADED_IF_PRESENT = ("numpy",)
_PRELOADED_WITHOUT_CUDA = ("tvm_ffi",)
"""With CUDA it asks for devices when it is imported, and the library that answers does not survive a fork."""
_KILL_DEADLINE_S = 5.0
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.016
_SWARM = 512
"""From so many processes on, killing them takes a head start."""
_START_DEADLINE_S = 60.0
_MOST_WATCHED = 64
_COUNT_EVERY_S = 0.25
_CHANNEL, _REPORT, _LISTENER = 3, 4, 5
"""Where a worker finds its two descriptors, and a first rank a socket."""


def serve(descriptor: int, folder: Path) -> NoReturn:
    """Import what workers need, then fork them on request until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    limits.become_subreaper()
    _preload()
    control: Channel[ToServer] = Channel(socket.socket(fileno=descriptor), ToServer)
    server = _ForkServer(control)
    control.send(ServerReady(id=0))
    try:
        server.run()
    except ChannelClosed:
        server.kill_everything()
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


class _ForkServer:
    def __init__(self, control: Channel[ToServer]) -> None:
        self._control = control
        self._pidfds: dict[int, int] = {}
        self._pins: dict[int, int] = {}
        self._trusted: set[int] = set()
        self._contained: set[int] = set()
        self._starting: list[tuple[Spawn, int, int]] = []
        self._imported: set[str] = set()
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)
        self._readable = allowlist.readable(settings.environment_copy())
        self._usual_tasks = limits.tasks_of_machine()
        for path in allowlist.proc_entries():  # the kernel must not forget files that rules name
            with contextlib.suppress(OSError):
                os.open(path, os.O_PATH | os.O_CLOEXEC)

    def run(self) -> NoReturn:
        while True:
            for key, _ in self._selector.select(self._patience_s()):
                if key.data is None:
                    self._control.fill()
                else:
                    self._report(key.data)
            while (request := self._control.pending()) is not None:
                self._answer(request)
            if self._patience_s() is not None:
                self._end_swarms()

    def _patience_s(self) -> float | None:
        """Look up now and then where the kernel lets a worker start any number of processes."""
        is_watching = limits.is_exempt_from_process_limit() and self._pidfds
        return _COUNT_EVERY_S if is_watching else None

    def _end_swarms(self) -> None:
        """Kill workers that have started more processes than they may; of orphans, candidates are the parents."""
        if limits.tasks_of_machine() - self._usual_tasks < limits.MOST_PROCESSES:
            return
        most = limits.MOST_PROCESSES // 2
        if len(descendants_of(os.getpid())) <= most:
            return
        parents = {pid for pid in self._pidfds if len(descendants_of(pid)) > most}
        for pid in parents or self._pidfds.keys() - self._trusted:
            os.kill(pid, signal.SIGKILL)
            self._report(pid)
        _kill_all_but(set(self._pidfds))

    def kill_everything(self) -> None:
        for pid in list(self._pidfds):
            self._forget(pid)
        _kill_all_but(set())

    def _answer(self, request: ToServer) -> None:
        match request:
            case Spawn():
                self._spawn(request)
            case Kill(id=id_, pid=pid):
                self._forget(pid)
                leftovers = _kill_all_but(set(self._pidfds))
                self._send(Killed(id_, pid, max(0, leftovers - 1)))
            case ShowStack(pid=pid):
                self._show_stack(pid)

    def _show_stack(self, pid: int) -> None:
        """Ask by a signal: whoever hangs reads no message."""
        with contextlib.suppress(ProcessLookupError):
            if pid in self._contained:
                os.kill(_innermost(pid), startup.STACK_SIGNAL)
            elif pid in self._pidfds:
                signal.pidfd_send_signal(self._pidfds[pid], startup.STACK_SIGNAL)

    def _spawn(self, request: Spawn) -> None:
        channel, log, *listener = self._control.take_descriptors()
        self._import(request.libraries)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._usual_tasks = limits.tasks_of_machine()
        pid = os.fork()
        if pid == 0:
            _become_worker(request, (channel, log, writer, *listener), self._readable)
        for descriptor in (channel, log, writer, *listener):
            os.close(descriptor)
        self._pins[pid] = os.open(f"/proc/{pid}", os.O_PATH | os.O_CLOEXEC)
        self._pidfds[pid] = os.pidfd_open(pid)
        self._selector.register(self._pidfds[pid], selectors.EVENT_READ, pid)
        if request.is_trusted:
            self._trusted.add(pid)
        if request.policy.level == "container" or request.wrapping is not None:
            self._contained.add(pid)
        self._starting.append((request, pid, reader))
        rank = request.policy.rank
        if rank is not None and rank.rank + 1 < rank.world_size:
            return  # it waits for the other ranks before it reports
        starting, self._starting = self._starting, []
        for each in starting:
            self._tell_start(*each)

    def _import(self, names: Sequence[str]) -> None:
        new = [name for name in names if name not in self._imported]
        if new:
            _import(new)
            self._imported.update(new)

    def _tell_start(self, request: Spawn, pid: int, reader: int) -> None:
        report = _read_report(reader)
        if report is None:
            self._forget(pid)
            _kill_all_but(set(self._pidfds))
            self._send(NotSpawned(request.id, pid))
        else:
            computing = _innermost(pid) if pid in self._contained else pid
            self._send(Spawned(request.id, pid, computing, report))

    def _report(self, pid: int) -> None:
        _, status, used = os.wait4(pid, 0)
        is_contained = pid in self._contained
        self._forget(pid)
        status = container.wait_status(status) if is_contained else status
        self._send(Exited(0, pid, status, used.ru_maxrss << 10))

    def _forget(self, pid: int) -> None:
        pidfd = self._pidfds.pop(pid, None)
        if pidfd is not None:
            self._selector.unregister(pidfd)
            os.close(pidfd)
            os.close(self._pins.pop(pid))
        self._trusted.discard(pid)
        self._contained.discard(pid)

    def _send(self, message: FromServer) -> None:
        self._control.send(message)


def _preload() -> None:
    for name in _PRELOADED:
        importlib.import_module(name)
    has_cuda = getattr(importlib.import_module("torch.version"), "cuda", None) is not None
    _import(_PRELOADED_IF_PRESENT + (() if has_cuda else _PRELOADED_WITHOUT_CUDA))


def _import(names: Sequence[str]) -> None:
    """Import what workers need, as far as it is here; of `module:function` call the function, which remembers."""
    for name in names:
        module, _, function = name.partition(":")
        with contextlib.suppress(Exception):  # who needs it will say what is wrong with it
            found = importlib.import_module(module)
            if function:
                getattr(found, function)()
    gc.collect()
    gc.freeze()  # what is here now is shared by every fork; touching it would copy pages


def _become_worker(
    request: Spawn, descriptors: Sequence[int], readable: tuple[str, ...]
) -> NoReturn:
    """Turn the fresh fork into a worker that holds its channel, its log, its report and nothing else.

    A first rank holds the socket where ranks meet, too.
    """
    _keep_only(*descriptors)
    policy = request.policy
    if policy.level != "container" and request.wrapping is None:
        listener = _LISTENER if policy.rank is not None and policy.rank.rank == 0 else None
        startup.become(request.role, _CHANNEL, _REPORT, policy, readable, listener=listener)
    wrapping = request.wrapping or Wrapping()
    command = [*wrapping.command, *startup.command_of(request.role, policy, (_CHANNEL, _REPORT))]
    try:
        limits.end_with_parent()
        with contextlib.suppress(OSError):
            Path(policy.build_folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        if policy.level == "container":
            command = container.command(policy, readable, command)
        environment = settings.environment_copy() | dict(wrapping.environment)
        os.execve(command[0], command, environment)  # noqa: S606  # no shell is wanted
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(1)


def _keep_only(channel: int, log: int, report: int, *listener: int) -> None:
    quiet = os.open(os.devnull, os.O_RDONLY)
    wanted = (quiet, log, log, channel, report, *listener)
    taken = [  # out of the way of the places filled below
        fcntl.fcntl(each, fcntl.F_DUPFD, len(wanted)) for each in wanted
    ]
    for place, descriptor in enumerate(taken):
        os.dup2(descriptor, place)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # names are numbers, not paths
        if int(name) >= len(wanted):
            with contextlib.suppress(OSError):
                os.close(int(name))


def _read_report(reader: int) -> tuple[Missing, ...] | None:
    """Hear what a worker could not put in force; None when it ended before it said so."""
    with open(reader, "rb", buffering=0) as pipe:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        deadline_s = time.monotonic() + _START_DEADLINE_S
        said = b""
        while poll.poll(max(0.0, deadline_s - time.monotonic()) * 1e3):
            data = pipe.read(1 << 16)
            if not data:
                break
            said += data
            with contextlib.suppress(
                msgspec.DecodeError
            ):  # a tool around the worker may hold the pipe open
                return msgspec.msgpack.decode(said, type=tuple[Missing, ...])
    if not said:
        return None
    return msgspec.msgpack.decode(said, type=tuple[Missing, ...])


def _innermost(pid: int) -> int:
    """Follow bubblewrap, and its reaper, to the one process it runs."""
    while children := children_of(pid):
        pid = min(children)
    return pid


def _kill_all_but(kept: set[int]) -> int:
    """Kill every descendant that is not a live worker or below one; return how many there were."""
    deadline_s = time.monotonic() + _KILL_DEADLINE_S
    killed: set[int] = set()
    pause_s = _SHORTEST_PAUSE_S
    with contextlib.ExitStack() as stack:
        while victims := descendants_of(os.getpid(), without=frozenset(kept)):
            if len(victims) > _SWARM and not killed:
                stack.enter_context(_first_in_line())
            killed |= victims
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _wait_for_ends(victims, at_most_s=pause_s)
            for pid in children_of(os.getpid()) - kept:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            if time.monotonic() > deadline_s:
                break
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)  # the dying need the processor too
    return len(killed)


def _wait_for_ends(pids: set[int], *, at_most_s: float) -> None:
    """Wait until all of them are dead, or some time is over; a swarm is not watched one by one."""
    if len(pids) > _MOST_WATCHED:
        time.sleep(at_most_s)
        return
    deadline_s = time.monotonic() + at_most_s
    poll, alive = select.poll(), 0
    with contextlib.ExitStack() as stack:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                pidfd = os.pidfd_open(pid)
                stack.callback(os.close, pidfd)
                poll.register(pidfd, select.POLLIN)
                alive += 1
        while alive and (left_s := deadline_s - time.monotonic()) > 0:
            for pidfd, _ in poll.poll(math.ceil(left_s * 1e3)):
                poll.unregister(pidfd)
                alive -= 1


@contextlib.contextmanager
def _first_in_line() -> Iterator[None]:
    """Run before a thousand processes that fork, where that is allowed."""
    try:
        urgent = os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO))
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, urgent)
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
