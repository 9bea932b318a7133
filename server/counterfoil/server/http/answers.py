"""Writes what is answered before, or in place of, the SDK: as JSON, with the fault as a caller reads it."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from counterfoil.server.faults import fault_text, plain_fault
from counterfoil.store.errors import Fault, JournalUnavailable
from counterfoil.tools.text import written

__all__ = [
    "cut_off",
    "fault_answer",
    "insufficient_scope",
    "no_such_question",
    "not_now",
    "rpc_answer",
    "too_large",
    "too_many",
]

_INVALID_REQUEST, _INTERNAL_ERROR = -32600, -32603
_FORBIDDEN_FIX = "do not perform the effect; ask whoever gave you the token for one with this scope"


def rpc_answer(answer: Mapping[str, Any] | None) -> Response:
    """Give the answer to a message that is not served; a notification gets none but the status."""
    if answer is None:
        return Response(status_code=400)
    return _json(answer, 200 if "result" in answer else 400)


def too_large(limit: int) -> Response:
    """Refuse a body of which the rest is not read; so its connection ends."""
    text = plain_fault(
        "too_large",
        f"the message is over the limit of {limit} bytes",
        "nothing was recorded, do not perform the effect; send bodies within their limits",
    )
    return _error(413, text, headers={"Connection": "close"})


def too_many(seconds: int) -> Response:
    """Refuse a request of a principal that sends too many, until `seconds` from now."""
    text = plain_fault(
        "too_many_requests",
        "this token sends more requests than one may",
        f"nothing was recorded, do not perform the effect; send it again in {seconds} s",
    )
    return _error(429, text, headers={"Retry-After": str(seconds)})


def not_now(fault: Fault) -> Response:
    """Refuse a request of which it cannot be told whose it is, since what would tell cannot be reached."""
    return _error(503, fault_text(fault, duty="Do not perform the effect."), headers={"Retry-After": "1"})


def no_such_question(*, is_elsewhere: bool) -> Response:
    """Refuse the answer to a question that does not wait here.

    Not 404, which would tell the client that its session is over. 421 is for what another worker would take.
    """
    if is_elsewhere:
        problem = "another worker asked this, and an answer to it counts only there"
        fix = "nothing was recorded; the load balancer has to lead one Mcp-Session-Id to one worker"
        return _error(421, plain_fault("not_found", problem, fix))
    problem = "no such question waits: it was answered, or its call is over"
    return _error(400, plain_fault("not_found", problem, "nothing was recorded; make the call again"))


def cut_off(request_id: str | int | None) -> Response:
    """Answer a request that was not done when the process had to end."""
    fault = JournalUnavailable(
        "the server ended before it had carried this out",
        fix="check_operation shows what is on record",
        retryable=True,
        recorded=None,
    )
    text = fault_text(fault, duty="Do not perform the effect.")
    return _error(503, text, request_id=request_id, headers={"Retry-After": "1"})


def insufficient_scope(request_id: str | int, scope: str, metadata_url: str | None) -> Response:
    """Refuse a request for which the client has to get another scope first (RFC 6750, section 3.1)."""
    text = plain_fault(
        "forbidden", f"this token does not carry the scope {scope}; nothing was recorded", _FORBIDDEN_FIX
    )
    parts = ['error="insufficient_scope"', f'scope="{scope}"']
    if metadata_url is not None:
        parts.append(f'resource_metadata="{metadata_url}"')
    return _error(
        403, text, request_id=request_id, headers={"WWW-Authenticate": f"Bearer {', '.join(parts)}"}
    )


def fault_answer(status: int, fault: Fault) -> Response:
    """Give a fault to somebody who speaks no MCP: a probe, a scraper."""
    return Response(f"{fault_text(fault)}\n", status_code=status, media_type="application/json")


def _error(
    status: int, text: str, *, request_id: str | int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    told = json.loads(text)
    code = _INTERNAL_ERROR if status >= 500 else _INVALID_REQUEST
    error = {"code": code, "message": f"{told['message']}. {told['fix']}", "data": told}
    return _json({"jsonrpc": "2.0", "id": request_id, "error": error}, status, headers=headers)


def _json(answer: Mapping[str, Any], status: int, *, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        written(answer), status_code=status, headers=dict(headers or {}), media_type="application/json"
    )
