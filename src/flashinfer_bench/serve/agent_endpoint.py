"""`/mcp`: the Model Context Protocol over streamable HTTP, begun when the first program asks for it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from flashinfer_bench.errors import MissingPackageError
from flashinfer_bench.serve.callers import caller_of, require_scope, service_of
from flashinfer_bench.serve.capabilities import VERSION
from flashinfer_bench.serve.refusals import RefusedError

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import Receive, Scope, Send

    from flashinfer_bench.agents.answers import AnswerStore
    from flashinfer_bench.serve.service import Service
    from flashinfer_bench.serve.tokens import Requester

MCP_PATH = "/mcp"
_MOST_SESSIONS = 1_000
_MOST_BODY = 4 << 20
"""Above what stands before every route, which so decides."""
_OWN_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_LOOK_S = 60.0


class AgentEndpoint:
    """Lets in whoever may read, and hands requests to the sessions of the service that an app serves."""

    def __init__(self) -> None:
        self._sessions: _Sessions | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope)
        service = service_of(request)
        caller = await run_in_threadpool(
            caller_of, request, service, request.headers.get("authorization")
        )
        require_scope(caller, "read", "admin")
        sessions = await self._running(service, scope)
        await sessions.answer(caller, scope, receive, send)

    async def _running(self, service: Service, scope: Scope) -> _Sessions:
        loop = asyncio.get_running_loop()
        found = self._sessions
        if found is None or not found.are_of(service, loop):
            if service.changes.is_over:
                raise RefusedError(503, "this server is about to end", retry_after_s=30)
            only_own_names = getattr(scope["app"].state, "only_own_names", False)
            found = self._sessions = _Sessions(service, loop, only_own_names=only_own_names)
        await found.ready()
        return found


class _Sessions:
    """The sessions of one service: a task of its own keeps them until the server ends."""

    def __init__(
        self, service: Service, loop: asyncio.AbstractEventLoop, *, only_own_names: bool
    ) -> None:
        self._service = service
        self._loop = loop
        self._only_own_names = only_own_names
        self._manager: StreamableHTTPSessionManager | None = None
        self._began: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._keep())

    def are_of(self, service: Service, loop: asyncio.AbstractEventLoop) -> bool:
        return self._service is service and self._loop is loop and not self._task.done()

    async def ready(self) -> None:
        """Wait until requests are answered; refused where the package for it is missing."""
        await asyncio.shield(self._began)

    async def _keep(self) -> None:
        try:
            manager = await run_in_threadpool(
                _make_manager, self._service, only_own_names=self._only_own_names
            )
        except MissingPackageError as error:
            self._began.set_exception(RefusedError(501, str(error)))
            return
        with self._service.changes.heard(MCP_PATH) as bell:
            async with manager.run():
                self._manager = manager
                self._began.set_result(None)
                while not self._service.changes.is_over:
                    await bell.wait(_LOOK_S)

    async def answer(self, caller: Requester, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request over; a session is its tenant's."""
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser  # noqa: PLC0415  # slow
        from mcp.server.auth.provider import AccessToken  # noqa: PLC0415  # as above

        assert self._manager is not None
        token = AccessToken(token="", client_id=caller.tenant, scopes=sorted(caller.scopes))
        scope["user"] = AuthenticatedUser(token)
        Request(scope).state.caller = caller
        await self._manager.handle_request(scope, receive, send)


def _make_manager(service: Service, *, only_own_names: bool) -> StreamableHTTPSessionManager:
    """Import the SDK, which takes seconds, and make what keeps sessions."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415

    from flashinfer_bench.agents.answers import AnswerStore  # noqa: PLC0415
    from flashinfer_bench.agents.mcp_server import make_mcp_server  # noqa: PLC0415  # an extra
    from flashinfer_bench.serve.agent_toolbox import (  # noqa: PLC0415
        ServiceToolbox,
        instructions,
        service_tools,
    )

    kept: defaultdict[str, AnswerStore] = defaultdict(AnswerStore)
    schemas = service_tools()

    def toolbox_of(context: Any) -> ServiceToolbox:
        caller = context.request.state.caller
        return ServiceToolbox(service, caller, kept[caller.tenant], schemas)

    names = [name for host in _OWN_HOSTS for name in (host, f"{host}:*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=only_own_names,
        allowed_hosts=names,
        allowed_origins=[f"http://{name}" for name in names],
    )
    return StreamableHTTPSessionManager(
        make_mcp_server(toolbox_of, VERSION, instructions()),
        security_settings=security,
        max_request_body_size=_MOST_BODY,
        max_sessions=_MOST_SESSIONS,
    )
