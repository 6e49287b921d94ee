"""What every route has: a note of it, who asks, with which scope, and how it answers."""

from __future__ import annotations

import secrets
from collections.abc import Callable  # noqa: TC003  # FastAPI reads annotations
from typing import TYPE_CHECKING, Annotated, Any

from flashinfer_bench.errors import MissingPackageError
from flashinfer_bench.serve import messages
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.service import Service
from flashinfer_bench.serve.tokens import LOCAL, Requester, Scope

try:
    from fastapi import Depends, Header, Query, Request, Response
except ImportError:
    raise MissingPackageError("fastapi", extra="service", needed_for="the service") from None

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data.entity import Entity

_BEARER = "bearer "
ROUTES: list[tuple[str, str, Callable[..., Any], dict[str, Any]]] = []

TokenHeader = Annotated[str | None, Header(alias="Authorization", max_length=500)]
Timeout = Annotated[
    float,
    Query(ge=0, le=messages.MOST_WAIT_S, allow_inf_nan=False, description="Seconds to wait."),
]
_REFUSED = {
    400: "What was asked for cannot be.",
    401: "A token is needed, or does not count.",
    403: "The token has not the scope.",
    404: "There is no such thing, or it is another tenant's.",
    409: "Something else came before.",
    413: "The body is too large.",
    422: "The request is not of its schema.",
    429: "A quota is used up; `Retry-After` says when to try again.",
    503: "The server is about to end, or full.",
}


def route(method: str, path: str, answers: Any = None, **options: Any) -> Callable[[Any], Any]:
    """Note a route; `answers` is what it answers with."""

    def note(handler: Callable[..., Any]) -> Callable[..., Any]:
        refused = {
            status: {"model": messages.RefusedRequest, "description": text}
            for status, text in _REFUSED.items()
        }
        own = options.pop("responses", {})
        known = {"response_model": answers, "responses": {**refused, **own}, **options}
        ROUTES.append((method, path, handler, known))
        return handler

    return note


def _service(request: Request) -> Service:
    service: Service | None = getattr(request.app.state, "service", None)
    if service is None:
        raise RefusedError(503, "this app serves nothing yet: call init_app(Scheduler(...)) first")
    return service


Asked = Annotated[Service, Depends(_service)]


def _needs(scope: Scope) -> Any:
    """Require a scope; give who asks."""

    def caller(request: Request, service: Asked, authorization: TokenHeader = None) -> Requester:
        found = caller_of(request, service, authorization)
        if not found.may(scope):
            raise RefusedError(403, f"this needs a token with the scope {scope!r}")
        return found

    return Depends(caller)


def caller_of(request: Request, service: Service, authorization: str | None) -> Requester:
    """Find who asks, by the token."""
    if authorization is None:
        is_open = getattr(request.app.state, "is_open", False)
        if is_open and not service.tokens.are_demanded():
            return LOCAL
        raise RefusedError(
            401, "this needs a token: send `Authorization: Bearer …`, or --token-file FILE"
        )
    token = authorization[len(_BEARER) :].strip()
    if not authorization.lower().startswith(_BEARER) or not token:
        raise RefusedError(401, "the header Authorization must read `Bearer TOKEN`")
    if secrets.compare_digest(token.encode(errors="replace"), service.worker_token.encode()):
        return Requester(LOCAL.tenant, frozenset({"worker"}))
    known = service.tokens.caller(token)
    if known is None:
        raise RefusedError(401, "this token does not count: it is wrong, or was revoked")
    return known


Reader = Annotated[Requester, _needs("read")]
Submitter = Annotated[Requester, _needs("submit")]
Operator = Annotated[Requester, _needs("admin")]
AsWorker = Annotated[Requester, _needs("worker")]


def answer_with(entity: Entity) -> Response:
    """Answer with an entity."""
    return Response(entity.to_json(), media_type="application/json")


def answer_with_all(entities: Sequence[Entity]) -> Response:
    """Answer with a list of entities."""
    content = f"[{','.join(each.to_json() for each in entities)}]"
    return Response(content, media_type="application/json")
