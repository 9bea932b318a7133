"""What the gateway says of itself at the beginning: what its servers say, and nothing that they cannot."""

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import HandlerResult

from counterfoil.server.gateway.upstream import Upstream

__all__ = ["introduced"]

_LONGEST_INSTRUCTIONS = 4_000
"""Clients cut at 4,096 characters; of one server they are passed on as they are."""

_UNKNOWN: Mapping[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
"""What a server that cannot be reached now may turn out to offer."""


def introduced(result: HandlerResult, upstreams: Sequence[Upstream], method: str) -> dict[str, Any]:
    """Give the answer to `initialize` or `server/discover` with what the servers behind are."""
    told = dict(result) if isinstance(result, Mapping) else {}
    capabilities: dict[str, Any] = {}
    for upstream in upstreams:
        for name, value in _capabilities(upstream, is_alone=len(upstreams) == 1).items():
            known = capabilities.get(name)
            capabilities[name] = {**known, **value} if isinstance(known, dict) else value
    for name in ("tools", "resources", "prompts"):
        if name in capabilities:
            # A server may be another after it was started again, and the client is told so.
            capabilities[name] = {**capabilities[name], "listChanged": True}
    told["capabilities"] = capabilities
    told.pop("instructions", None)
    if instructions := _instructions(upstreams):
        told["instructions"] = instructions
    info = _info(upstreams)
    if info is not None and method == "initialize":
        told["serverInfo"] = info
    elif info is not None:
        told["_meta"] = {**(told.get("_meta") or {}), types.SERVER_INFO_META_KEY: info}
    return told


def _capabilities(upstream: Upstream, *, is_alone: bool) -> dict[str, Any]:
    known = upstream.introduction
    if known is None:
        return dict(_UNKNOWN)
    told = dict(known.capabilities.model_dump(by_alias=True, mode="json", exclude_none=True))
    if not is_alone:
        # What only one server understands has no address among several.
        told.pop("experimental", None)
        told.pop("extensions", None)
    return told


def _info(upstreams: Sequence[Upstream]) -> dict[str, Any] | None:
    """Give the one server's own name; several stand behind the gateway's."""
    known = upstreams[0].introduction if len(upstreams) == 1 else None
    if known is None or known.info is None:
        return None
    return dict(known.info.model_dump(by_alias=True, mode="json", exclude_none=True))


def _instructions(upstreams: Sequence[Upstream]) -> str | None:
    given = [
        (upstream.name, upstream.introduction.instructions)
        for upstream in upstreams
        if upstream.introduction is not None and upstream.introduction.instructions
    ]
    if not given:
        return None
    if len(upstreams) == 1:
        return given[0][1]
    room = _LONGEST_INSTRUCTIONS // len(given) - 60
    return "\n\n".join(f"Of the server {name}:\n{(text or '')[:room]}" for name, text in given)
