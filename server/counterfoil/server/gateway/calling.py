"""Answers calls of tools: passes them on untouched, or records them."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext

from counterfoil.server.callers import ClientInfo, known_client, meta_of, relayed_caller
from counterfoil.server.faults import fault_text
from counterfoil.server.gateway.calls import ToolCall
from counterfoil.server.gateway.exchanges import Exchange
from counterfoil.server.gateway.holding import Holds
from counterfoil.server.gateway.naming import Naming
from counterfoil.server.gateway.passing import Passing
from counterfoil.server.gateway.recording import Recording
from counterfoil.server.gateway.servers import Unreachable
from counterfoil.server.gateway.tooling import KnownTool, Tooling
from counterfoil.server.gateway.upstream import Upstream
from counterfoil.server.gateway.wish import NO_WISH, is_tools_own, take_wish
from counterfoil.server.rules.misfits import misfit
from counterfoil.store.errors import Fault
from counterfoil.store.redact import Redactor

__all__ = ["Calling"]

Context = ServerRequestContext[Any, Any]

_TOOL = "counterfoil gateway"


class Calling:
    """The calls of one client."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        tooling: Mapping[str, Tooling],
        *,
        naming: Naming,
        passing: Passing,
        recording: Recording,
        client: ClientInfo,
        redactor: Redactor,
    ) -> None:
        self._upstreams = upstreams
        self._tooling = tooling
        self._naming = naming
        self._passing = passing
        self._recording = recording
        self._client = client
        self._redactor = redactor

    async def answer(self, ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        """Answer one call.

        Raises:
            MCPError, BadAnswer: the server refused it, or a reading tool failed.
        """
        try:
            upstream, tool = await self._named(str(params.get("name")))
            known = await self._tooling[upstream.name].of(tool)
        except Unreachable as error:
            return _tool_error(
                f"The server behind the gateway could not be reached: {error.why}. Nothing was sent."
            )
        params["name"] = tool

        async def work(exchange: Exchange | None) -> dict[str, Any]:
            pass_on = partial(
                self._passing.pass_on,
                ctx,
                upstream,
                "tools/call",
                timeout_seconds=known.rule.timeout_seconds,
                exchange=exchange,
            )
            if not known.has_effect:
                return await pass_on(params)
            return await self._recorded(ctx, upstream, known, params, pass_on)

        return await self._passing.in_rounds(ctx, upstream, params, work)

    async def _recorded(
        self,
        ctx: Context,
        upstream: Upstream,
        known: KnownTool,
        params: dict[str, Any],
        pass_on: Callable[..., Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        given = params.get("arguments")
        arguments, wish = given if isinstance(given, dict) else {}, NO_WISH
        try:
            if not is_tools_own(known.listed):
                arguments, wish = take_wish(arguments)
        except Fault as fault:
            return _tool_error(fault_text(fault, duty="Nothing was passed on.", redactor=self._redactor))
        rule, tool = known.rule, params["name"]
        call = ToolCall(
            server=upstream.name,
            tool=tool,
            shown=self._naming.shown(upstream.name, tool),
            rule=rule,
            arguments=arguments,
            wish=wish,
            is_idempotent_by_hint=known.is_idempotent_by_hint,
            is_listed=bool(known.listed),
            misfit=misfit(known.listed.get("inputSchema"), arguments),
            is_continued="requestState" in params or "inputResponses" in params,
            shown_lookup=None if rule.lookup is None else self._naming.shown(upstream.name, rule.lookup.tool),
        )
        caller = relayed_caller(tool=_TOOL, meta=meta_of(ctx), client=known_client(ctx, self._client))

        async def send(arguments: dict[str, Any], *, holds: Holds | None = None) -> dict[str, Any]:
            has_none = given is None and not arguments
            return await pass_on(params if has_none else {**params, "arguments": arguments}, holds=holds)

        async def ask(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            looked = await self._tooling[upstream.name].of(name)
            if looked.has_effect:
                raise Unreachable("the lookup tool is not known to read only")
            return await upstream.request("tools/call", {"name": name, "arguments": dict(arguments)})

        return await self._recording.carry_out(call, caller, send, ask)

    async def _named(self, shown: str) -> tuple[Upstream, str]:
        """Give the server that a tool is of, and its own name for it.

        Raises:
            MCPError: it is nobody's.
            Unreachable: the server whose it may be cannot be asked.
        """
        candidates = self._naming.candidates(shown)
        if len(candidates) > 1:
            for server, name in candidates:
                if name in await self._tooling[server].learn():
                    return self._upstreams[server], name
        if not candidates:
            raise MCPError(
                code=types.INVALID_PARAMS, message="Unknown tool: no server behind the gateway has it"
            )
        server, name = candidates[0]
        return self._upstreams[server], name


def _tool_error(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}
