"""A server process: where it listens, the worker it starts itself, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.errors import MissingPackageError, UsageError
from flashinfer_bench.serve.database import open_store
from flashinfer_bench.serve.folder import service_folder
from flashinfer_bench.serve.leasing import OWN
from flashinfer_bench.serve.queued import QueueLimits
from flashinfer_bench.serve.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from fastapi import FastAPI

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.data import TraceSet

_log = logging.getLogger(__name__)
_RESTART_S = 1.0
_STOP_DEADLINE_S = 10.0
_BACKLOG = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where a server listens, what it keeps, and how patient it is."""

    store: str
    """A file, or a `postgresql://` address."""
    host: str = "127.0.0.1"
    port: int = 8000
    devices: tuple[str, ...] = ()
    """Of the worker that it starts itself; none where there are none."""
    grace_s: float = 30.0
    """How long it waits for what is worked at when it is to end."""
    lease_s: float = 30.0


class JsonLogLine(logging.Formatter):
    """A line of the log as a JSON object, with the task's id where it is about one."""

    def format(self, record: logging.LogRecord) -> str:
        """Write it."""
        line = {
            "time_s": round(record.created, 3),
            "level": record.levelname,
            "task": getattr(record, "task", None),
            "message": record.getMessage(),
        }
        return json.dumps(line)


def log_as_json() -> None:
    """Let this process, which serves until its end, write its log so."""
    logger = logging.getLogger("flashinfer_bench")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLogLine())
    logger.handlers = [handler]


def default_store(trace_set: TraceSet) -> str:
    """Give the file of a dataset's tasks."""
    return str(service_folder(trace_set) / "service.sqlite")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def serve(
    trace_set: TraceSet,
    config: BenchmarkConfig,
    options: ServerOptions,
    ready: Callable[[str], None],
    prepare: Callable[[FastAPI, Service], None] = lambda *_: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; a second one does not wait for what is worked at.

    `ready` is told the URL once requests are answered; `prepare` may add routes. Raises `UsageError` for an address
    that is taken, or that others reach while no tokens were made.
    """
    database = open_store(options.store)
    with database.only_server():
        service = Service(trace_set, config, database, QueueLimits(lease_s=options.lease_s))
        try:
            if not is_loopback(options.host) and not service.tokens.are_demanded():
                raise UsageError(
                    f"others reach {options.host}, and no token was made: `flashinfer-bench tokens add NAME "
                    f"--store {options.store}` makes one"
                )
            with _listening(options) as (listener, url):
                _Server(service, options, listener, url).run(lambda: ready(url), prepare)
        finally:
            service.close()


@contextlib.contextmanager
def _listening(options: ServerOptions) -> Iterator[tuple[socket.socket, str]]:
    try:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        listener = socket.create_server(
            (options.host, options.port), family=family, backlog=_BACKLOG
        )
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {options.host}:{options.port}: {reason}; --port takes another, 0 a free one"
        ) from error
    with listener:
        # asyncio does so for sockets of its own only; without it each answer waits 40 ms for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = f"[{options.host}]" if ":" in options.host else options.host
        yield listener, f"http://{name}:{listener.getsockname()[1]}"


class _Server:
    """uvicorn, a worker beside it, and signals that let both finish."""

    def __init__(
        self, service: Service, options: ServerOptions, listener: socket.socket, url: str
    ) -> None:
        self._service = service
        self._options = options
        self._listener = listener
        self._own = _OwnWorker(service, options.devices, service.trace_set.roots, _reachable(url))

    def run(self, ready: Callable[[], None], prepare: Callable[[FastAPI, Service], None]) -> None:
        uvicorn = _uvicorn()
        from flashinfer_bench.serve.app import make_app  # noqa: PLC0415  # needs the extra

        app = make_app()
        app.state.service = self._service
        app.state.is_open = app.state.only_own_names = is_loopback(self._options.host)
        app.state.stop = lambda: signal.raise_signal(signal.SIGTERM)
        prepare(app, self._service)
        # Its own handlers of signals would end it before what is worked at has ended.
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext
        asyncio.run(self._serve(server, ready))

    async def _serve(self, server: Any, ready: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        asked = asyncio.Event()
        count = 0

        def ask() -> None:
            nonlocal count
            count += 1
            asked.set()
            if count > 1:
                server.should_exit = server.force_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ask)
        running = asyncio.create_task(server.serve(sockets=[self._listener]))
        while not server.started and not running.done():
            await asyncio.sleep(0.01)
        self._own.start()
        ready()
        stopping = asyncio.create_task(self._stop(server, asked, lambda: count > 1))
        await running
        stopping.cancel()
        await asyncio.to_thread(self._own.stop)

    async def _stop(self, server: Any, asked: asyncio.Event, is_urgent: Callable[[], bool]) -> None:
        """Take nothing new, let what is worked at end, wake whoever waits, and end."""
        await asked.wait()
        self._service.is_draining = True
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._options.grace_s
        left = await asyncio.to_thread(self._service.queue.leased_count)
        if left:
            _log.warning("ending once %d batches have ended; again, to end at once", left)
        while left and loop.time() < until_s and not is_urgent():
            await asyncio.sleep(0.1)
            left = await asyncio.to_thread(self._service.queue.leased_count)
        await asyncio.to_thread(self._own.stop)
        self._service.changes.end()
        server.should_exit = True


class _OwnWorker:
    """The worker process that a server starts; one that ends is started anew."""

    def __init__(
        self, service: Service, devices: Sequence[str], roots: Sequence[Path], url: str
    ) -> None:
        self._service = service
        self._command = [
            *(sys.executable, "-m", "flashinfer_bench", "worker", "--server", url),
            *("--device", ",".join(devices), "--name", OWN, "--token-file", "-"),
            *(word for root in roots for word in ("--local", str(root))),
        ]
        self._is_wanted = bool(devices)
        self._is_over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="serve-worker", daemon=True)

    def start(self) -> None:
        """Start it, if it is wanted."""
        if self._is_wanted:
            self._thread.start()

    def stop(self) -> None:
        """End it: the end of its input tells it to, and it gives back what it has in hand."""
        self._is_over.set()
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        if self._thread.is_alive():
            self._thread.join(_STOP_DEADLINE_S)

    def _watch(self) -> None:
        while not self._is_over.is_set():
            code = self._run()
            if self._is_over.is_set():
                return
            _log.error("the server's own worker ended with %s; it is started again", code)
            self._service.note_own_workers_died(f"the server's own worker ended with {code}")
            self._is_over.wait(_RESTART_S)

    def _run(self) -> int:
        """Start it and wait for its end; what it is told comes by a pipe, whose end is the server's."""
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the server, which tells it
        )
        self._process = process
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{self._service.worker_token}\n".encode())
            process.stdin.flush()
        if self._is_over.is_set():
            process.stdin.close()
        code = _ended(process, self._is_over)
        with contextlib.suppress(OSError):
            process.stdin.close()
        return code


def _ended(process: subprocess.Popen[bytes], is_over: threading.Event) -> int:
    """Wait for its end; one that takes too long over it is ended."""
    while True:
        try:
            return process.wait(_STOP_DEADLINE_S / 2)
        except subprocess.TimeoutExpired:
            if is_over.is_set():
                process.kill()


def _reachable(url: str) -> str:
    """Give the address under which this machine reaches itself."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _uvicorn() -> Any:
    try:
        import uvicorn  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingPackageError("uvicorn", extra="service", needed_for="the service") from None
    return uvicorn
