"""What every route has: a note of it, and how it answers."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  # FastAPI reads annotations
from typing import TYPE_CHECKING, Annotated, Any

from flashinfer_bench.errors import MissingPackageError
from flashinfer_bench.serve import messages

try:
    from fastapi import Query, Response
except ImportError:
    raise MissingPackageError("fastapi", extra="service", needed_for="the service") from None

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data.entity import Entity

ROUTES: list[tuple[str, str, Callable[..., Any], dict[str, Any]]] = []

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


def answer_with(entity: Entity) -> Response:
    """Answer with an entity."""
    return Response(entity.to_json(), media_type="application/json")


def answer_with_all(entities: Sequence[Entity]) -> Response:
    """Answer with a list of entities."""
    content = f"[{','.join(each.to_json() for each in entities)}]"
    return Response(content, media_type="application/json")
