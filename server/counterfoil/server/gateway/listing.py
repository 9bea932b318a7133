"""Lists what the servers offer: one server page by page as it does itself, several one after the other."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp import MCPError

from counterfoil.server.gateway.naming import Naming
from counterfoil.server.gateway.servers import Unreachable
from counterfoil.server.gateway.tooling import Tooling
from counterfoil.server.gateway.upstream import BadAnswer, Upstream
from counterfoil.server.gateway.wish import with_argument
from counterfoil.server.logs import logger

__all__ = ["Listing"]

_MEMBERS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_MOST_OWNERS = 10_000
_BREAK = ":"

PassOn = Callable[[Upstream, dict[str, Any]], Awaitable[dict[str, Any]]]


class Listing:
    """The lists of one gateway; it remembers which server listed a resource."""

    def __init__(
        self, upstreams: Mapping[str, Upstream], tooling: Mapping[str, Tooling], naming: Naming
    ) -> None:
        self._upstreams = list(upstreams.values())
        self._tooling = tooling
        self._naming = naming
        self._owners: dict[str, Upstream] = {}

    def owner(self, uri: str) -> Upstream | None:
        """Give the server that listed a resource or a template; the only one there is owns all."""
        return self._upstreams[0] if len(self._upstreams) == 1 else self._owners.get(uri)

    async def page(self, method: str, params: dict[str, Any], pass_on: PassOn) -> dict[str, Any]:
        """Give a page of a list, with the cursor of the next.

        Raises:
            MCPError: a cursor that the gateway did not give, or a server's own refusal.
            Unreachable, BadAnswer: the one server could not be asked.
        """
        if len(self._upstreams) == 1:
            return self._shown(self._upstreams[0], method, await pass_on(self._upstreams[0], params))
        at, cursor = _place(params.pop("cursor", None), len(self._upstreams))
        for index in range(at, len(self._upstreams)):
            upstream = self._upstreams[index]
            asked = {**params, "cursor": cursor} if cursor is not None and index == at else dict(params)
            try:
                result = self._shown(upstream, method, await pass_on(upstream, asked))
            except (Unreachable, BadAnswer, MCPError) as error:
                # One server that cannot list hides none of the others.
                logger.info("%s could not list: %s", upstream.name, type(error).__name__)
                continue
            rest = result.pop("nextCursor", None)
            if isinstance(rest, str):
                return {**result, "nextCursor": f"{index}{_BREAK}{rest}"}
            if index + 1 < len(self._upstreams):
                return {**result, "nextCursor": f"{index + 1}{_BREAK}"}
            return result
        return {_MEMBERS[method]: []}

    def _shown(self, upstream: Upstream, method: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Give a page with names as the client knows them, and the gateway's argument where it has a use."""
        member = _MEMBERS[method]
        listed = result.get(member)
        if not isinstance(listed, list):
            return dict(result)
        return {**result, member: [self._entry(upstream, method, entry) for entry in listed]}

    def _entry(self, upstream: Upstream, method: str, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        if method.startswith("resources/"):
            uri = entry.get("uri") or entry.get("uriTemplate")
            if isinstance(uri, str) and len(self._owners) < _MOST_OWNERS:
                self._owners.setdefault(uri, upstream)
            return entry
        name = entry.get("name")
        if not isinstance(name, str):
            return entry
        if method == "tools/list" and self._tooling[upstream.name].judged(name, entry).has_effect:
            entry = with_argument(_without_output_schema(entry))
        shown = self._naming.shown(upstream.name, name)
        return entry if shown == name else {**entry, "name": shown}


def _without_output_schema(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Give a tool without the schema of its results: what the gateway answers in its place has another shape.

    Clients hold errors against it too (Gemini CLI does), and show the model the mismatch in their place.
    """
    return {name: value for name, value in entry.items() if name != "outputSchema"}


def _place(cursor: Any, servers: int) -> tuple[int, str | None]:
    """Read a cursor: which server comes next, and that server's own cursor."""
    if cursor is None:
        return 0, None
    index, mark, rest = str(cursor).partition(_BREAK)
    if not mark or not index.isdecimal() or int(index) >= servers:
        raise MCPError(code=types.INVALID_PARAMS, message="The cursor is none that this server gave")
    return int(index), rest or None
