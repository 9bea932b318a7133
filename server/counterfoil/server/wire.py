"""Judges each message before the SDK sees it, so that whatever the SDK would swallow gets an answer.

A message is a line of stdin, or the body of an HTTP request.

The SDK drops what it cannot parse without a word (a lone surrogate, a deep nest, a huge number), takes NaN
and duplicate members, and reads a request with a null id as a notification. The caller of a dropped request
waits for ever, not knowing whether its effect may go ahead.
"""

import json
import re
from typing import Any

from mcp_types import JSONRPCMessage, jsonrpc_message_adapter
from msgspec import Struct
from pydantic import ValidationError

from counterfoil.server.faults import plain_fault
from counterfoil.tools.reading import LONGEST_PLAIN_INTEGER, Unreadable, holds_long_integer, read_json

__all__ = [
    "LONGEST_LINE",
    "Message",
    "Refusal",
    "answered_id",
    "judge_line",
    "judge_long_line",
    "sdk_message",
]

LONGEST_LINE = 8 * 1024 * 1024
"""Bytes of one message. The largest lawful call has some 0.6 MB of bodies; escaping may make it 3.6 MB."""

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
_LARGEST_ID = 2**63 - 1
"""A longer one cannot be written back by every reader, and one of thousands of digits not even by Python."""

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"

_TAIL_ID = re.compile(
    rb'"id"\s*:\s*(?P<id>-?[0-9]{1,15}|"[^"\\]{0,200}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$'
)


class Message(Struct, frozen=True):
    """A sound JSON-RPC message, parsed once; what was judged is what is served."""

    content: dict[str, Any]


class Refusal(Struct, frozen=True):
    """The answer to a line that is not served, as a JSON-RPC message; None where none is due."""

    answer: dict[str, Any] | None


def judge_line(line: bytes, *, is_passed_on: bool = False) -> Message | Refusal:
    """Say whether `line` is served, or with what it is answered.

    What `is_passed_on` to another server is written again by the SDK, which fails at long integers.
    """
    try:
        content = read_json(line)
    except Unreadable as unreadable:
        if unreadable.is_syntax:
            return _protocol_error(PARSE_ERROR, f"Parse error: {unreadable.problem}", None)
        problem = f"the message was not read: {unreadable.problem}"
        return _refused(*_loosely(line), code="invalid_argument", message=problem)
    if isinstance(content, list):
        return _protocol_error(INVALID_REQUEST, "Batches are not supported: send one message at a time", None)
    if wrong := _envelope_problem(content):
        return _protocol_error(INVALID_REQUEST, f"Invalid request: {wrong}", _usable_id(content))
    if is_passed_on and holds_long_integer(content):
        problem = (
            f"the message was not passed on: it holds an integer of more than {LONGEST_PLAIN_INTEGER} digits"
        )
        return _refused(content, True, code="invalid_argument", message=problem)
    return Message(content)


def answered_id(line: bytes) -> str | int | None:
    """Tell which request a line that cannot be read is meant to answer; None where that cannot be told.

    A line with a method is no answer, and one that has neither result nor error as far as it was made out
    may have one further on.
    """
    members, is_whole = _loosely(line)
    is_answer = "method" not in members and (is_whole or "result" in members or "error" in members)
    return _usable_id(members) if is_answer else None


def judge_long_line(head: bytes, tail: bytes, size: int) -> Refusal:
    """Answer a line of `size` bytes of which only the beginning and the end were kept."""
    return _refused(
        _top_members(head) | _tail_id(tail),
        False,
        code="too_large",
        message=f"the message has {size} bytes, the limit is {LONGEST_LINE}",
    )


def sdk_message(judged: Message) -> JSONRPCMessage | Refusal:
    """Give a message as the SDK has it, or answer one that passed here and is none to the SDK."""
    try:
        return jsonrpc_message_adapter.validate_python(judged.content, by_name=False)
    except ValidationError:
        return _protocol_error(INVALID_REQUEST, "Invalid request", _usable_id(judged.content))


