"""Leads what a handler says to its client within a request onto the request's own stream of events.

The SDK serves each request as if nothing could be said before its answer. Here a request whose client takes
events gets a session that can, and that can ask where questions are asked (`questions.py`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    ClientCapabilities,
    ElicitationCapability,
    FormElicitationCapability,
    JSONRPCNotification,
    ProgressToken,
    RequestId,
)
from mcp_types.version import is_version_at_least
from msgspec import Struct, field
from starlette.requests import Request

from counterfoil.server.access import Context
from counterfoil.server.http.questions import Asked, Questions, asked_by
from counterfoil.server.http.streams import AnswerStream, stream_of

__all__ = ["speaking"]

_WITHOUT_REQUESTS_SINCE = "2026-07-28"
_SHOWS_FORMS = ClientCapabilities(elicitation=ElicitationCapability(form=FormElicitationCapability()))


def speaking(questions: Questions | None) -> ServerMiddleware[Any]:
    """Give what serves a request with a session that speaks on the request's stream, where it has one.

    Clients of the handshake era are asked by `questions`; None: nobody is asked within a call.
    """

    async def spoken(ctx: Context, call_next: CallNext) -> HandlerResult:
        request: Any = ctx.request
        stream = stream_of(request.scope) if isinstance(request, Request) else None
        if stream is None or ctx.request_id is None:
            return await call_next(ctx)
        is_asked = questions is not None and not is_version_at_least(
            ctx.protocol_version, _WITHOUT_REQUESTS_SINCE
        )
        asked = asked_by(request) if is_asked else None
        channel = _Channel(
            stream,
            ctx.request_id,
            progress_token_from_params(ctx.params),
            questions=None if asked is None else questions,
            asked=asked,
        )
        known = ctx.session.client_params
        capabilities = ctx.session.client_capabilities
        if asked is not None and asked.session.shows_forms:
            capabilities = _SHOWS_FORMS
        connection = Connection.from_envelope(
            ctx.protocol_version, None if known is None else known.client_info, capabilities
        )
        return await call_next(
            replace(ctx, session=ServerSession(channel, connection, request_meta=ctx.meta))
        )

    return spoken


class _Channel(Struct, frozen=True):
    """The SDK's `DispatchContext` of one request. A client cancels it by leaving."""

    stream: AnswerStream
    request_id: RequestId | None
    progress_token: ProgressToken | None
    questions: Questions | None
    asked: Asked | None
    message_metadata: MessageMetadata = None
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    @property
    def can_send_request(self) -> bool:
        return self.questions is not None

    @property
    def transport(self) -> TransportContext:
        return TransportContext(kind="streamable-http", can_send_request=self.can_send_request)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if self.questions is None or self.asked is None:
            raise NoBackChannelError(method)
        return await self.questions.ask(self.stream, self.asked, method, params)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        given = None if params is None else dict(params)
        await self.stream.say(JSONRPCNotification(jsonrpc="2.0", method=method, params=given))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self.progress_token is None:
            return
        told = {
            "progressToken": self.progress_token,
            "progress": progress,
            "total": total,
            "message": message,
        }
        await self.notify(
            "notifications/progress", {name: each for name, each in told.items() if each is not None}
        )
