"""How a worker or a client reaches the service: over HTTP, or within the same process."""

from __future__ import annotations

import importlib
import json
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

from flashinfer_bench.data import Definition
from flashinfer_bench.errors import DeviceError, MissingPackageError, UsageError
from flashinfer_bench.serve import messages
from flashinfer_bench.serve.refusals import RefusedError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from flashinfer_bench.data.entity import Entity
    from flashinfer_bench.serve.service import Service

E = TypeVar("E", bound="Entity")
_POLL_S = 0.05
_PATIENCE_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_SERVER_FAULT = 500
_LATER = 503
_NOTHING = 204


class UnreachableError(DeviceError):
    """The server does not answer."""


class WorkerLink(Protocol):
    """What a worker asks of the service; raises `RefusedError`, or `UnreachableError`."""

    def register(self, registration: messages.Registration) -> messages.AcceptedWorker:
        """Offer a device."""
        ...

    def take(self, worker: str, wait_s: float) -> messages.Grant | None:
        """Take a batch; None where none came."""
        ...

    def beat(self, lease: str, beat: messages.Beat) -> messages.LeaseState:
        """Keep a lease."""
        ...

    def finish(self, lease: str, result: messages.WorkerResult) -> None:
        """Hand in how a workload ended."""
        ...

    def release(self, lease: str, release: messages.Release) -> None:
        """Give a batch back."""
        ...

    def leave(self, worker: str) -> None:
        """Withdraw the device."""
        ...


class LocalLink:
    """A worker within the server's own process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.register = service.register
        self.beat = service.keep
        self.finish = service.finish
        self.release = service.release
        self.leave = service.leave

    def take(self, worker: str, wait_s: float) -> messages.Grant | None:
        """Take a batch, looking again and again."""
        until_s = time.monotonic() + wait_s
        while True:
            grant = self._service.take(worker)
            if grant is not None or self._service.is_draining or time.monotonic() >= until_s:
                return grant
            time.sleep(_POLL_S)


def httpx() -> ModuleType:
    """Import the HTTP client, or say how to get it."""
    try:
        return importlib.import_module("httpx2")
    except ImportError:
        raise MissingPackageError("httpx2", extra="service", needed_for="the service") from None


class HttpLink:
    """A server at a URL. Any thread may use it."""

    def __init__(self, server: str, token: str | None = None) -> None:
        if not server.startswith(("http://", "https://")):
            raise _no_server(server)
        self.server = server.rstrip("/")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._httpx = httpx()
        try:
            self._client = self._httpx.Client(
                base_url=self.server, headers=headers, timeout=_PATIENCE_S, trust_env=False
            )
        except self._httpx.InvalidURL as error:
            raise _no_server(server) from error

    def close(self) -> None:
        """End its connections."""
        self._client.close()

    # As a worker

    def register(self, registration: messages.Registration) -> messages.AcceptedWorker:
        """Offer a device."""
        return self.post("/workers", registration, messages.AcceptedWorker)

    def take(self, worker: str, wait_s: float) -> messages.Grant | None:
        """Take a batch; waiting is the server's."""
        answered = self.ask("POST", f"/workers/{worker}/lease?timeout={wait_s:g}", wait_s=wait_s)
        return messages.Grant.model_validate_json(answered) if answered else None

    def beat(self, lease: str, beat: messages.Beat) -> messages.LeaseState:
        """Keep a lease."""
        return self.post(f"/leases/{lease}/beat", beat, messages.LeaseState)

    def finish(self, lease: str, result: messages.WorkerResult) -> None:
        """Hand in how a workload ended."""
        self.ask("POST", f"/leases/{lease}/results", result)

    def release(self, lease: str, release: messages.Release) -> None:
        """Give a batch back."""
        self.ask("POST", f"/leases/{lease}/release", release)

    def leave(self, worker: str) -> None:
        """Withdraw the device."""
        self.ask("DELETE", f"/workers/{worker}")

    # As a client

    def definition(self, name: str) -> Definition:
        """Fetch a definition."""
        return self.get(f"/definitions/{quote(name, safe='')}", Definition)

    def get(self, path: str, kind: type[E], *, wait_s: float = 0.0) -> E:
        """Ask for an entity."""
        return self._read(kind, self.ask("GET", path, wait_s=wait_s))

    def post(
        self, path: str, body: Entity, kind: type[E], headers: dict[str, str] | None = None
    ) -> E:
        """Send one and get one."""
        return self._read(kind, self.ask("POST", path, body, headers=headers))

    def _read(self, kind: type[E], answer: bytes) -> E:
        try:
            return kind.model_validate_json(answer)
        except ValueError as error:
            raise UsageError(
                f"{self.server}: its answer is none of a flashinfer-bench server of this version"
            ) from error

    def ask(
        self,
        method: str,
        path: str,
        body: Entity | None = None,
        *,
        wait_s: float = 0.0,
        headers: dict[str, str] | None = None,
    ) -> bytes:
        """Send a request; give the answer's body."""
        content = None if body is None else body.to_json().encode()
        known = {"Content-Type": "application/json"} if content is not None else {}
        try:
            answered = self._client.request(
                method,
                path,
                content=content,
                headers=known | (headers or {}),
                timeout=_PATIENCE_S + wait_s,
            )
        except self._httpx.HTTPError as error:
            raise self._unreachable(error) from error
        self._require_done(answered.status_code, answered.content, answered.headers)
        return b"" if answered.status_code == _NOTHING else bytes(answered.content)

    def events(self, task: str, after: int = 0) -> Iterator[messages.TaskEvent]:
        """Hear what happens to a task until the server has nothing more to say; it may end before the task does."""
        headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
        try:
            with self._client.stream(
                "GET", f"/tasks/{quote(task, safe='')}/events", headers=headers, timeout=60.0
            ) as answered:
                if answered.status_code >= 300:  # noqa: PLR2004  # no success
                    self._require_done(answered.status_code, answered.read(), answered.headers)
                for line in answered.iter_lines():
                    if line.startswith("data: "):
                        yield messages.TaskEvent.model_validate_json(line.removeprefix("data: "))
        except self._httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> UnreachableError:
        said = str(error) or type(error).__name__
        return UnreachableError(
            f"{self.server} does not answer: {said}; `flashinfer-bench serve` starts a server"
        )

    def _require_done(self, status: int, content: bytes, headers: Any) -> None:
        if status < 300:  # noqa: PLR2004  # success
            return
        if status >= _SERVER_FAULT and status != _LATER:
            raise UnreachableError(f"{self.server}: {_sentence(content, status)}")
        after = headers.get("Retry-After", "")
        raise RefusedError(
            status,
            _sentence(content, status),
            retry_after_s=int(after) if after.isdigit() else None,
        )


def _no_server(server: str) -> UsageError:
    return UsageError(f"{server!r} is no server: give its URL, such as http://127.0.0.1:8000")


def _sentence(content: bytes, status: int) -> str:
    """Read why a request was refused."""
    try:
        return str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"it answered with status {status}, and is perhaps no flashinfer-bench server"


def persistently(
    do: Callable[[], Any], is_over: threading.Event, tell: Callable[[str], None]
) -> Any:
    """Do it, again and again while the server does not answer; `UnreachableError` once it is over."""
    pause_s, has_told = _FIRST_PAUSE_S, False
    while True:
        try:
            return do()
        except UnreachableError as error:
            if is_over.is_set():
                raise
            if not has_told:
                tell(f"{error}; trying again")
                has_told = True
        except RefusedError as error:
            if error.status != _LATER or is_over.is_set():
                raise
        is_over.wait(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
