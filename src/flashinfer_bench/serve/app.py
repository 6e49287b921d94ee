"""The routes: what travels is in `messages`, what is done in `service`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable  # noqa: TC003  # FastAPI reads annotations
from typing import TYPE_CHECKING, Annotated, Any

from flashinfer_bench.data import Definition, Workload
from flashinfer_bench.data.parsing import fault_sentence
from flashinfer_bench.errors import MissingPackageError
from flashinfer_bench.serve import messages
from flashinfer_bench.serve.capabilities import VERSION
from flashinfer_bench.serve.changes import Changes
from flashinfer_bench.serve.guard import Guard
from flashinfer_bench.serve.leasing import OWN
from flashinfer_bench.serve.metrics import metrics_text
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.routing import (
    ROUTES,
    Timeout,
    answer_with,
    answer_with_all,
    route,
)
from flashinfer_bench.serve.service import Service  # noqa: TC001
from flashinfer_bench.serve.states import ENDED
from flashinfer_bench.serve.tokens import LOCAL, Requester

try:
    from fastapi import FastAPI, Header, Query, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, StreamingResponse
    from starlette.concurrency import run_in_threadpool
    from starlette.routing import Route

    from flashinfer_bench.serve.agent_endpoint import MCP_PATH, AgentEndpoint
    from flashinfer_bench.serve.board_routes import board, refused_for_browsers
    from flashinfer_bench.serve.callers import (
        Asked,
        AsWorker,
        Ender,
        Operator,
        Reader,
        Submitter,
        TokenHeader,
        caller_of,
    )
    from flashinfer_bench.serve.task_events import task_events
except ImportError:
    raise MissingPackageError("fastapi", extra="service", needed_for="the service") from None

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from flashinfer_bench.serve.scheduler import Scheduler

_log = logging.getLogger(__name__)
_looks: dict[Hashable, asyncio.Future[dict[str, messages.TaskState]]] = {}
_LOOK_S = 15.0  # between looks whether somebody who waits is still there
_TITLE = "FlashInfer-Bench Server"


# What there is


@route("GET", "/", messages.Overview)
def overview(request: Request) -> Response:
    """Name this server and its routes."""
    endpoints = [
        messages.Endpoint(method=method, path=path, description=(handler.__doc__ or "").strip())
        for method, path, handler, _ in ROUTES
    ]
    return answer_with(
        messages.Overview(
            name=_TITLE, version=VERSION, docs=request.app.docs_url, endpoints=endpoints
        )
    )


@route("GET", "/definitions", list[messages.DefinitionName])
def definitions(service: Asked, _: Reader) -> Response:
    """List definitions."""
    known = service.trace_set.definitions.values()
    return answer_with_all(
        [messages.DefinitionName(name=each.name, description=each.description) for each in known]
    )


@route("GET", "/definitions/{name}", Definition)
def definition(name: str, service: Asked, _: Reader) -> Response:
    """Show a definition."""
    return answer_with(service.definition(name))


@route("GET", "/definitions/{name}/workloads", list[Workload])
def workloads(name: str, service: Asked, _: Reader) -> Response:
    """List a definition's workloads."""
    return answer_with_all(service.workloads(name))


@route("GET", "/workloads/{uuid}", Workload)
def workload(uuid: str, service: Asked, _: Reader) -> Response:
    """Show a workload."""
    return answer_with(service.workload(uuid))


# Tasks


@route("POST", "/evaluate", messages.Submitted)
def evaluate(
    submission: messages.Submission,
    service: Asked,
    caller: Submitter,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")
    ] = None,
) -> Response:
    """Submit a solution; the task is on disk when its id comes."""
    return answer_with(service.submit(submission, caller, idempotency_key))


@route("GET", "/tasks/{task_id}", messages.TaskState)
async def task(
    task_id: str, request: Request, service: Asked, caller: Reader, timeout: Timeout = 0.0
) -> Response:
    """Say how far a task is; with `timeout`, wait until it has ended."""
    (state,) = await awaited(request, service, caller, [task_id], timeout)
    return answer_with(state)


@route("POST", "/tasks/batch", list[messages.TaskState])
async def many_tasks(
    asked: messages.ManyTasks, request: Request, service: Asked, caller: Reader
) -> Response:
    """Say how far several tasks are, in this order; with `timeout`, wait until all have ended."""
    return answer_with_all(await awaited(request, service, caller, asked.task_ids, asked.timeout))


