"""The fork server: it has imported torch and done nothing else, so a worker costs milliseconds.

It adopts and kills whatever a worker leaves behind, reports each worker's end at once, and ends with
everything it started when the parent goes away.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import gc
import importlib
import os
import selectors
import shutil
import signal
import socket
import sys
import time
import warnings
from pathlib import Path
from typing import NoReturn

from flashinfer_bench.bench.channel import Channel, ChannelClosed
from flashinfer_bench.bench.protocol import (
    Exited,
    FromServer,
    Kill,
    Killed,
    ServerReady,
    Spawn,
    Spawned,
    ToServer,
)
from flashinfer_bench.bench.worker import limits

_PRELOADED = (
    "torch",
    "flashinfer_bench.bench.worker.contestant",
    "flashinfer_bench.bench.worker.judge",
    "flashinfer_bench.compile.builder",
)
_PRELOADED_IF_PRESENT = ("numpy",)
_PRELOADED_WITHOUT_CUDA = ("tvm_ffi",)
"""With CUDA it asks for devices when it is imported, and the library that answers does not survive a fork."""
_KILL_DEADLINE_S = 5.0


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
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)

    def run(self) -> NoReturn:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._control.fill()
                else:
                    self._report(key.data)
            while (request := self._control.pending()) is not None:
                self._answer(request)

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

    def _spawn(self, request: Spawn) -> None:
        channel, log = self._control.take_descriptors()
        pid = os.fork()
        if pid == 0:
            _become_worker(request, channel, log)
        os.close(channel)
        os.close(log)
        self._pidfds[pid] = os.pidfd_open(pid)
        self._selector.register(self._pidfds[pid], selectors.EVENT_READ, pid)
        self._send(Spawned(request.id, pid))

    def _report(self, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        self._forget(pid)
        self._send(Exited(0, pid, status))

    def _forget(self, pid: int) -> None:
        pidfd = self._pidfds.pop(pid, None)
        if pidfd is not None:
            self._selector.unregister(pidfd)
            os.close(pidfd)

    def _send(self, message: FromServer) -> None:
        self._control.send(message)


def _preload() -> None:
    for name in _PRELOADED:
        importlib.import_module(name)
    has_cuda = getattr(importlib.import_module("torch.version"), "cuda", None) is not None
    for name in _PRELOADED_IF_PRESENT + (() if has_cuda else _PRELOADED_WITHOUT_CUDA):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is here now is shared by every fork; touching it would copy pages


def _become_worker(request: Spawn, channel: int, log: int) -> NoReturn:
    """Turn the fresh fork into a worker that holds its channel, its log and nothing else."""
    try:
        channel = _keep_only(channel, log)
        faulthandler.enable()
        warnings.resetwarnings()
        limits.restrict(is_trusted=request.is_trusted)
        role = importlib.import_module(f"flashinfer_bench.bench.worker.{request.role}")
        role.serve(socket.socket(fileno=channel))
    except ChannelClosed:
        pass
    except BaseException:  # noqa: BLE001  # the outermost frame of a process that may not return
        import traceback  # noqa: PLC0415

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)
    os._exit(0)


def _keep_only(channel: int, log: int) -> int:
    kept = 3
    quiet = os.open(os.devnull, os.O_RDONLY)
    log = fcntl.fcntl(log, fcntl.F_DUPFD, kept + 1)  # out of the way of the places filled below
    for descriptor, place in ((quiet, 0), (log, 1), (log, 2), (channel, kept)):
        os.dup2(descriptor, place)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # names are numbers, not paths
        if int(name) > kept:
            with contextlib.suppress(OSError):
                os.close(int(name))
    os.set_inheritable(kept, False)
    return kept


def _kill_all_but(kept: set[int]) -> int:
    """Kill every descendant that is not a live worker or below one; return how many there were."""
    deadline_s = time.monotonic() + _KILL_DEADLINE_S
    killed: set[int] = set()
    while victims := _descendants(os.getpid(), kept):
        killed |= victims
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in _children(os.getpid()) - kept:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline_s:
            break
        time.sleep(0.0005)
    return len(killed)


def _descendants(pid: int, kept: set[int]) -> set[int]:
    found: set[int] = set()
    for child in _children(pid) - kept:
        found.add(child)
        found |= _descendants(child, kept)
    return found


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread ended meanwhile
            found |= {int(word) for word in listing.read_text().split()}
    return found
