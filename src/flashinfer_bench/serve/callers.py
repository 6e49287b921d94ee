"""Who asks: what routes depend on to know it, and what it may do."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import Depends, Header, Request  # FastAPI reads annotations

from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.service import Service
from flashinfer_bench.serve.tokens import LOCAL, Requester, Scope

_BEARER = "bearer "
TokenHeader = Annotated[str | None, Header(alias="Authorization", max_length=500)]


def service_of(request: Request) -> Service:
    """Give what an app serves."""
    service: Service | None = getattr(request.app.state, "service", None)
    if service is None:
        raise RefusedError(503, "this app serves nothing yet: call init_app(Scheduler(...)) first")
    return service


Asked = Annotated[Service, Depends(service_of)]


def _needs(scope: Scope, *others: Scope) -> Any:
    """Require a scope, or one of others that do as well; give who asks."""

    def caller(request: Request, service: Asked, authorization: TokenHeader = None) -> Requester:
        found = caller_of(request, service, authorization)
        require_scope(found, scope, *others)
        return found

    return Depends(caller)


def require_scope(caller: Requester, scope: Scope, *others: Scope) -> None:
    """Refuse who has neither a scope nor one of others that do as well."""
    if not any(caller.may(each) for each in (scope, *others)):
        raise RefusedError(403, f"this needs a token with the scope {scope!r}")


def caller_of(request: Request, service: Service, authorization: str | None) -> Requester:
    """Find who asks; refused where that is nobody."""
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
Ender = Annotated[Requester, _needs("submit", "admin")]
"""Who ends a task: whose it is, or whoever runs the service."""
Operator = Annotated[Requester, _needs("admin")]
AsWorker = Annotated[Requester, _needs("worker")]
Team = Annotated[Requester, _needs("team")]