async def awaited(
    request: Request, service: Service, caller: Requester, task_ids: Sequence[str], timeout_s: float
) -> list[messages.TaskState]:
    """Give states once all have ended, the time is over or nobody waits; waiting takes no thread."""
    until_s = time.monotonic() + timeout_s
    states: dict[str, messages.TaskState] = {}
    with service.changes.heard(*task_ids) as bell:
        while True:
            open_ids = [
                each
                for each in dict.fromkeys(task_ids)
                if each not in states or states[each].status not in ENDED
            ]
            states |= await _looked_at(service, caller, tuple(open_ids))
            if all(states[each].status in ENDED for each in open_ids):
                break
            if not await _rang(bell, request, service, until_s):
                break
    return [states[each] for each in task_ids]


async def _looked_at(
    service: Service, caller: Requester, task_ids: tuple[str, ...]
) -> dict[str, messages.TaskState]:
    """Look at tasks; one look is for all who ask for the same before it begins, so that nobody waits for many."""
    key = (asyncio.get_running_loop(), service, caller, task_ids)

    def look() -> dict[str, messages.TaskState]:
        del _looks[key]  # who asks from now on may ask for what changed meanwhile
        return {each: service.state(each, caller) for each in task_ids}

    found = _looks.get(key)
    if found is None:
        found = _looks[key] = asyncio.ensure_future(run_in_threadpool(look))
    return await asyncio.shield(found)  # one who goes away does not end it for the others


async def _rang(bell: Any, request: Request, service: Service, until_s: float) -> bool:
    """Wait for a bell; False where the time is over, the server ends, or who waited has gone."""
    while not service.changes.is_over:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or await request.is_disconnected():
            return False
        if await bell.wait(min(left_s, _LOOK_S)):
            return True
    return False


@route("GET", "/tasks", messages.TaskList)
def tasks(  # noqa: PLR0917  # the framework passes by name
    service: Asked,
    caller: Reader,
    status: messages.TaskStatus | None = None,
    definition: Annotated[str | None, Query(max_length=200)] = None,
    before: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=messages.MOST_TASKS)] = 100,
) -> Response:
    """List your tasks, the newest first."""
    rows = service.queue.tasks(
        caller.sees, state=status, definition=definition, before=before, limit=limit
    )
    lines = [
        messages.TaskLine(task_id=row.pop("id"), status=row.pop("state"), **row) for row in rows
    ]
    is_full = len(lines) == limit
    return answer_with(
        messages.TaskList(tasks=lines, next_before=lines[-1].number if is_full else None)
    )


@route("POST", "/tasks/{task_id}/cancel", messages.TaskState)
def cancel(task_id: str, service: Asked, caller: Ender) -> Response:
    """End a task, at whatever stage it is."""
    return answer_with(service.cancel(task_id, caller))


@route(
    "GET",
    "/tasks/{task_id}/events",
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
)
async def events(
    task_id: str,
    request: Request,
    service: Asked,
    caller: Reader,
    last_event_id: Annotated[int, Header(ge=0, le=2**62)] = 0,
) -> Response:
    """Tell what happens to a task as it happens: server-sent events, after `Last-Event-ID`."""
    await run_in_threadpool(service.queue.events, task_id, caller.sees, last_event_id)
    return StreamingResponse(
        _stream(request, service, caller, task_id, last_event_id), media_type="text/event-stream"
    )


async def _stream(
    request: Request, service: Service, caller: Requester, task_id: str, after: int
) -> AsyncIterator[str]:
    async for event in task_events(service, caller, task_id, after):
        if event is None:
            yield ": still here\n\n"
        else:
            yield f"id: {event.number}\nevent: {event.kind}\ndata: {event.to_json()}\n\n"
        if await request.is_disconnected():
            return


# How it goes


@route("GET", "/health", messages.Health)
def health(service: Asked, _: Reader) -> Response:
    """Say who evaluates, and how much waits."""
    return answer_with(service.health())


@route("GET", "/healthz", messages.Alive)
def healthz(service: Asked) -> Response:
    """Say that the process answers."""
    return answer_with(messages.Alive(status="draining" if service.is_draining else "ok"))


@route("GET", "/readyz", messages.Alive)
def readyz(service: Asked) -> Response:
    """Say whether submissions are taken; 503 where they are not."""
    if service.is_draining:
        raise RefusedError(503, "this server is about to end", retry_after_s=30)
    return answer_with(messages.Alive(status="ok"))


@route(
    "GET",
    "/metrics",
    responses={200: {"content": {"text/plain": {}}, "description": "As Prometheus reads them."}},
)
def metrics(service: Asked, request: Request, authorization: TokenHeader = None) -> Response:
    """Count tasks, workers and seconds, as Prometheus reads them; with tokens in use, for `admin`."""
    caller = caller_of(request, service, authorization)
    if caller is not LOCAL and not caller.may("admin"):
        raise RefusedError(403, "this needs a token with the scope 'admin'")
    return Response(metrics_text(service), media_type="text/plain; version=0.0.4")


