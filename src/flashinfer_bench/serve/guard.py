"""What stands before every route: how large a body may be, how long it may take, and by which name it is asked for."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from flashinfer_bench.serve.messages import MOST_BODY_BYTES, MOST_RESULT_BYTES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BODY_DEADLINE_S = 60.0
_MIB = 1 << 20
_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Guard:
    """Reads whole bodies, refuses those that are too large or too slow, and names of other hosts where told to.

    A page of the web that a browser shows could otherwise send to this machine under a name of its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        only_own_names = getattr(scope["app"].state, "only_own_names", False)
        if only_own_names and _without_port(host) not in _OWN_NAMES:
            await _refuse(
                send, 421, "this server answers to localhost only; others need a token and --host"
            )
            return
        most = MOST_RESULT_BYTES if scope["path"].startswith("/leases/") else MOST_BODY_BYTES
        try:
            async with asyncio.timeout(_BODY_DEADLINE_S):
                body = await _body(headers, receive, most)
        except TimeoutError:
            await _refuse(send, 408, f"the body did not come within {_BODY_DEADLINE_S:.0f} s")
            return
        if body is None:
            await _refuse(send, 413, f"the body is larger than {most // _MIB} MiB; send less")
            return
        await self._app(scope, _read(body, receive), send)


async def _body(headers: dict[bytes, bytes], receive: Receive, most: int) -> bytes | None:
    """Read a body; None where it is too large."""
    said = headers.get(b"content-length", b"0")
    if said.isdigit() and int(said[:20]) > most:
        return None
    parts, length = [], 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        length += len(part)
        if length > most:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _read(body: bytes, receive: Receive) -> Receive:
    """Give what was read once more; after it, whatever comes."""
    is_given = False

    async def again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"detail": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
