"""Takes a receipt out of a tool's own result, and keeps the result so that the same call can be answered."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from counterfoil.server.probes.json_path import ABSENT_ITEM, JsonPath, NoSuchMember
from counterfoil.server.probes.json_reading import reference
from counterfoil.server.probes.probe import Inconclusive
from counterfoil.server.rules.call import Hide, result_document
from counterfoil.server.rules.tool_rule import ReceiptRule
from counterfoil.store.domain.canonical import check_value
from counterfoil.store.domain.commands import Json, ReceiptGiven
from counterfoil.store.domain.instants import parse_rfc3339, rfc3339
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.limits import Limits

__all__ = ["SUMMARY", "captured_receipt"]

SUMMARY = "counterfoil/summary"
"""The member of `_meta` that marks a recorded result as less than what the tool answered."""

_SHOWN_OF_LONG = 4_000
_READ_OF_LONG = 16_000
_DEEPEST = 32


def captured_receipt(
    result: Mapping[str, Any],
    rule: ReceiptRule,
    *,
    server: str,
    tool: str,
    attempt: int,
    now: str,
    duration_ms: int,
    hide: Hide,
    limits: Limits,
) -> ReceiptGiven:
    """Make the receipt of a result that is no error.

    A result that holds no reference of the performing system is known by its digest, under a system of its
    own: it is evidence that the tool answered, and never another effect beside one that has a reference.
    """
    document = result_document(result)
    found = _reference(rule.external_id, document)
    size = _size(result)
    digest = _digest(result, hide, is_large=size is None or size > limits.result_bytes)
    return ReceiptGiven(
        attempt=attempt,
        kind=rule.kind if found is not None else "other",
        external_id=found or f"sha256:{digest}",
        system=rule.system if found is not None else f"mcp:{server}"[:200],
        performed_at=_moment(_at(rule.performed_at, document)) or now,
        url=_url(_at(rule.url, document)),
        evidence={
            "captured_by": "gateway",
            "server": server[:200],
            "tool": tool[:200],
            "duration_ms": duration_ms,
            "result_sha256": digest,
        },
        source="response",
        assurance="captured",
        result=_kept(dict(result), digest, size, limits=limits, hide=hide),
    )


def _at(path: JsonPath | None, document: Json) -> Json:
    if path is None:
        return None
    try:
        value = path.of(document)
    except NoSuchMember:
        return None
    return None if value is ABSENT_ITEM else value


def _reference(path: JsonPath | None, document: Json) -> str | None:
    value = _at(path, document)
    try:
        return None if value is None else reference(value)
    except Inconclusive:
        return None


def _moment(value: Json) -> str | None:
    """Read a time that the result tells; one that cannot be read is not told."""
    try:
        return rfc3339(parse_rfc3339(value, field="performed_at")) if isinstance(value, str) else None
    except InvalidArgument:
        return None


def _url(value: Json) -> str | None:
    is_one = isinstance(value, str) and value.startswith(("http://", "https://")) and len(value) <= 2_000
    return value if is_one and value.isprintable() else None


def _size(result: Mapping[str, Any]) -> int | None:
    """Give the bytes of a result; None where it is nested too deep for a body, or no JSON."""
    try:
        check_value(dict(result), field="result", max_depth=_DEEPEST)
        return len(json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode())
    except (InvalidArgument, ValueError, RecursionError):
        return None


def _digest(result: Mapping[str, Any], hide: Hide, *, is_large: bool) -> str:
    """Digest a result without its secrets: a digest of what holds little else would give a short one away."""
    value = dict(result) if is_large else hide(dict(result))
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _kept(
    result: dict[str, Any], digest: str, size: int | None, *, limits: Limits, hide: Hide
) -> dict[str, Any]:
    """Give the result as it can be recorded: whole, or a summary that says so."""
    # Placeholders may be longer than the secrets that they stand for.
    if size is not None and size <= limits.result_bytes - limits.result_bytes // 8:
        return result
    parts = result.get("content")
    text = "\n".join(
        part["text"]
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
    said = "it is nested too deep or no JSON" if size is None else f"it has {size} bytes"
    note = (
        f"[counterfoil: this is not the whole result: {said}, more than the journal keeps. The call was "
        "carried out and is not repeated; read what it left behind with a reading tool.]"
    )
    return {
        "content": [
            {"type": "text", "text": note},
            # Secrets are replaced before the cut: half of one would not be known for one.
            {"type": "text", "text": escape_untrusted(str(hide(text[:_READ_OF_LONG])), limit=_SHOWN_OF_LONG)},
        ],
        "isError": False,
        "_meta": {SUMMARY: {"bytes": size, "sha256": digest}},
    }
