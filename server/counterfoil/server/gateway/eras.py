"""Brings what goes through from one protocol era into the other; within one era it stays as it came.

Since 2026-07-28 every request carries its own envelope in `_meta`, and every result its type; before that
both were matters of the connection.
"""

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from counterfoil.server.logs import logger

__all__ = ["is_modern", "meta_for_client", "params_for_server", "result_for_client"]

_ENVELOPE = frozenset(
    (
        types.PROTOCOL_VERSION_META_KEY,
        types.CLIENT_INFO_META_KEY,
        types.CLIENT_CAPABILITIES_META_KEY,
        types.LOG_LEVEL_META_KEY,
        "progressToken",
    )
)
"""What each side of the gateway says for itself."""

_CONTINUING = ("inputResponses", "requestState")


def is_modern(version: str) -> bool:
    """Tell whether a revision has no handshake."""
    return version in MODERN_PROTOCOL_VERSIONS


def params_for_server(
    params: Mapping[str, Any] | None, *, server_is_modern: bool, log_level: str | None = None
) -> dict[str, Any]:
    """Give the params of a client's request as they go on to a server."""
    passed = dict(params or {})
    meta = passed.pop("_meta", None)
    kept = {
        name: value
        for name, value in (meta if isinstance(meta, Mapping) else {}).items()
        if name not in _ENVELOPE
    }
    if server_is_modern and log_level is not None:
        kept[types.LOG_LEVEL_META_KEY] = log_level
    if kept:
        passed["_meta"] = kept
    if not server_is_modern:
        for name in _CONTINUING:
            passed.pop(name, None)
    return passed


def result_for_client(
    method: str, version: str, result: Mapping[str, Any], *, stamp: Mapping[str, Any]
) -> dict[str, Any]:
    """Give a server's result as the client's revision has it; `stamp` is who we are where it has to say so.

    Raises:
        MCPError: it cannot be said in that revision.
    """
    if is_modern(version):
        return meta_for_client(method, result, stamp=stamp)
    if "resultType" not in result and "ttlMs" not in result and "cacheScope" not in result:
        return dict(result)
    try:
        return methods.serialize_server_result(method, version, _older(result))
    except KeyError:
        return {name: value for name, value in result.items() if name != "resultType"}
    except ValidationError:
        logger.info("a result of %s cannot be said in %s", method, version)
        raise MCPError(
            code=types.INTERNAL_ERROR, message="The server's result cannot be told in this protocol revision"
        ) from None


def meta_for_client(method: str, result: Mapping[str, Any], *, stamp: Mapping[str, Any]) -> dict[str, Any]:
    """Complete a result with what every result has to say since 2026-07-28."""
    told = {"resultType": "complete", **result}
    if method in methods.CACHEABLE_METHODS and told["resultType"] == "complete":
        # A server of the older era says nothing about caching: then nothing may be cached.
        told = {"ttlMs": 0, "cacheScope": "private", **told}
    meta = told.get("_meta")
    if meta is None or isinstance(meta, Mapping):
        told["_meta"] = {types.SERVER_INFO_META_KEY: dict(stamp), **(meta or {})}
    return told


def _older(result: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out structured content that the older era does not have: there it is an object."""
    older = {
        name: value for name, value in result.items() if name not in ("resultType", "ttlMs", "cacheScope")
    }
    if not isinstance(older.get("structuredContent", {}), dict):
        del older["structuredContent"]
    return older
