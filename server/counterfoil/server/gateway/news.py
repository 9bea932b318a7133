"""Brings what servers tell unasked to the client: changed lists, updated resources, log lines, progress.

In the older era such news goes to whoever is connected. Since 2026-07-28 changes go to those who listen for
them, and log lines to the request that asked for some.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from counterfoil.server.callers import meta_of
from counterfoil.server.gateway.eras import is_modern
from counterfoil.server.gateway.upstream import Upstream

__all__ = ["News"]

Context = ServerRequestContext[Any, Any]


class News:
    """The way of news to one client."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self.log_level: str | None = None
        self._client: ServerSession | None = None
        self._under_way: dict[str, list[Context]] = {}

    def meet(self, ctx: Context) -> None:
        """Remember how the client of the older era is reached outside of its requests."""
        if not is_modern(ctx.protocol_version):
            self._client = ctx.session

    @contextmanager
    def under_way(self, ctx: Context, upstream: Upstream) -> Iterator[None]:
        """Let log lines of a server reach the request that it works on meanwhile."""
        requests = self._under_way.setdefault(upstream.name, [])
        requests.append(ctx)
        try:
            yield
        finally:
            requests.remove(ctx)

    async def level_for(self, ctx: Context, upstream: Upstream) -> str | None:
        """Give the level of log lines that a request wants; a server of the older era is told a new one."""
        wanted = (
            meta_of(ctx).get(types.LOG_LEVEL_META_KEY) if is_modern(ctx.protocol_version) else self.log_level
        )
        if not isinstance(wanted, str):
            return None
        client = await upstream.connected()
        is_older = not await upstream.is_modern() and client.server_capabilities.logging is not None
        if is_older and is_modern(ctx.protocol_version) and upstream.log_level != wanted:
            await upstream.request("logging/setLevel", {"level": wanted})
            upstream.log_level = wanted
        return wanted

    async def tell(self, upstream: Upstream, notification: types.ServerNotification) -> None:
        """Hand a server's notification to the client; what its era has no place for is dropped."""
        event = _event(notification)
        if event is not None:
            await self._bus.publish(event)
        if isinstance(notification, types.ProgressNotification | types.SubscriptionsAcknowledgedNotification):
            # Progress travels with its request.
            return
        if self._client is not None:
            await self._client.send_notification(notification)
        elif isinstance(notification, types.LoggingMessageNotification):
            await self._log(upstream, notification.params)

    async def _log(self, upstream: Upstream, line: types.LoggingMessageNotificationParams) -> None:
        """Hand a log line to the newest request that wants one of its level."""
        for ctx in reversed(self._under_way.get(upstream.name, [])):
            if meta_of(ctx).get(types.LOG_LEVEL_META_KEY) is not None:
                await ctx.session.send_log_message(line.level, line.data, line.logger)
                return


def _event(notification: types.ServerNotification) -> ServerEvent | None:
    match notification:
        case types.ToolListChangedNotification():
            return ToolsListChanged()
        case types.PromptListChangedNotification():
            return PromptsListChanged()
        case types.ResourceListChangedNotification():
            return ResourcesListChanged()
        case types.ResourceUpdatedNotification(params=params):
            return ResourceUpdated(uri=str(params.uri))
        case _:
            return None
