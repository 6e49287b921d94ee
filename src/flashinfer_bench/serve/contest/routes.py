"""The routes of a contest, beside those of the service: a team's token opens these only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Header, Request, Response
from starlette.concurrency import run_in_threadpool

from flashinfer_bench.data import Definition
from flashinfer_bench.serve.app import awaited
from flashinfer_bench.serve.callers import Asked, Operator, Team  # noqa: TC001  # FastAPI reads annotations
from flashinfer_bench.serve.contest import messages
from flashinfer_bench.serve.contest.contest import Contest
from flashinfer_bench.serve.routing import Timeout, answer_with

if TYPE_CHECKING:
    from fastapi import FastAPI


routes = APIRouter(prefix="/contest")


def add_contest(app: FastAPI, contest: Contest) -> None:
    """Have an app serve a contest, too."""
    app.state.contest = contest
    app.include_router(routes)


def _contest(request: Request) -> Contest:
    found: Contest = request.app.state.contest
    return found


Held = Annotated[Contest, Depends(_contest)]


@routes.get("", response_model=messages.ContestState)
def contest(held: Held, caller: Team) -> Response:
    """Say what the contest is, and whether entries are taken."""
    return answer_with(held.state(caller))


@routes.get("/definitions/{name}", response_model=Definition)
def definition(name: str, held: Held, _: Team) -> Response:
    """Show a definition."""
    return answer_with(held.definition(name))


@routes.post("/entries", response_model=messages.EntryState)
def enter(
    given: messages.NewEntry,
    held: Held,
    caller: Team,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")
    ] = None,
) -> Response:
    """Enter a solution; it is on disk when its id comes."""
    return answer_with(held.enter(given, caller, idempotency_key))


@routes.get("/entries", response_model=messages.EntryList)
def entries(held: Held, caller: Team) -> Response:
    """List your entries, the newest first."""
    return answer_with(held.entries(caller))


@routes.get("/entries/{entry}", response_model=messages.EntryState)
async def entry(  # noqa: PLR0917  # the framework passes by name
    entry: str, request: Request, service: Asked, held: Held, caller: Team, timeout: Timeout = 0.0
) -> Response:
    """Say how far an entry is; with `timeout`, wait until it has ended."""
    await awaited(request, service, caller, [entry], timeout)
    return answer_with(await run_in_threadpool(held.entry, entry, caller))


@routes.get("/board", response_model=messages.ContestBoard)
def board(held: Held, caller: Team) -> Response:
    """Say how teams stand."""
    return answer_with(held.board(caller))


@routes.post("/reviews", response_model=messages.Review)
def review(given: messages.NewReview, held: Held, _: Operator) -> Response:
    """Accept or reject an entry."""
    return answer_with(held.review(given))


@routes.post("/close", response_model=messages.Closing)
def close(held: Held, _: Operator) -> Response:
    """Take no more entries, and evaluate leaders again; ask until it is closed."""
    return answer_with(held.close())


@routes.get("/results", response_model=messages.Results)
def results(held: Held, _: Operator) -> Response:
    """Give all that the ranking follows from."""
    return answer_with(held.results())
