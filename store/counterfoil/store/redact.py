"""Replace what looks like a secret by a placeholder that tells equal secrets apart from others, and no more.

`[redacted:<label>:<28 hex>]`: the first 20 hex digits are of an HMAC-SHA256 of the secret under the
journal's key, the last 8 of one over those, by which a journal knows its own placeholders. A placeholder
stands for its value and is left as it is; text that merely looks like one carries nothing and is left too.
Work is linear in the text, whatever the text is.
"""

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from counterfoil.store.domain.canonical import canonical_json, check_value, parse_json
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.secret_forms import SecretPattern
from counterfoil.store.secret_names import DEFAULT_NAMES, SecretNames
from counterfoil.store.secret_spans import (
    HEADER_LABELS,
    PLACEHOLDER,
    Span,
    assignment_spans,
    is_placeholder,
    token_spans,
    url_password_spans,
)

__all__ = ["DEFAULT_NAMES", "Redactor", "SecretPattern", "is_placeholder"]

_DEEPEST: Final = 100
_JSON_BEGINNINGS: Final = frozenset('{["')
_CACHED_TEXTS: Final = 2_048
_CACHED_LENGTH: Final = 200
_LEAST_KEY_BYTES: Final = 16


class Redactor:
    """Replaces secrets under the key of one journal.

    `names` and `extra_names` are member names (compared by their last words), `patterns` further forms of
    secret text beside the well-known ones.

    Raises:
        InvalidArgument: for a pattern that is no regular expression.
        ValueError: for a key of less than 16 bytes.
    """

    def __init__(
        self,
        key: bytes,
        names: Sequence[str] = DEFAULT_NAMES,
        patterns: Sequence[SecretPattern | str] = (),
        *,
        extra_names: Sequence[str] = (),
    ) -> None:
        if len(key) < _LEAST_KEY_BYTES:
            raise ValueError(f"a redaction key has at least {_LEAST_KEY_BYTES} bytes")
        self._key = key
        self._names = SecretNames(names, extra_names)
        self._patterns = tuple(map(_compiled, patterns))
        self._members: dict[str, tuple[str | None, str]] = {}
        self._harmless: set[str] = set()
        """Short texts without secrets: runs, actions and conversations come again with each call."""

    def keyed_digest(self, canonical: str) -> str:
        """Give `hmac-sha256:<hex>` of a whole value in canonical form, by which bodies are compared."""
        return "hmac-sha256:" + self._hmac(b"body", canonical.encode()).hex()

    def vouch(self, text: str) -> str:
        """Give what later proves that `text` was written by one who has this key."""
        return self._hmac(b"vouch", text.encode("utf-8", "surrogatepass")).hex()

    def is_own_placeholder(self, value: Json) -> bool:
        """Tell whether `value` is a placeholder that a redactor with this key made."""
        if not is_placeholder(value):
            return False
        digits = value[-29:-1]
        return hmac.compare_digest(digits[20:], self._seal(digits[:20]))

    def has_key_of(self, other: "Redactor") -> bool:
        """Tell whether both work under one key, so that one secret has one placeholder."""
        return hmac.compare_digest(self._key, other._key)

    def redact(self, value: Json) -> Json:
        """Give `value` with every secret in it replaced, or `value` itself where there is none.

        Under a secret member name null, booleans and what is empty stay; all else is replaced whole.

        Raises:
            InvalidArgument: nested deeper than 100, or a secret that is no JSON value.
        """
        return self._value(value, _DEEPEST)

    def redact_text(self, text: str) -> str:
        """Give `text` with every secret in it replaced and the rest as it was.

        A text that is JSON is also read as such, since the name of a secret may stand far from it. Where that
        finds another one, the text is written in its canonical form.
        """
        if text in self._harmless:
            return text
        redacted = self._by_form(text)
        hidden = self._in_json(redacted)
        if hidden is not None:
            return self._by_form(hidden)
        if redacted is text and len(text) <= _CACHED_LENGTH:
            if len(self._harmless) >= _CACHED_TEXTS:
                self._harmless.clear()
            self._harmless.add(text)
        return redacted

    def _by_form(self, text: str) -> str:
        redacted = self._replaced(text, token_spans(text))
        redacted = self._replaced(redacted, url_password_spans(redacted))
        redacted = self._replaced(redacted, assignment_spans(redacted, self._names))
        for label, regex in self._patterns:
            redacted = self._replaced(redacted, _pattern_spans(redacted, label, regex))
        return redacted

    def _in_json(self, text: str) -> str | None:
        """Give JSON with the secrets in it replaced, None where it holds none, or the text is no JSON."""
        if text.lstrip()[:1] not in _JSON_BEGINNINGS:
            return None
        try:
            value = parse_json(text, field="text", max_depth=_DEEPEST)
            hidden = self.redact(value)
            return None if hidden is value else canonical_json(hidden, max_depth=_DEEPEST)
        except InvalidArgument:
            return None

    def _replaced(self, text: str, spans: Iterable[Span]) -> str:
        if spans == ():
            return text
        parts: list[str] = []
        done = 0
        for start, end, label in spans:
            parts += (text[done:start], self._placeholder(label, text[start:end]))
            done = end
        return "".join((*parts, text[done:])) if parts else text

    def _hmac(self, purpose: bytes, data: bytes) -> bytes:
        return hmac.digest(self._key, b"counterfoil.%s.v1\0%s" % (purpose, data), "sha256")

    def _seal(self, digits: str) -> str:
        return self._hmac(b"seal", digits.encode()).hex()[:8]

    def _placeholder(self, label: str, secret: Json) -> str:
        if type(secret) is str:
            data = b"text " + secret.encode("utf-8", "surrogatepass")
        else:
            data = b"json " + canonical_json(secret, max_depth=_DEEPEST).encode()
        digits = self._hmac(b"secret", data).hex()[:20]
        return f"[redacted:{label}:{digits}{self._seal(digits)}]"

    def _hide(self, label: str, secret: Json) -> Json:
        if secret is None or type(secret) is bool or secret in ("", [], {}) or is_placeholder(secret):
            return secret
        return self._placeholder(label, secret)

    def _member(self, name: str) -> tuple[str | None, str]:
        """Give the label of a member name, if it is a secret's, and the name with secrets in it replaced."""
        found = self._members.get(name)
        if found is None:
            found = self._names.label(name), self.redact_text(name)
            if len(name) <= _CACHED_LENGTH:
                if len(self._members) >= _CACHED_TEXTS:
                    self._members.clear()
                self._members[name] = found
        return found

    def _value(self, value: Json, depth_left: int) -> Json:
        kind = type(value)
        if kind is str:
            return self.redact_text(value)
        if kind is dict:
            if depth_left == 0:
                check_value(value, field="value", max_depth=0)
            return self._object(value, depth_left - 1)
        if kind is list:
            if depth_left == 0:
                check_value(value, field="value", max_depth=0)
            return self._array(value, depth_left - 1)
        return value

    def _object(self, value: dict[str, Json], depth_left: int) -> dict[str, Json]:
        changed = False
        redacted: dict[str, Json] = {}
        named = self._named_value(value) if "value" in value else None
        for name, member in value.items():
            if type(name) is not str:
                check_value(value, field="value")
            label, shown = self._member(name)
            if label is None and named is not None and name == "value":
                label = named
            new = self._value(member, depth_left) if label is None else self._hide(label, member)
            if new is not member or shown != name:
                changed = True
            while shown in redacted:
                shown += "'"
            redacted[shown] = new
        return redacted if changed else value

    def _named_value(self, value: Mapping[str, Json]) -> str | None:
        """Give the label of `{"name": "API_KEY", "value": …}`, the form of headers and environments."""
        for member in ("name", "key", "header"):
            name = value.get(member)
            if type(name) is str:
                return self._names.label(name)
        return None

    def _array(self, value: list[Json], depth_left: int) -> list[Json]:
        redacted: list[Json] = []
        # What follows `--token` in a command line, or the name in a pair that is a header, is the secret.
        flag = self._header(value)
        if flag is not None:
            hidden = self._hide(flag, value[1])
            return value if hidden is value[1] else [value[0], hidden]
        for item in value:
            if flag is not None and type(item) is str and not item.startswith("-"):
                redacted.append(self._hide(flag, item))
                flag = None
                continue
            redacted.append(self._value(item, depth_left))
            is_flag = type(item) is str and item.startswith("-") and "=" not in item and len(item) < 80
            flag = self._names.label(item) if is_flag else None
        same = all(new is old for new, old in zip(redacted, value, strict=True))
        return value if same else redacted

    def _header(self, value: list[Json]) -> str | None:
        """Give the label of `["X-Api-Key", …]`; a pair of plain words is no header."""
        if len(value) != 2 or type(value[0]) is not str or type(value[1]) is not str or len(value[0]) > 64:
            return None
        label = self._member(value[0])[0]
        return label if "-" in value[0].lstrip("-") or label in HEADER_LABELS else None


def _compiled(pattern: SecretPattern | str) -> tuple[str, re.Pattern[str]]:
    if isinstance(pattern, str):
        pattern = SecretPattern("pattern", pattern)
    try:
        return re.sub("[^a-z0-9]", "_", pattern.label.lower())[:40] or "pattern", re.compile(pattern.regex)
    except re.error as error:
        raise InvalidArgument(
            "redact.patterns", f"{pattern.regex!r}: {error}", accepted="regular expressions of Python's re"
        ) from None


def _pattern_spans(text: str, label: str, regex: re.Pattern[str]) -> Iterable[Span]:
    group: str | int = "secret" if "secret" in regex.groupindex else min(regex.groups, 1)
    kept = [(0, 0), *(found.span() for found in PLACEHOLDER.finditer(text)), (len(text), len(text))]
    for (_, start), (end, _) in pairwise(kept):
        for found in regex.finditer(text, start, end):
            if found[group]:
                yield (*found.span(group), label)
