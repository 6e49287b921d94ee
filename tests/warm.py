"""Fork servers that need not import torch: each is forked from one process that has.

A server of a run spends seconds on its imports, and after them it has done nothing that depends on the run. Here
one process a test session does the imports for each environment of workers; the servers of all runs are its forks.
What a server does from then on, and all its workers, are the real ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PR_SET_CHILD_SUBREAPER = 36
_MOST_TEMPLATES = 2
_STARTS_A_SERVER = ["-P", "-m", "flashinfer_bench.bench.worker"]


class Template:
    """A process that has imported what a server imports, in an environment, and forks servers."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )

    def fork(self, folder: str, channel: int, output: int) -> int:
        """Fork a server; it becomes a child of this process, as one that is started."""
        with _adopting():
            socket.send_fds(self._control, [folder.encode()], [channel, output])
            return int(self._control.recv(64))

    def end(self) -> None:
        """End the process; its servers are no longer its own."""
        self._control.close()
        self._process.kill()
        self._process.wait()


class Templates:
    """The last few, by environment; an environment that was not seen costs what a server costs."""

    def __init__(self) -> None:
        self._templates: dict[frozenset[tuple[str, str]], Template] = {}
        self._lock = threading.Lock()  # each device starts its servers from a thread of its own

    def popen(self, command: Sequence[str], **options: Any) -> Any:
        """Stand where the launcher starts its server."""
        if [*command[1:-2]] != _STARTS_A_SERVER:  # a test's own server
            return subprocess.Popen(command, **options)
        environment = dict(options["env"])
        folder = environment.pop("TMPDIR")
        key = frozenset(environment.items())
        with self._lock:
            template = self._templates.pop(key, None) or Template(environment)
            self._templates[key] = template
            while len(self._templates) > _MOST_TEMPLATES:
                self._templates.pop(next(iter(self._templates))).end()
            return Server(template.fork(folder, int(command[-2]), options["stdout"].fileno()))

    def end(self) -> None:
        """End them all."""
        for template in self._templates.values():
            template.end()
        self._templates.clear()


class Server:
    """What the launcher asks of the process it has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)
        self._is_over = False

    def wait(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        if self._is_over:
            return
        if not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a fork server", timeout or 0.0)
        os.waitpid(self.pid, 0)
        os.close(self._descriptor)
        self._is_over = True

    def kill(self) -> None:
        """End it."""
        if not self._is_over:
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


@contextlib.contextmanager
def warm_servers() -> Iterator[None]:
    """Have the launcher of this process start its servers so."""
    from flashinfer_bench.bench.parent import launcher

    templates = Templates()
    launcher.subprocess = types.SimpleNamespace(**vars(subprocess) | {"Popen": templates.popen})  # type: ignore[assignment]
    try:
        yield
    finally:
        launcher.subprocess = subprocess
        templates.end()


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Become the parent of grandchildren whose parent ends."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _serve_forks(descriptor: int) -> None:
    """What a template does: import, then fork for as long as it is asked."""
    from flashinfer_bench.bench.worker import server

    server._preload()
    control = socket.socket(fileno=descriptor)
    while True:
        request, received, _, _ = socket.recv_fds(control, 4096, 2)
        if not request:
            os._exit(0)
        told, tell = os.pipe()
        between = os.fork()
        if not between:
            pid = os.fork()
            if not pid:
                break
            os.write(tell, str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)  # from here on the server is the child of whoever adopts
        control.send(os.read(told, 64))
        for each in (told, tell, *received):
            os.close(each)
    control.close()
    os.close(told)
    os.close(tell)
    channel, output = received
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ["TMPDIR"] = request.decode()
    tempfile.tempdir = None
    server.serve(channel, Path(request.decode()))


def newest_server() -> psutil.Process:
    """The fork server that was started last: its own program, or a fork of a template."""
    children = psutil.Process().children()
    kinds = {"flashinfer_bench.bench.worker", __file__}
    servers = [each for each in children if kinds & {*each.cmdline()}]
    return max(servers, key=lambda each: each.create_time())


if __name__ == "__main__":
    _serve_forks(int(sys.argv[1]))
