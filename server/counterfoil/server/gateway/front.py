"""The gateway's face: an MCP server whose every request goes to the servers behind it.

It stands on the SDK's low-level server, in the place where a message has been read and nothing decided yet:
what is passed on is passed on raw, and only calls of effectful tools stop here.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import methods

from counterfoil.server.callers import ClientInfo
from counterfoil.server.gateway.calling import Calling
from counterfoil.server.gateway.calls import CONNECTION_PREFIX
from counterfoil.server.gateway.eras import is_modern, result_for_client
from counterfoil.server.gateway.granting import Granting
from counterfoil.server.gateway.introduction import introduced
from counterfoil.server.gateway.listing import Listing
from counterfoil.server.gateway.naming import Naming
from counterfoil.server.gateway.news import News
from counterfoil.server.gateway.passing import Passing
from counterfoil.server.gateway.questioning import Questioning
from counterfoil.server.gateway.recording import Recording
from counterfoil.server.gateway.servers import ServerSpec, Unreachable
from counterfoil.server.gateway.tooling import Tooling
from counterfoil.server.gateway.transports import Transport
from counterfoil.server.gateway.upstream import BadAnswer, Upstream
from counterfoil.server.logs import logger
from counterfoil.server.rules.tool_rule import ToolRule
from counterfoil.store.limits import Limits
from counterfoil.store.redact import Redactor
from counterfoil.tools.protocol import Journal

__all__ = ["Gateway", "open_gateway"]

Context = ServerRequestContext[Any, Any]

_ROUTED_BY_NAME = ("prompts/get",)
_ROUTED_BY_URI = ("resources/read", "resources/subscribe", "resources/unsubscribe")


class Gateway:
    """One client's gateway. `server` is what a transport serves."""

    def __init__(
        self,
        specs: Sequence[tuple[ServerSpec, Transport]],
        tasks: TaskGroup,
        *,
        rules: tuple[ToolRule, ...],
        recording: Recording,
        client: ClientInfo,
        redactor: Redactor,
        version: str,
    ) -> None:
        self._news = News()
        self._questioning = Questioning()
        self._passing = Passing(tasks, news=self._news, questioning=self._questioning)
        self._upstreams = {
            spec.name: Upstream(spec, transport, tasks, on_notification=self._notified, version=version)
            for spec, transport in specs
        }
        self._tooling = {name: Tooling(upstream, rules) for name, upstream in self._upstreams.items()}
        self._naming = Naming([spec for spec, _ in specs])
        self._listing = Listing(self._upstreams, self._tooling, self._naming)
        self._calling = Calling(
            self._upstreams,
            self._tooling,
            naming=self._naming,
            passing=self._passing,
            recording=recording,
            client=client,
            redactor=redactor,
        )
        self.server: Server[Any] = Server(
            "counterfoil-gateway",
            title="Counterfoil gateway",
            version=version,
            on_subscriptions_listen=self._news.listen,
        )
        self.server.middleware.append(self._serve)

    async def close(self) -> None:
        """End the connections to all servers."""
        for upstream in self._upstreams.values():
            await upstream.close()

    async def _serve(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            if ctx.method == "notifications/roots/list_changed":
                for upstream in self._upstreams.values():
                    await upstream.notify(types.RootsListChangedNotification())
            return await call_next(ctx)
        self._news.meet(ctx)
        if ctx.method in ("initialize", "server/discover"):
            self._questioning.meet(ctx, self._upstreams.values())
            await self._connect_all()
            return introduced(await call_next(ctx), list(self._upstreams.values()), ctx.method)
        if ctx.method == "subscriptions/listen":
            await self._subscribe_for(ctx)
            return await call_next(ctx)
        if ctx.method == "ping" or not self._may_ask(ctx):
            return await call_next(ctx)
        if ctx.method in methods.SPEC_CLIENT_METHODS:
            try:
                methods.validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
            except KeyError:
                raise MCPError(
                    code=types.METHOD_NOT_FOUND, message="Method not found", data=ctx.method
                ) from None
        self._questioning.meet(ctx, self._upstreams.values())
        try:
            result = await self._answered(ctx)
        except Unreachable as error:
            raise MCPError(
                code=types.INTERNAL_ERROR, message=f"The server behind the gateway: {error.why}"
            ) from None
        except BadAnswer as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=str(error)) from None
        return result_for_client(
            ctx.method, ctx.protocol_version, result, stamp=self.server.server_info_stamp
        )

    def _may_ask(self, ctx: Context) -> bool:
        """Tell whether the client has said who it is, as the older era demands; else the SDK refuses."""
        return is_modern(ctx.protocol_version) or ctx.session.client_params is not None

    async def _answered(self, ctx: Context) -> dict[str, Any]:
        params = dict(ctx.params or {})
        match ctx.method:
            case "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list":
                return await self._listing.page(ctx.method, params, self._passing.to(ctx))
            case "tools/call":
                return await self._calling.answer(ctx, params)
            case "logging/setLevel":
                return await self._set_level(ctx, params)
            case "completion/complete":
                return await self._completed(ctx, params)
            case method if method in _ROUTED_BY_NAME:
                upstream, name = self._named(str(params.get("name")))
                return await self._passing.continued(ctx, upstream, {**params, "name": name})
            case method if method in _ROUTED_BY_URI:
                return await self._of_uri(ctx, params)
            case _:
                return await self._passing.pass_on(ctx, self._only(ctx.method), ctx.method, params)

    def _only(self, method: str) -> Upstream:
        """Give the one server; a method that is nobody's in particular has no place among several."""
        if len(self._upstreams) > 1:
            raise MCPError(code=types.METHOD_NOT_FOUND, message="Method not found", data=method)
        return next(iter(self._upstreams.values()))

    def _named(self, shown: str) -> tuple[Upstream, str]:
        """Give the server that a prompt is of, and its own name for it.

        Raises:
            MCPError: it is nobody's.
        """
        candidates = self._naming.candidates(shown)
        if not candidates:
            raise MCPError(
                code=types.INVALID_PARAMS, message="Unknown prompt: no server behind the gateway has it"
            )
        server, name = candidates[0]
        return self._upstreams[server], name

    async def _completed(self, ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        ref = params.get("ref")
        if isinstance(ref, dict) and isinstance(ref.get("name"), str):
            upstream, name = self._named(ref["name"])
            return await self._passing.pass_on(
                ctx, upstream, ctx.method, {**params, "ref": {**ref, "name": name}}
            )
        uri = ref.get("uri") if isinstance(ref, dict) else None
        upstream = self._listing.owner(str(uri)) or next(iter(self._upstreams.values()))
        return await self._passing.pass_on(ctx, upstream, ctx.method, params)

    async def _of_uri(self, ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the server that listed a resource; where nobody did, one after the other."""
        owner = self._listing.owner(str(params.get("uri")))
        asked = [owner] if owner is not None else list(self._upstreams.values())
        for upstream in asked[:-1]:
            try:
                return await self._resource(ctx, upstream, params)
            except (MCPError, Unreachable) as error:
                logger.debug("%s has no such resource: %s", upstream.name, type(error).__name__)
        return await self._resource(ctx, asked[-1], params)

    async def _resource(self, ctx: Context, upstream: Upstream, params: dict[str, Any]) -> dict[str, Any]:
        if ctx.method == "resources/read":
            return await self._passing.continued(ctx, upstream, params)
        if await upstream.is_modern():
            # The newer era has no such request: there the gateway listens for the client.
            upstream.listen_to(str(params["uri"]), is_wanted=ctx.method == "resources/subscribe")
            return {}
        return await self._passing.pass_on(ctx, upstream, ctx.method, params)

    async def _subscribe_for(self, ctx: Context) -> None:
        """Let the servers tell of the resources that a client of the newer era listens for."""
        wanted = (ctx.params or {}).get("notifications")
        uris = wanted.get("resourceSubscriptions") if isinstance(wanted, Mapping) else None
        for uri in uris if isinstance(uris, list) else ():
            upstream = self._listing.owner(str(uri)) or next(iter(self._upstreams.values()))
            try:
                if await upstream.is_modern():
                    upstream.listen_to(str(uri), is_wanted=True)
                else:
                    await upstream.request("resources/subscribe", {"uri": str(uri)})
            except (MCPError, Unreachable, BadAnswer) as error:
                logger.info("%s tells nothing of a resource: %s", upstream.name, type(error).__name__)

    async def _set_level(self, ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        self._news.log_level = params.get("level")
        for upstream in self._upstreams.values():
            client = await upstream.connected()
            if client.server_capabilities.logging is not None and not await upstream.is_modern():
                await self._passing.pass_on(ctx, upstream, ctx.method, params)
        return {}

    async def _connect_all(self) -> None:
        """Connect to every server; one that cannot be reached is tried again when it is called."""

        async def connect(upstream: Upstream) -> None:
            try:
                await upstream.connected()
            except Unreachable as error:
                logger.warning("%s cannot be reached: %s", upstream.name, error.why)

        async with anyio.create_task_group() as tasks:
            for upstream in self._upstreams.values():
                tasks.start_soon(connect, upstream)

    async def _notified(self, upstream: Upstream, notification: types.ServerNotification) -> None:
        if isinstance(notification, types.ToolListChangedNotification):
            self._tooling[upstream.name].forget()
        await self._news.tell(upstream, notification)


@asynccontextmanager
async def open_gateway(
    specs: Sequence[tuple[ServerSpec, Transport]],
    journals: Callable[[], Awaitable[Journal]],
    *,
    rules: tuple[ToolRule, ...] = (),
    run: str | None = None,
    namespace: str = "default",
    client: ClientInfo | None = None,
    limits: Limits | None = None,
    redactor: Redactor | None = None,
    lease_seconds: float = 300,
    version: str = "",
) -> AsyncIterator[Gateway]:
    """Open a gateway before servers; their connections end with the block.

    `client` is what is known of every caller; its connection is one that only a gateway has.
    """
    redactor = redactor or Redactor(secrets.token_bytes(32))
    limits = limits or Limits()
    granting = Granting(namespace=namespace, run=run, limits=limits, lease_seconds=lease_seconds)
    recording = Recording(journals, granting, limits=limits, redactor=redactor)
    async with anyio.create_task_group() as tasks:
        gateway = Gateway(
            specs,
            tasks,
            rules=rules,
            recording=recording,
            client=client or ClientInfo(connection=f"{CONNECTION_PREFIX}{secrets.token_hex(8)}"),
            redactor=redactor,
            version=version,
        )
        tasks.start_soon(recording.keep_up)
        try:
            yield gateway
        finally:
            with anyio.CancelScope(shield=True):
                await gateway.close()
                await recording.close()
            tasks.cancel_scope.cancel()
