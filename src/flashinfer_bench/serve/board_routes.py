"""The live board over HTTP: pages for browsers, which send a token as a password and hear of new results."""

from __future__ import annotations

import base64
import binascii
import time
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from flashinfer_bench.serve.board import LiveBoard, board_of
from flashinfer_bench.serve.callers import Asked, caller_of
from flashinfer_bench.serve.changes import results_of
from flashinfer_bench.serve.folder import service_folder
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.tokens import LOCAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flashinfer_bench.serve.board import BoardSite

_LOOK_S = 15.0
_MOST_WAIT_S = 60.0
_BASIC = "basic "
_UNAUTHORIZED = 401
_MOST_HEADER = 1000
_ASKS = 'Basic realm="flashinfer-bench: any name, and your token as the password", charset="UTF-8"'
_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

board = APIRouter(prefix="/board", include_in_schema=False)
"""The routes; they are for people, so the OpenAPI document is without them."""


def _viewer(request: Request, service: Asked) -> str | None:
    """Whose results are shown to who asks; None is everybody's."""
    caller = caller_of(request, service, _as_bearer(request.headers.get("authorization")))
    if not caller.may("read"):
        raise RefusedError(403, "this needs a token with the scope 'read'")
    return None if caller == LOCAL else caller.sees


def _board(request: Request, service: Asked) -> LiveBoard:
    state = request.app.state
    found: LiveBoard | None = getattr(state, "board", None)
    if found is None or found.service is not service:
        if service.trace_set.root is None:
            raise RefusedError(404, "this server keeps its dataset in memory, and has no board")
        found = state.board = LiveBoard(service, service_folder(service.trace_set) / "board")
    return found


Viewer = Annotated[str | None, Depends(_viewer)]
Board = Annotated[LiveBoard, Depends(_board)]


@board.get("")
@board.get("/")
def first() -> Response:
    """Lead to the first page."""
    return RedirectResponse("/board/index.html")


@board.get("/news")
async def news(request: Request, viewer: Viewer, shown: Board) -> Response:
    """Tell which state the pages are in, now and whenever it changed: server-sent events."""
    stream = _news(request, shown, viewer)
    return StreamingResponse(stream, media_type="text/event-stream", headers=_NO_STORE)


@board.get("/{path:path}")
async def page(path: str, viewer: Viewer, shown: Board) -> Response:
    """Show a page; the first waits until it is written."""
    site = await _written(shown, viewer)
    content, kind = await run_in_threadpool(shown.file, site, path)
    return Response(content, media_type=kind, headers=_NO_STORE)


def refused_for_browsers(request: Request, error: RefusedError) -> Response | None:
    """Have a browser ask for a token where a page needs one; None for every other refusal."""
    if error.status != _UNAUTHORIZED or not request.url.path.startswith("/board"):
        return None
    return JSONResponse({"detail": str(error)}, _UNAUTHORIZED, {"WWW-Authenticate": _ASKS})


def _as_bearer(header: str | None) -> str | None:
    """Read a token from where browsers put passwords; other headers stay as they are."""
    if header is None or not header.lower().startswith(_BASIC) or len(header) > _MOST_HEADER:
        return header
    try:
        said = base64.b64decode(header[len(_BASIC) :].strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return header
    return f"Bearer {said.partition(':')[2]}"


async def _written(board: LiveBoard, viewer: str | None) -> BoardSite:
    """Give a viewer's site, and wait for it where it is the first."""
    until_s = time.monotonic() + _MOST_WAIT_S
    with board.service.changes.heard(board_of(viewer)) as bell:
        while (site := board.ask_for(viewer)) is None:
            left_s = until_s - time.monotonic()
            rang = left_s > 0 and await bell.wait(left_s)
            fault = board.fault(viewer)
            if rang and fault is not None:
                raise RefusedError(503, f"the board cannot be written: {fault}", retry_after_s=30)
            if not rang or board.service.changes.is_over:
                raise RefusedError(503, "the board is being written; try again", retry_after_s=5)
    return site


async def _news(request: Request, board: LiveBoard, viewer: str | None) -> AsyncIterator[str]:
    """Tell which state a viewer's site is in, now and whenever it changed."""
    told: str | None = None
    changes = board.service.changes
    with changes.heard(board_of(viewer), results_of(viewer)) as bell:
        while not changes.is_over and not await request.is_disconnected():
            site = board.ask_for(viewer)
            if site is not None and site.state != told:
                told = site.state
                yield f"event: state\ndata: {told}\n\n"
            if not await bell.wait(_LOOK_S):
                yield ": still here\n\n"
