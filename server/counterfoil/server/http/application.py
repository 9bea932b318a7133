"""Puts the layers of the HTTP server together, from the outside in.

A request is counted, held against the Host and Origin that count, told apart by its token, held against its
principal's rate, and let through the gate (`gate.py`) to the SDK, which serves it without a session. What a
handler says before its answer goes onto a stream of the request's own (`streams.py`).
"""

from collections.abc import Sequence
from typing import Any

from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.auth.provider import TokenVerifier
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from msgspec import Struct
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, request_response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterfoil.server.http.bearers import TellingBackend, answer_cannot_tell
from counterfoil.server.http.channels import speaking
from counterfoil.server.http.draining import Drain
from counterfoil.server.http.exact_integers import serve_as_judged
from counterfoil.server.http.gate import Gate
from counterfoil.server.http.health import Health
from counterfoil.server.http.metrics import Metrics
from counterfoil.server.http.principals import Principal
from counterfoil.server.http.questions import Questions
from counterfoil.server.http.rates import Rates
from counterfoil.server.http.scraping import Scraping
from counterfoil.server.http.session_seals import SessionSeals
from counterfoil.server.http.settings import HttpSettings
from counterfoil.server.http.streams import streaming
from counterfoil.server.http.surroundings import Surroundings
from counterfoil.server.logs import logger
from counterfoil.server.scopes import SCOPES
from counterfoil.tools.specification import ToolSpecification

__all__ = ["MCP_PATH", "HttpApplication", "build_application"]

MCP_PATH = "/mcp"


class HttpApplication(Struct, frozen=True, kw_only=True):
    """The ASGI application, and the SDK's manager, whose `run` has to be open while it is served."""

    asgi: ASGIApp
    manager: StreamableHTTPSessionManager


def build_application(
    server: Server[Any],
    *,
    tools: Sequence[ToolSpecification],
    settings: HttpSettings,
    surroundings: Surroundings,
    who: TokenVerifier | Principal,
    seals: SessionSeals,
    rates: Rates,
    health: Health,
    metrics: Metrics,
    scraping: Scraping,
    drain: Drain,
) -> HttpApplication:
    """Give what serves `server` to everybody.

    `who` tells whose a token is, or is who calls where nobody has to say who they are.
    """
    questions = Questions(drain) if settings.sticky else None
    server.middleware.insert(0, speaking(questions))
    server.middleware.insert(0, serve_as_judged)
    manager = StreamableHTTPSessionManager(
        server,
        stateless=True,
        json_response=True,
        max_request_body_size=settings.max_body_bytes,
    )
    oauth = _oauth(settings)
    resource = None if oauth is None else oauth.resource_server_url
    metadata = None if resource is None else build_resource_metadata_url(resource)
    gate = Gate(
        streaming(StreamableHTTPASGIApp(manager)),
        tools=tools,
        longest_body=settings.max_body_bytes,
        questions=questions,
        seals=seals,
        metadata_url=None if metadata is None else str(metadata),
    )
    bounded = rates.bounding(gate)
    if isinstance(who, Principal):
        known = _as_principal(bounded, who)
    else:
        known = AuthenticationMiddleware(
            RequireAuthMiddleware(bounded, [], metadata),
            backend=TellingBackend(who),
            on_error=answer_cannot_tell,
        )
    served = drain.counting(_only_from(_telling_refusals(known, metrics), surroundings))
    routes = [
        Route(MCP_PATH, endpoint=_Endpoint(served)),
        Route("/healthz", health.alive, methods=["GET"]),
        Route("/readyz", health.ready, methods=["GET"]),
        Route("/metrics", endpoint=_Endpoint(_only_from(request_response(scraping.answer), surroundings))),
    ]
    if oauth is not None and resource is not None:
        routes += create_protected_resource_routes(
            resource_url=resource,
            authorization_servers=[oauth.issuer_url],
            scopes_supported=list(SCOPES),
            resource_name="Counterfoil",
        )
    asgi = Starlette(routes=routes)
    # A redirect would repeat whatever Host was sent, and nothing has been held against it by then.
    asgi.router.redirect_slashes = False
    return HttpApplication(asgi=asgi, manager=manager)


def _oauth(settings: HttpSettings) -> AuthSettings | None:
    """Give what a client has to know to get a token, as the SDK takes it; the audience is checked by us."""
    if settings.oauth is None or settings.url is None:
        return None
    # From texts, since these settings keep an issuer as it is written, and clients compare it so.
    return AuthSettings.model_validate(
        {
            "issuer_url": settings.oauth.issuer,
            "resource_server_url": settings.url,
            "validate_token_resource": False,
        }
    )


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


def _only_from(app: ASGIApp, surroundings: Surroundings) -> ASGIApp:
    """Let a request on only with a Host and an Origin that count, against DNS rebinding and foreign pages."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal: Response | None = None
        if not surroundings.has_host(headers.getlist("host")):
            refusal = PlainTextResponse("Invalid Host header", status_code=421)
        elif not surroundings.has_origin(headers.getlist("origin")):
            refusal = PlainTextResponse("Invalid Origin header", status_code=403)
        if refusal is not None:
            # Not the value, which may be anything.
            logger.info("a request was refused for its Host or Origin")
        await (app if refusal is None else refusal)(scope, receive, send)

    return checked


def _telling_refusals(app: ASGIApp, metrics: Metrics) -> ASGIApp:
    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                metrics.refused(message["status"])
            await send(message)

        await app(scope, receive, send_watched)

    return watched