# Workers


@route("POST", "/workers", messages.AcceptedWorker)
def register(registration: messages.Registration, service: Asked, caller: AsWorker) -> Response:
    """Offer a device."""
    if caller.tenant != LOCAL.tenant and registration.name.partition("/")[0] == OWN:
        raise RefusedError(
            409, f"{OWN!r} is the server's own worker: give this one another name with --name"
        )
    return answer_with(service.register(registration))


@route("DELETE", "/workers/{worker}", status_code=204)
def leave(worker: str, service: Asked, _: AsWorker) -> Response:
    """Withdraw a device; what it holds goes to another."""
    service.leave(worker)
    return Response(status_code=204)


@route(
    "POST",
    "/workers/{worker}/lease",
    messages.Grant,
    responses={204: {"description": "There is nothing to do now."}},
)
async def lease(
    worker: str, request: Request, service: Asked, _: AsWorker, timeout: Timeout = 0.0
) -> Response:
    """Take the next batch; with `timeout`, wait for one."""
    until_s = time.monotonic() + timeout
    with service.changes.heard(Changes.WORK) as bell:
        while True:
            grant = await run_in_threadpool(service.take, worker)
            if grant is not None:
                return answer_with(grant)
            if not await _rang(bell, request, service, until_s):
                return Response(status_code=204)


@route("POST", "/leases/{lease}/beat", messages.LeaseState)
def beat(lease: str, told: messages.Beat, service: Asked, _: AsWorker) -> Response:
    """Keep a lease."""
    return answer_with(service.keep(lease, told))


@route("POST", "/leases/{lease}/results", status_code=204)
def finish(lease: str, result: messages.WorkerResult, service: Asked, _: AsWorker) -> Response:
    """Hand in how a workload ended."""
    service.finish(lease, result)
    return Response(status_code=204)


@route("POST", "/leases/{lease}/release", status_code=204)
def release(lease: str, given: messages.Release, service: Asked, _: AsWorker) -> Response:
    """Give a batch back."""
    service.release(lease, given)
    return Response(status_code=204)


# Whoever runs it


@route("POST", "/shutdown", messages.Alive)
def shutdown(request: Request, service: Asked, _: Operator) -> Response:
    """Take nothing new, finish what is worked at, and end."""
    service.is_draining = True
    stop: Callable[[], None] | None = getattr(request.app.state, "stop", None)
    if stop is not None:
        stop()
    return answer_with(messages.Alive(status="draining"))


@route("POST", "/forgive", status_code=204)
def forgive(device: str, service: Asked, _: Operator) -> Response:
    """End the quarantine of a device, by the name that `GET /health` gives it."""
    service.forgive(device)
    return Response(status_code=204)


# The app


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    if (asking := refused_for_browsers(request, error)) is not None:
        return asking
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    if error.status == 401:  # noqa: PLR2004  # unauthorized
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"detail": str(error)}, error.status, headers)


def _invalid(_: Request, error: Exception) -> Response:
    """Say in a sentence what is wrong with a request."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "json_invalid":
        why = f"the body is not JSON: {first['ctx']['error']}"
    else:
        said = fault_sentence(first)
        why = f"{where}: {said}" if where else f"the {first['loc'][0]} {said}"
    text = why.encode(errors="backslashreplace").decode()
    return JSONResponse({"detail": text}, 422)


def _failed(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return JSONResponse({"detail": "a fault of this server; its log says more"}, 500)


def make_app() -> FastAPI:
    """Make an app with all routes; it serves once `state.service` is there."""
    made = FastAPI(title=_TITLE, version=VERSION, description="Submit solutions, get traces.")
    for method, path, handler, options in ROUTES:
        made.add_api_route(path, handler, methods=[method], **options)
    made.include_router(board)
    made.router.routes.append(Route(MCP_PATH, AgentEndpoint()))
    made.add_middleware(Guard)
    made.add_exception_handler(RefusedError, _refused)
    made.add_exception_handler(RequestValidationError, _invalid)
    made.add_exception_handler(Exception, _failed)
    return made


app = make_app()
"""What `init_app` makes serve, for programs that drive it within their own process."""


def init_app(scheduler: Scheduler) -> FastAPI:
    """Have `app` serve what a scheduler does; give it."""
    app.state.service = scheduler.service
    app.state.is_open = True
    return app
