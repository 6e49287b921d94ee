"""The service's verbs for Python programs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlencode

from flashinfer_bench.serve import messages
from flashinfer_bench.serve.links import HttpLink, UnreachableError
from flashinfer_bench.serve.states import ENDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from flashinfer_bench.data import Definition, Solution

_POLL_S = 30.0
_PAUSE_S = 0.5


class LinkedClient:
    """What clients of a server at a URL have in common: a context manager that ends its connections."""

    def __init__(self, server: str, token: str | None = None) -> None:
        self._link = HttpLink(server, token)
        self.server = self._link.server

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._link.close()


class ServiceClient(LinkedClient):
    """A server at a URL: submit, wait, list, cancel.

    Raises `RefusedError` with the server's sentence, and `UnreachableError` where it does not answer.
    """

    def close(self) -> None:
        """End its connections."""
        self._link.close()

    def definition(self, name: str) -> Definition:
        """Fetch a definition."""
        return self._link.definition(name)

    def health(self) -> messages.Health:
        """Ask who evaluates, and how much waits."""
        return self._link.get("/health", messages.Health)

    def kinds(self) -> list[str]:
        """Name the kinds of devices that evaluate."""
        return sorted({worker.kind for worker in self.health().workers}) or ["cpu"]

    def submit(
        self,
        solution: Solution,
        *,
        workloads: Sequence[str] = (),
        hardware: str = "any",
        fresh: bool = False,
        idempotency_key: str | None = None,
    ) -> messages.Submitted:
        """Submit a solution; the task is on the server's disk when this returns."""
        body = messages.Submission(
            solution=solution,
            workload_uuids=list(workloads) or None,
            hardware=hardware,
            fresh=fresh,
        )
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return self._link.post("/evaluate", body, messages.Submitted, headers)

    def task(self, task_id: str, *, wait_s: float = 0.0) -> messages.TaskState:
        """Ask how far a task is, or wait so many seconds for its end."""
        path = f"/tasks/{quote(task_id, safe='')}?timeout={wait_s:g}"
        return self._link.get(path, messages.TaskState, wait_s=wait_s)

    def wait(self, task_id: str, *, most_s: float = float("inf")) -> messages.TaskState:
        """Wait for a task's end, also over a server that begins anew; its state where `most_s` is over before."""
        until_s = time.monotonic() + most_s
        while True:
            left_s = until_s - time.monotonic()
            try:
                state = self.task(task_id, wait_s=max(0.0, min(left_s, _POLL_S)))
            except UnreachableError:
                if left_s <= 0:
                    raise
                time.sleep(_PAUSE_S)
                continue
            if state.status in ENDED or left_s <= 0:
                return state

    def events(self, task_id: str, *, most_s: float = float("inf")) -> Iterator[messages.TaskEvent]:
        """Hear what happens to a task, to its end, also over a server that begins anew."""
        until_s, after = time.monotonic() + most_s, 0
        while time.monotonic() < until_s:
            try:
                for event in self._link.events(task_id, after):
                    after = event.number
                    yield event
                    if event.kind in ENDED:
                        return
            except UnreachableError:
                if time.monotonic() > until_s:
                    raise
            time.sleep(_PAUSE_S)

    def tasks(
        self, *, status: str | None = None, definition: str | None = None, limit: int = 100
    ) -> messages.TaskList:
        """List tasks, the newest first."""
        asked = {"status": status, "definition": definition, "limit": limit}
        query = urlencode({key: value for key, value in asked.items() if value is not None})
        return self._link.get(f"/tasks?{query}", messages.TaskList)

    def cancel(self, task_id: str) -> messages.TaskState:
        """End a task, at whatever stage it is."""
        content = self._link.ask("POST", f"/tasks/{quote(task_id, safe='')}/cancel")
        return messages.TaskState.model_validate_json(content)