def _envelope_problem(content: Any) -> str | None:
    if not isinstance(content, dict):
        return "a message is an object"
    if content.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if "method" not in content:
        return None if "result" in content or "error" in content else "it has no method"
    if not isinstance(content["method"], str):
        return "method must be a string"
    if "id" in content and _usable_id(content) is None:
        return "id must be a string, or an integer of at most 64 bits"
    if content.get("params") is not None and not isinstance(content["params"], dict):
        return "params must be an object"
    return None


def _usable_id(content: Any) -> str | int | None:
    request_id = content.get("id") if isinstance(content, dict) else None
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        return None
    if isinstance(request_id, int) and abs(request_id) > _LARGEST_ID:
        return None
    return request_id


def _refused(members: dict[str, Any], is_whole: bool, *, code: str, message: str) -> Refusal:
    """Answer by what could be made out of the line: a tool's result, an error, or an error without id.

    `is_whole` says that `members` are all there are: then a method without an id is a notification. The id of
    what is an answer itself is one of ours, and may be that of a request of the caller's as well.
    """
    request_id = _usable_id(members)
    if isinstance(request_id, str) and not request_id.isascii():
        request_id = None
    if is_whole and members.get("method") is not None and "id" not in members:
        return Refusal(None)
    if "method" not in members and ("result" in members or "error" in members):
        request_id = None
    if request_id is None or members.get("method") != "tools/call":
        return _protocol_error(INVALID_REQUEST, f"Invalid request: {message}", request_id)
    text = plain_fault(
        code,
        message,
        "nothing was recorded, do not perform the effect; send well-formed JSON, bodies within their limits",
    )
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    params = members.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(params, dict) or (isinstance(meta, dict) and PROTOCOL_VERSION in meta):
        # Required since 2026-07-28, ignored by earlier clients; so it is sent where the era is not known.
        result["resultType"] = "complete"
    return Refusal({"jsonrpc": "2.0", "id": request_id, "result": result})


def _protocol_error(code: int, message: str, request_id: str | int | None) -> Refusal:
    return Refusal({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})


def _loosely(line: bytes) -> tuple[dict[str, Any], bool]:
    """Make out the top members of a line that is not fit to be served, only to know whom to answer.

    The second part says whether these are all of them.
    """
    try:
        content = json.loads(
            line.decode("utf-8", "replace"), parse_int=_loose_integer, object_pairs_hook=_loose_members
        )
    except (ValueError, RecursionError):
        return _top_members(line) | _tail_id(line[-1024:]), False
    return (content, True) if isinstance(content, dict) else ({}, False)


def _loose_integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= 15 else None


def _loose_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    for name in ("id", "method"):
        if sum(1 for given, _ in pairs if given == name) > 1:
            members[name] = None
    return members


def _top_members(head: bytes) -> dict[str, Any]:
    """Read the top members from the beginning of a line until one cannot be read."""
    text = head.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    members: dict[str, Any] = {}
    position = text.find("{") + 1
    try:
        while position:
            name, position = decoder.raw_decode(text, _skip(text, position))
            position = _skip(text, position)
            if not isinstance(name, str) or text[position] != ":":
                break
            members.setdefault(name, None)
            members[name], position = decoder.raw_decode(text, _skip(text, position + 1))
            position = _skip(text, position)
            if text[position] != ",":
                break
            position += 1
    except (ValueError, RecursionError, IndexError):
        pass
    return members


def _tail_id(tail: bytes) -> dict[str, Any]:
    """Read an id that is the last member of the line: the brace after it closes the whole message."""
    found = _TAIL_ID.search(tail)
    return {"id": json.loads(found["id"].decode("utf-8", "replace"))} if found else {}


def _skip(text: str, position: int) -> int:
    while text[position] in " \t\r\n":
        position += 1
    return position
