"""Says what a tool's call is as an operation: action, target, identity, payload, and a key found again.

A session that lost its memory makes the same call, or nearly the same: what its effect *is* makes the key,
and what may be worded anew is payload. Secrets are replaced before anything of them goes into a key.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from counterfoil.server.rules.tool_rule import KEY_PLACE, ToolRule
from counterfoil.store.domain.canonical import canonical_json, check_value
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.domain.names import normalize_name
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.limits import Limits

__all__ = ["DescribedCall", "Hide", "describe_call", "result_document"]

Hide = Callable[[Json], Json]
"""Replaces the secrets in a value as the journal does."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,79}")
_LONG_MEMBER = 4_096
_LONGEST_TEXT = 2_000
_DIGEST_CHARACTERS = 20
_DEEPEST = 30
"""Two less than a body may be nested: a member may stand inside what holds them all."""


class DescribedCall(Struct, frozen=True, kw_only=True):
    """A call as the journal takes it. `payload` None: all arguments are identity.

    `is_payload_whole`: what is recorded as payload is what was given, and can be sent again.
    """

    action: str
    target: str | None
    key: str
    args: dict[str, Json]
    payload: dict[str, Json] | None
    payload_names: frozenset[str]
    is_payload_whole: bool


def describe_call(
    rule: ToolRule, *, server: str, tool: str, arguments: Mapping[str, Any], hide: Hide, limits: Limits
) -> DescribedCall:
    """Describe a call of `tool`. Nothing in the arguments makes this fail: what no body holds is digested."""
    given = {name: value for name, value in arguments.items() if name != rule.idempotency_argument}
    if rule.identity is None:
        identity = {name: value for name, value in given.items() if name not in rule.payload}
    else:
        identity = {name: given[name] for name in rule.identity if name in given}
    rest = {name: value for name, value in given.items() if name not in identity}
    args, _ = _bearable(identity, limit=limits.args_bytes, hide=hide)
    payload, is_whole = _bearable(rest, limit=limits.payload_bytes, hide=hide)
    name = _plain(tool)
    action = rule.action or f"{_plain(server)}.{name}"
    target = None if rule.target is None else _text(arguments.get(rule.target))
    return DescribedCall(
        action=action,
        target=target,
        key=_named_key(rule, arguments, hide) or f"{name}:{_short_digest([action, target, hide(args)])}",
        args=args,
        payload=payload if rest else None,
        payload_names=frozenset(rest),
        is_payload_whole=is_whole,
    )


def result_document(result: Mapping[str, Any]) -> Json:
    """Give what a result says as JSON: its structured content, else its first text where that is JSON."""
    structured = result.get("structuredContent")
    if structured is not None:
        return structured
    parts = result.get("content")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
            try:
                return json.loads(part["text"])
            except (ValueError, RecursionError):
                return None
    return None


def _plain(name: str) -> str:
    """Give a name as it is where every reader can bear it, else what tells it apart from others."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40]
    return f"{readable or 'tool'}~{_digest(name.encode('utf-8', 'surrogatepass'))[:8]}"


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        # Half of a secret would not be known for one: a text is taken whole or not at all.
        return value if value.strip() and len(value) <= _LONGEST_TEXT else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _named_key(rule: ToolRule, arguments: Mapping[str, Any], hide: Hide) -> str | None:
    """Fill the rule's key; None where there is none, or an argument gives no name."""
    if rule.key is None:
        return None
    missing = False

    def fill(place: re.Match[str]) -> str:
        nonlocal missing
        value: Any = arguments
        for step in place[1].split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        text = _text(value)
        missing = missing or text is None
        return text or ""

    key = KEY_PLACE.sub(fill, rule.key)
    if missing or hide(key) != key:
        return None
    try:
        return normalize_name(key, field="key")
    except InvalidArgument:
        return None


def _bearable(value: dict[str, Any], *, limit: int, hide: Hide) -> tuple[dict[str, Json], bool]:
    """Give a body that the journal takes, and whether it is `value` itself."""
    try:
        check_value(value, field="arguments", max_depth=_DEEPEST)
        if _size(value) <= limit:
            return value, True
    except InvalidArgument:
        return {"arguments": _stand_in(value, hide)}, False
    short = {
        name: _stand_in(part, hide) if _size(part) > _LONG_MEMBER else part for name, part in value.items()
    }
    return (short if _size(short) <= limit else {"arguments": _stand_in(value, hide)}), False


def _stand_in(value: Any, hide: Hide) -> dict[str, Json]:
    """Give what stands for a value that is too large or too deep: two of equal digest are equal."""
    try:
        text = json.dumps(hide(value), sort_keys=True)
    except (InvalidArgument, ValueError, RecursionError):
        text = json.dumps(value, sort_keys=True)
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "characters": len(text)}


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def _short_digest(value: Json) -> str:
    return _digest(canonical_json(value).encode())[:_DIGEST_CHARACTERS]


def _digest(data: bytes) -> str:
    return base64.b32encode(hashlib.sha256(data).digest()).decode().lower()
