"""Passes requests on to a server and results back, with progress, log lines and questions on the way."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext

from counterfoil.server.callers import meta_of
from counterfoil.server.gateway.eras import is_modern, params_for_server
from counterfoil.server.gateway.exchanges import Exchange, Exchanges
from counterfoil.server.gateway.holding import Holds
from counterfoil.server.gateway.news import News
from counterfoil.server.gateway.questioning import Questioning
from counterfoil.server.gateway.replies import unmarked
from counterfoil.server.gateway.upstream import Upstream

__all__ = ["Passing"]

Context = ServerRequestContext[Any, Any]


class Passing:
    """The way of one client's requests to the servers."""

    def __init__(self, tasks: TaskGroup, *, news: News, questioning: Questioning) -> None:
        self._news = news
        self._questioning = questioning
        self._exchanges = Exchanges(tasks)

    async def pass_on(
        self,
        ctx: Context,
        upstream: Upstream,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_seconds: float | None = None,
        exchange: Exchange | None = None,
        holds: Holds | None = None,
    ) -> dict[str, Any]:
        """Send a request on and give its result as it came; what its server asks for only while it `holds`.

        Raises:
            MCPError, Unreachable, BadAnswer: see `Upstream.request`.
            Lapsed: it does not hold any more.
        """
        server_is_modern = await upstream.is_modern()
        level = await self._news.level_for(ctx, upstream)
        sent = params_for_server(params, server_is_modern=server_is_modern, log_level=level)
        on_progress = ctx.session.report_progress if "progressToken" in meta_of(ctx) else None
        ask = partial(upstream.request, method, on_progress=on_progress, timeout_seconds=timeout_seconds)
        with self._news.under_way(ctx, upstream), self._questioning.under_way(ctx, upstream, exchange, holds):
            result = unmarked(await ask(sent))
            if is_modern(ctx.protocol_version):
                return result
            return await self._questioning.driven(ctx, result, sent, ask, holds=holds)

    def to(self, ctx: Context) -> Callable[[Upstream, dict[str, Any]], Awaitable[dict[str, Any]]]:
        """Give what passes one request on to any server."""

        async def pass_on(upstream: Upstream, params: dict[str, Any]) -> dict[str, Any]:
            return await self.pass_on(ctx, upstream, ctx.method, params)

        return pass_on

    async def continued(self, ctx: Context, upstream: Upstream, params: dict[str, Any]) -> dict[str, Any]:
        """Pass a request on whose server may ask for input, in whichever era it does."""

        async def work(exchange: Exchange | None) -> dict[str, Any]:
            return await self.pass_on(ctx, upstream, ctx.method, params, exchange=exchange)

        return await self.in_rounds(ctx, upstream, params, work)

    async def in_rounds(
        self,
        ctx: Context,
        upstream: Upstream,
        params: dict[str, Any],
        work: Callable[[Exchange | None], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Do a call's work, across several requests of the client where only those can carry a question."""
        is_bridged = is_modern(ctx.protocol_version) and self._questioning.takes_questions
        if not is_bridged or await upstream.is_modern():
            return await work(None)
        return await self._exchanges.carry_on(params, work)
