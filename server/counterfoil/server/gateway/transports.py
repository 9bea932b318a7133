"""Reaches a server behind the gateway: starts its program, or opens its URL, and notices when it is gone."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.message import SessionMessage

from counterfoil.server.gateway.servers import ServerSpec
from counterfoil.server.probes.table import from_environment, missing_variables

__all__ = ["Opened", "Transport", "Unreachable", "transport_of"]

Opened = AbstractAsyncContextManager[Any]
Transport = Callable[[anyio.Event], Opened]
"""Opens a connection anew, as the SDK's client takes it; the event is set when the server's side ends."""


class Unreachable(Exception):
    """A server that cannot be reached now. `why` is in our own words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def transport_of(spec: ServerSpec) -> Transport:
    """Give what opens connections to the server of `spec`."""

    def open_it(ended: anyio.Event) -> Opened:
        return _watched(_stdio(spec) if spec.url is None else _http(spec), ended)

    return open_it


def _variables(spec: ServerSpec, values: dict[str, str]) -> dict[str, str]:
    filled = from_environment(values)
    if filled is None:
        raise Unreachable("; ".join(missing_variables(values)))
    return filled


@asynccontextmanager
async def _stdio(spec: ServerSpec) -> AsyncIterator[Any]:
    parameters = StdioServerParameters(
        command=spec.command[0],
        args=list(spec.command[1:]),
        env={**os.environ, **_variables(spec, dict(spec.environment))},
        cwd=spec.folder,
        # A server that writes something else than UTF-8 costs that line and not the connection.
        encoding_error_handler="replace",
    )
    async with stdio_client(parameters, errlog=sys.stderr) as streams:
        yield streams


@asynccontextmanager
async def _http(spec: ServerSpec) -> AsyncIterator[Any]:
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    if spec.url is None:
        raise LookupError("a server without a URL")
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            create_mcp_http_client(headers=_variables(spec, dict(spec.headers)))
        )
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
