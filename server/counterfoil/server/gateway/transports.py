"""Reaches a server behind the gateway: starts its program, or opens its URL, and notices when it is gone."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage

from counterfoil.server.gateway.pipes import speaking
from counterfoil.server.gateway.programs import Program, filled
from counterfoil.server.gateway.servers import ServerSpec

__all__ = ["Opened", "Transport", "transport_of"]

Opened = AbstractAsyncContextManager[Any]
Transport = Callable[[anyio.Event], Opened]
"""Opens a connection anew, as the SDK's client takes it; the event is set when the server's side ends."""

_CONNECTING_SECONDS = 30
"""For a connection, and for a request to get into it; the SDK's own."""


def transport_of(spec: ServerSpec, started: Program | None = None) -> Transport:
    """Give what opens connections to the server of `spec`, the first to its program if that has `started`."""
    waiting = [] if started is None else [started]

    def program() -> Program:
        return waiting.pop() if waiting else Program(spec)

    def open_it(ended: anyio.Event) -> Opened:
        return speaking(program, ended=ended) if spec.url is None else _watched(_http(spec), ended)

    return open_it


@asynccontextmanager
async def _http(spec: ServerSpec) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    if spec.url is None:
        raise LookupError("a server without a URL")
    async with AsyncExitStack() as stack:
        # How long a tool may take is its rule's to say: the SDK's own 300 s would end its call before that.
        timeout = httpx2.Timeout(_CONNECTING_SECONDS, read=None)
        headers = filled(spec.headers)
        client = await stack.enter_async_context(create_mcp_http_client(headers=headers, timeout=timeout))
        yield await stack.enter_async_context(streamable_http_client(spec.url, http_client=client))


@asynccontextmanager
async def _watched(transport: Opened, ended: anyio.Event) -> AsyncIterator[Any]:
    """Hand messages through, and set `ended` once there will be none any more."""
    async with transport as (from_server, to_server), anyio.create_task_group() as tasks:
        send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def hand_through() -> None:
            async with send:
                try:
                    async for message in from_server:
                        await send.send(message)
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    pass
                finally:
                    ended.set()

        tasks.start_soon(hand_through)
        try:
            yield receive, to_server
        finally:
            tasks.cancel_scope.cancel()
