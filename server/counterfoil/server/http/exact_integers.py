"""Brings integers of any size past the SDK's own reading of a body, which refuses those over 4,300 digits.

The body was read already, exactly, when it was judged (`wire.py`). Where it holds such an integer the SDK is
given a copy with 0 in its place, and the parameters as they were judged go beside it to the handlers.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp.server.context import CallNext, HandlerResult
from starlette.types import Scope

from counterfoil.server.access import Context
from counterfoil.tools.reading import holds_long_integer

__all__ = ["body_for_sdk", "serve_as_judged"]

_PARAMS = "parameters as judged"


def body_for_sdk(scope: Scope, body: bytes, content: Mapping[str, Any]) -> bytes:
    """Give the body that the SDK reads: `body`, unless `content`, which it denotes, is more than it takes."""
    if not holds_long_integer(content):
        return body
    scope.setdefault("state", {})[_PARAMS] = content.get("params")
    return json.dumps(_shortened(content)).encode()


async def serve_as_judged(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Serve a request by its parameters as they were judged: the SDK's middleware."""
    request: Any = ctx.request
    params = None if request is None else request.scope.get("state", {}).get(_PARAMS)
    return await call_next(ctx if params is None else replace(ctx, params=params))


def _shortened(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _shortened(value) for name, value in item.items()}
    if isinstance(item, list):
        return [_shortened(value) for value in item]
    return 0 if holds_long_integer(item) else item
