"""Puts the layers of the HTTP server together, from the outside in.

A request is counted, held against the Host and Origin that count, told apart by its token, held against its
principal's rate, and let through the gate (`gate.py`) to the SDK, which serves it without a session.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from counterfoil.server.http.draining import Drain
from counterfoil.server.http.gate import Gate
from counterfoil.server.http.health import Health
from counterfoil.server.http.principals import Principal
from counterfoil.server.http.settings import HttpSettings
from counterfoil.tools.specification import ToolSpecification

__all__ = ["MCP_PATH", "HttpApplication", "build_application"]

MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpApplication:
    """The ASGI application, and the SDK's manager, whose `run` has to be open while it is served."""

    asgi: ASGIApp
    manager: StreamableHTTPSessionManager


def build_application(
    server: Server[Any],
    *,
    tools: Sequence[ToolSpecification],
    settings: HttpSettings,
    security: TransportSecuritySettings,
    local: Principal | None,
    health: Health,
    drain: Drain,
) -> HttpApplication:
    """Give what serves `server` to everybody. `local` is who calls where nobody has to say who they are."""
    manager = StreamableHTTPSessionManager(
        server,
        stateless=True,
        json_response=True,
        max_request_body_size=settings.max_body_bytes,
    )
    endpoint: ASGIApp = Gate(
        StreamableHTTPASGIApp(manager),
        tools=tools,
        longest_body=settings.max_body_bytes,
        metadata_url=None,
    )
    if local is not None:
        endpoint = _as_principal(endpoint, local)
    endpoint = drain.counting(_only_from(endpoint, security))
    routes = [
        Route(MCP_PATH, endpoint=_Endpoint(endpoint)),
        Route("/healthz", health.alive, methods=["GET"]),
        Route("/readyz", health.ready, methods=["GET"]),
    ]
    return HttpApplication(asgi=Starlette(routes=routes), manager=manager)


class _Endpoint:
    """An ASGI application as the router takes one: an object, since a function would be a handler to it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _as_principal(app: ASGIApp, principal: Principal) -> ASGIApp:
    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["principal"] = principal
        await app(scope, receive, send)

    return known


def _only_from(app: ASGIApp, security: TransportSecuritySettings) -> ASGIApp:
    """Let a request on only with a Host and an Origin that count, against DNS rebinding and foreign pages."""
    checks = TransportSecurityMiddleware(security)

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await checks.validate_request(Request(scope))
        await (app if refusal is None else refusal)(scope, receive, send)

    return checked
