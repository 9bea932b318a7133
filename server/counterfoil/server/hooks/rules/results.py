"""What the result of a call says: whether it succeeded, and the reference of the system that performed it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.server.hooks.rules.rule import EffectRule
from counterfoil.store.domain.canonical import canonical_json, digest
from counterfoil.store.errors import InvalidArgument

__all__ = ["Found", "document_of", "find_reference", "is_refusal", "result_digest"]

_MOST_TEXT = 400_000
"""A reference that stands behind so many characters is not looked for: patterns must not take seconds."""
_LONGEST_REFERENCE = 500

_NAMES: Mapping[str, tuple[str, ...]] = {
    "message": ("message_id", "messageId", "message-id", "ts"),
    "commit": ("sha", "commit", "hash"),
    "deployment": ("deployment_id", "deploymentId"),
    "transaction": ("transaction_id", "transactionId", "charge_id", "payment_id"),
}
_ANY_NAMES = ("id", "number", "html_url", "url")
_URL_NAMES = ("html_url", "web_url", "url", "permalink")


class Found(Struct, frozen=True, kw_only=True):
    """What shows that the effect happened: its reference, where it is said, and where it can be seen."""

    external_id: str | None = None
    url: str | None = None


def find_reference(rule: EffectRule, *, text: str, document: Any = None) -> Found | None:
    """Find the reference in a result by what the rule says of it; of several the last one counts.

    `document` is the result as JSON, where it is some. Without a word in the rule, the usual names of ids at
    its top are taken.
    """
    for pattern in rule.found:
        matches = list(re.compile(pattern, re.MULTILINE).finditer(text[:_MOST_TEXT]))
        if matches:
            groups = matches[-1].groupdict()
            return Found(external_id=_reference(groups.get("id")), url=_reference(groups.get("url")))
    if rule.external_id is not None:
        reference = _at(rule.external_id, document)
        return None if reference is None else Found(external_id=reference, url=_url(rule, document))
    if rule.found or not isinstance(document, Mapping):
        return None
    for name in (*_NAMES.get(rule.kind, ()), *_ANY_NAMES):
        reference = _reference(document.get(name))
        if reference is not None:
            return Found(external_id=reference, url=_url(rule, document))
    return None


def _url(rule: EffectRule, document: Any) -> str | None:
    if rule.url is not None:
        return _at(rule.url, document)
    if not isinstance(document, Mapping):
        return None
    return next((url for name in _URL_NAMES if (url := _reference(document.get(name)))), None)


def _at(path: str, document: Any) -> str | None:
    from counterfoil.server.probes.json_path import JsonPath, NoSuchMember

    try:
        return _reference(JsonPath.read(path).of(document))
    except NoSuchMember:
        return None


def _reference(value: Any) -> str | None:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST_REFERENCE:
        return None
    return text.strip() if text.isprintable() else None


def document_of(result: Any) -> tuple[str, Any]:
    """Give the text of a tool's result, and the JSON that it is or holds; None where it is none.

    Knows results of MCP (content blocks and structured content) and plain ones.
    """
    if isinstance(result, str):
        return result, _parsed(result)
    if isinstance(result, Mapping):
        blocks = result.get("content")
        text = "\n".join(_texts(blocks if isinstance(blocks, list) else []))
        structured = next(
            (result[name] for name in ("structuredContent", "structured_content") if result.get(name)), None
        )
        if structured is not None or isinstance(blocks, list):
            return text, _parsed(text) if structured is None else structured
        return _written(result), result
    if isinstance(result, list):
        text = "\n".join(_texts(result))
        return text, _parsed(text)
    return "", None


def _texts(blocks: Sequence[Any]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Mapping) and isinstance(block.get("text"), str):
            yield block["text"]


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_refusal(rule: EffectRule, text: str, *, status: int | None = None) -> Mapping[str, Any] | None:
    """Give the evidence that a request was refused before any effect; None where the text shows none.

    Only a pattern of the rule says so: an error that is written like a refusal may come from what a tool did
    after its effect. `status` is the exit status of a command, with which a group `status` has to agree.
    """
    text = text[:_MOST_TEXT]
    for pattern in rule.refused:
        match = re.compile(pattern, re.MULTILINE).search(text)
        if match is None:
            continue
        wanted = match.groupdict().get("status")
        if wanted is None or wanted == str(status):
            return {"refused": match[0].strip()[:500]}
    return None


def result_digest(result: Any) -> str:
    """Give what stands for a result that brings no reference of its own."""
    return f"sha256:{digest(_written(result)).removeprefix('sha256:')}"


def _written(result: Any) -> str:
    """Write a result in its canonical form, or in another one where it holds what has none."""
    try:
        return canonical_json(result)
    except InvalidArgument:
        return json.dumps(result, sort_keys=True)
