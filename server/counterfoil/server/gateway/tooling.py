"""What a server's tools are: listed once a connection, to know which of them act and how they are shown."""

from collections.abc import Mapping
from typing import Any

import anyio
from msgspec import Struct, field

from counterfoil.server.gateway.upstream import Upstream
from counterfoil.server.logs import logger
from counterfoil.server.rules.effects import has_effect
from counterfoil.server.rules.tool_rule import ToolRule, rule_for

__all__ = ["KnownTool", "Tooling", "pages"]

_MOST_PAGES = 200
_MOST_TOOLS = 10_000
"""A server that lists without end must not hold the gateway up; what lies beyond is known by name alone."""


class KnownTool(Struct, frozen=True, kw_only=True):
    """A tool as its server lists it, and what is to be done with its calls."""

    rule: ToolRule
    has_effect: bool
    is_idempotent_by_hint: bool = False
    listed: Mapping[str, Any] = field(default_factory=dict)


class Tooling:
    """The tools of one server, learned anew with each connection and when the server says they changed."""

    def __init__(self, upstream: Upstream, rules: tuple[ToolRule, ...]) -> None:
        self._upstream = upstream
        self._rules = rules
        self._lock = anyio.Lock()
        self._known: dict[str, KnownTool] = {}
        self._generation = -1
        self._is_stale = True

    def forget(self) -> None:
        """Take note that the server's tools changed."""
        self._is_stale = True

    async def of(self, name: str) -> KnownTool:
        """Give what is known of a tool. One that is not listed is judged by rule and name.

        Raises:
            Unreachable, MCPError, BadAnswer: its server could not be asked.
        """
        await self.learn()
        return self._known.get(name) or self.judged(name, {})

    async def learn(self) -> Mapping[str, KnownTool]:
        """Give the server's tools by name, asking for them where they are not known.

        Raises:
            Unreachable, MCPError, BadAnswer: its server could not be asked.
        """
        client = await self._upstream.connected()
        if not self._is_stale and self._generation == self._upstream.generation:
            return self._known
        async with self._lock:
            if self._is_stale or self._generation != self._upstream.generation:
                self._is_stale, generation = False, self._upstream.generation
                known: dict[str, KnownTool] = {}
                try:
                    if client.server_capabilities.tools is not None:
                        for tool in await pages(self._upstream, "tools/list", "tools"):
                            name = tool.get("name")
                            if not isinstance(name, str):
                                continue
                            judged, earlier = self.judged(name, tool), known.get(name)
                            # Which of two equal names a call reaches is not known: what acts counts.
                            if earlier is None or (judged.has_effect and not earlier.has_effect):
                                known[name] = judged
                except BaseException:
                    self._is_stale = True
                    raise
                self._known, self._generation = known, generation
        return self._known

    def judged(self, name: str, listed: Mapping[str, Any]) -> KnownTool:
        """Say what is to be done with the calls of a tool."""
        annotations = listed.get("annotations")
        hints = annotations if isinstance(annotations, Mapping) else {}
        rule = rule_for(self._rules, server=self._upstream.name, tool=name)
        return KnownTool(
            rule=rule,
            has_effect=has_effect(rule, name, hints),
            is_idempotent_by_hint=hints.get("idempotentHint") is True,
            listed=listed,
        )


async def pages(upstream: Upstream, method: str, member: str) -> list[dict[str, Any]]:
    """Give all that a server lists, page by page, up to a bound.

    Raises:
        Unreachable, MCPError, BadAnswer: it could not be asked.
    """
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        result = await upstream.request(method, {} if cursor is None else {"cursor": cursor})
        page = result.get(member)
        found += [part for part in (page if isinstance(page, list) else ()) if isinstance(part, dict)]
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or len(found) >= _MOST_TOOLS:
            break
    if cursor:
        logger.warning("%s lists more than is read: %d", upstream.name, len(found))
    return found[:_MOST_TOOLS]
