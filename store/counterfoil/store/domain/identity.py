"""Ids that are derived, not drawn: whoever knows the names knows the id and the idempotency key."""

import base64
import hashlib
import re
from json.encoder import encode_basestring as quote
from typing import Final

from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["KINDS_OF_KEYS", "idempotency_key", "is_operation_id", "kind_of_id", "operation_id"]

_OPERATION_TAG: Final = "counterfoil.operation.v1"
_ID_CHARACTERS: Final = 20  # 100 bits: no two of 10 ** 12 operations meet but with a chance of 1 in 10 ** 6

# The name space of Counterfoil's idempotency keys. Drawn once; a change would change every key.
_KEY_NAMESPACE: Final = bytes.fromhex("5d0c9a7e41b84f0fa6d1c7e2903b58f4")

_OPERATION_ID: Final = lazy_pattern(r"op_[a-z2-7]{20}")


def operation_id(namespace: str, run: str, key: str) -> str:
    """Give `op_` and 20 lower-case base-32 characters of a SHA-256 over the three normalised names."""
    # The canonical form of the list of all four, spelt out: every command that names an operation comes here.
    named = f'["{_OPERATION_TAG}",{quote(namespace)},{quote(run)},{quote(key)}]'
    hashed = hashlib.sha256(named.encode()).digest()
    return "op_" + base64.b32encode(hashed[:15])[:_ID_CHARACTERS].decode().lower()


def idempotency_key(operation: str, generation: int) -> str:
    """Give the UUID (version 5, RFC 9562) under which every attempt of one generation is sent.

    Any UUID library gives the same for Counterfoil's name space and the name `<operation id>/<generation>`.
    Version 5 and not 8, because some providers' checks know only versions 1 to 5.
    """
    name = f"{operation}/{generation:d}".encode()
    hashed = bytearray(hashlib.sha1(_KEY_NAMESPACE + name, usedforsecurity=False).digest()[:16])
    hashed[6] = hashed[6] & 0x0F | 0x50
    hashed[8] = hashed[8] & 0x3F | 0x80
    text = hashed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_operation_id(text: str) -> bool:
    """Tell whether `text` has the form of an operation id; no journal is asked."""
    return _OPERATION_ID.fullmatch(text) is not None


_KEY: Final = "an operation's key"
_NAME: Final = "a name, perhaps of a run or a key"
KINDS_OF_KEYS: Final = frozenset((_KEY, _NAME))
"""What `kind_of_id` says of a text that may be the key of an operation."""

_KINDS: Final = tuple(
    (lazy_pattern(form, re.IGNORECASE), kind)
    for form, kind in (
        (r"op_[a-z0-9]{20}", "an operation id with a letter or digit mistyped"),
        (r"op[_-].{0,60}", "an operation id that was cut or made up"),
        (
            r"(?:urn:uuid:)?\{?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?",
            "a UUID, perhaps a session id or an idempotency key",
        ),
        (r"v\d+:sha256:[0-9a-f]{1,64}", "a fingerprint"),
        (r"(?:hmac-)?sha\d{1,3}[:-][0-9a-f]{1,128}", "a digest of content"),
        (r"[+-]?\d{1,9}", "a number, perhaps that of an attempt"),
        (r"\d{10}(?:\.\d+|\d{3})?", "a number, perhaps a time or an id of another system"),
        (r"\d{1,40}", "a number, perhaps an id of another system"),
        (r"[0-9a-f]{40}|[0-9a-f]{64}", "a commit hash or another digest"),
        (r"(?=.*\d)[0-9a-f]{7,39}", "a short commit hash"),
        (r"[0-9A-HJKMNP-TV-Z]{26}", "a ULID, perhaps of a session or another system"),
        (r"(?:toolu|call|fc|tool)_[\w-]{6,100}", "a tool-call id"),
        (
            r"(?:sess|session|thread|conv|conversation|chatcmpl|resp|run)[_-][\w-]{6,100}",
            "a session or run id",
        ),
        (
            r"(?:chk|grant|ev|rcp|att|attempt|lease|cursor)[_-][\w-]{1,100}",
            "an id of something else than an operation",
        ),
        (r"<[^<>@\s]{1,200}@[^<>@\s]{1,200}>", "a mail's message id"),
        (r"[a-z][a-z0-9+.\-]{1,30}://.{0,2000}", "a URL"),
        (r"[^@\s:/]{1,200}@[^@\s:/]{1,200}", "a mail address"),
        (r"[\[{\"].{0,2000}", "a JSON text"),
        (
            r"(?:[a-z]{1,4}|cus|sub|evt|msg)_[a-z0-9]{10,100}",
            "an id of another system, such as a receipt's external_id",
        ),
        (r"[^:\s]{1,200}:.{1,200}", _KEY),
        (r"[^/]{1,200}/.{1,200}", "a run's name"),
    )
)


def kind_of_id(text: str) -> str:
    """Say in a few words what a text that is no operation id looks like, for an error that helps."""
    if is_operation_id(text):
        return "an operation id"
    trimmed = text.strip()
    if not trimmed:
        return "empty"
    if is_operation_id(trimmed.lower()):
        return "an operation id in other letters or with white space around it"
    for form, kind in _KINDS:
        if form.fullmatch(trimmed[:2_100]):
            return kind
    return _NAME
