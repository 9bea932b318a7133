"""Leads what a handler says to its client within a request onto the request's own stream of events.

The SDK serves each request as if nothing could be said before its answer. Here a request whose client takes
events gets a session that can.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import JSONRPCNotification, ProgressToken, RequestId

from counterfoil.server.access import Context
from counterfoil.server.http.streams import AnswerStream, stream_of

__all__ = ["say_on_stream"]

_TRANSPORT = TransportContext(kind="streamable-http", can_send_request=False)


async def say_on_stream(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Serve a request with a session that says things on the request's stream, where it has one."""
    request: Any = ctx.request
    stream = None if request is None else stream_of(request.scope)
    if stream is None or ctx.request_id is None:
        return await call_next(ctx)
    return await call_next(replace(ctx, session=_session(ctx, stream)))


def _session(context: Context, stream: AnswerStream) -> ServerSession:
    """Give the session that the SDK made of this request, but for where it speaks."""
    known = context.session.client_params
    connection = Connection.from_envelope(
        context.protocol_version,
        None if known is None else known.client_info,
        context.session.client_capabilities,
    )
    channel = _Channel(stream, context.request_id, progress_token_from_params(context.params))
    return ServerSession(channel, connection, request_meta=context.meta)


@dataclass(frozen=True, slots=True)
class _Channel:
    """The SDK's `DispatchContext` of one request. A client cancels by leaving; it is not asked anything."""

    stream: AnswerStream
    request_id: RequestId | None
    progress_token: ProgressToken | None
    transport: TransportContext = _TRANSPORT
    message_metadata: MessageMetadata = None
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    @property
    def can_send_request(self) -> bool:
        return False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

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
