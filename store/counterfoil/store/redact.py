"""Replace what looks like a secret by a placeholder that tells equal secrets apart from others, and no more.

`[redacted:<label>:<28 hex>]`: the first 20 hex digits are of an HMAC-SHA256 of the secret under the
journal's key, the last 8 of one over those, by which a journal knows its own placeholders. A placeholder
stands for its value and is left as it is; text that merely looks like one carries nothing and is left too.
Work is linear in the text, whatever the text is.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Final

from counterfoil.store.domain.canonical import canonical_json, check_value
from counterfoil.store.domain.commands import Json
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.secret_forms import (
    DEFAULT_NAMES,
    INNOCENT_NAMES,
    JOINED_NAMES,
    JOINED_TAIL,
    QUERY_NAMES,
    TOKEN_BEGINNINGS,
    TOKEN_FORMS,
    WEAK_NAMES,
    SecretPattern,
    name_words,
)

__all__ = ["DEFAULT_NAMES", "Redactor", "SecretPattern", "is_placeholder"]

_PLACEHOLDER_FORM: Final = r"\[redacted:[a-z0-9_]{1,40}:[0-9a-f]{28}\]"
_PLACEHOLDER: Final = re.compile(_PLACEHOLDER_FORM)
_TOKEN_BEGINNING: Final = re.compile(rf"\[redacted:|{TOKEN_BEGINNINGS}")
_TOKEN: Final = re.compile(f"(?P<placeholder>{_PLACEHOLDER_FORM})|{TOKEN_FORMS}")

_URL_PASSWORD: Final = re.compile(rf"(?<=://)((?:{_PLACEHOLDER_FORM}|[^/?#\s:@])*+:)([^/?#\s]+)@")

# A name and what stands between it and its value: `name=`, `name: `, `"name": "`, `user[name]=`, `--name `.
_NAME: Final = re.compile(
    rf"(?P<placeholder>{_PLACEHOLDER_FORM})"
    r"|(?<![A-Za-z0-9_])(?P<flag>--?)?(?P<name>(?<![A-Za-z0-9_])[A-Za-z][A-Za-z0-9_-]{1,63})"
    r"(?:(?P<quoted>\\?[\"']\s{0,3}[:=]\s{0,3})"
    r"|\]?\s{0,3}(?P<equals>=(?![=>])\s{0,3})"
    r"|\s{0,2}(?P<colon>:(?![:/])[ \t]{0,3})"
    r"|(?(flag)(?P<space>[ \t]{1,3})(?!-)|(?!)))"
)
_QUOTED_VALUE: Final = re.compile(
    r"\\\"(?P<escaped>(?:(?!\\\").)+)"
    r"|\"(?P<double>(?:[^\"\\]|\\.)+)"
    r"|'(?P<single>(?:[^'\\]|\\.)+)",
    re.DOTALL,
)
_WORD_BEGINNING: Final = re.compile(r"[^\s&;\"'<>\\]{1,80}")
_BARE_VALUE: Final = re.compile(r"[^\s&;\"'<>\\]+")
_LINE_VALUE: Final = re.compile(r"[^\r\n\"'\\]+")
_SCHEME_WORD: Final = re.compile(
    r"(?:Bearer|Basic|Token|Digest|ApiKey|Negotiate|AWS4-HMAC-SHA256)[ \t]+", re.IGNORECASE
)
_NOT_SECRET: Final = frozenset({"null", "none", "true", "false", "undefined", "nil"})

_DEEPEST: Final = 100
_CACHED_NAMES: Final = 2_048
_CACHED_NAME_LENGTH: Final = 200
_LEAST_KEY_BYTES: Final = 16


def is_placeholder(value: Json) -> bool:
    """Tell whether `value` is a text of the form of a placeholder, of this journal or another."""
    return type(value) is str and _PLACEHOLDER.fullmatch(value) is not None


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
        self._names = frozenset(filter(None, map(name_words, (*names, *extra_names))))
        self._extra = frozenset(filter(None, map(name_words, extra_names)))
        self._longest = max((name.count("_") + 1 for name in self._names), default=0)
        self._patterns = tuple(map(_compiled, patterns))
        self._members: dict[str, tuple[str | None, str]] = {}

    def keyed_digest(self, value: Json) -> str:
        """Give `hmac-sha256:<hex>` of a whole value as it came, by which bodies are compared."""
        return "hmac-sha256:" + self._hmac(b"body", canonical_json(value).encode()).hex()

    def is_own_placeholder(self, value: Json) -> bool:
        """Tell whether `value` is a placeholder that a redactor with this key made."""
        if not is_placeholder(value):
            return False
        digits = value[-29:-1]
        return hmac.compare_digest(digits[20:], self._seal(digits[:20]))

    def redact(self, value: Json) -> Json:
        """Give `value` with every secret in it replaced, or `value` itself where there is none.

        Under a secret member name null, booleans and what is empty stay; all else is replaced whole.

        Raises:
            InvalidArgument: nested deeper than 100, or a secret that is no JSON value.
        """
        return self._value(value, _DEEPEST)

    def redact_text(self, text: str) -> str:
        """Give `text` with every secret in it replaced and the rest as it was."""
        if len(text) < 4:
            return text
        redacted = self._tokens(text) if _TOKEN_BEGINNING.search(text) else text
        if "://" in redacted and "@" in redacted:
            redacted = _URL_PASSWORD.sub(self._url_password, redacted)
        if "=" in redacted or ":" in redacted or "--" in redacted:
            redacted = self._assignments(redacted)
        for label, regex in self._patterns:
            redacted = self._pattern(redacted, label, regex)
        return redacted

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

    def _label(self, name: str, *, in_query: bool = False) -> str | None:
        """Give the known name that `name` ends in, or None where it is not that of a secret."""
        words = name_words(name[-_CACHED_NAME_LENGTH:])
        if in_query and words in QUERY_NAMES:
            return "signature"
        parts = words.split("_")
        for count in range(min(self._longest, len(parts)), 0, -1):
            tail = "_".join(parts[-count:])
            if tail in self._names:
                label = tail
                break
        else:
            joined = JOINED_TAIL.search(parts[-1])
            if joined is None and parts[-1] not in JOINED_NAMES:
                return None
            return joined[0] if joined else parts[-1]
        if label not in self._extra and any(
            "_".join(parts[-count:]) in INNOCENT_NAMES for count in (2, 3) if count <= len(parts)
        ):
            return None
        return label[:40] if label.isascii() else "secret"

    def _member(self, name: str) -> tuple[str | None, str]:
        """Give the label of a member name, if it is a secret's, and the name with secrets in it replaced."""
        found = self._members.get(name)
        if found is None:
            found = self._label(name), self.redact_text(name)
            if len(name) <= _CACHED_NAME_LENGTH:
                if len(self._members) >= _CACHED_NAMES:
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
                return self._label(name)
        return None

    def _array(self, value: list[Json], depth_left: int) -> list[Json]:
        redacted: list[Json] = []
        flag: str | None = None
        for item in value:
            if flag is not None and type(item) is str and not item.startswith("-"):
                redacted.append(self._hide(flag, item))
                flag = None
                continue
            redacted.append(self._value(item, depth_left))
            is_flag = type(item) is str and item.startswith("-") and "=" not in item and len(item) < 80
            flag = self._label(item) if is_flag else None
        same = all(new is old for new, old in zip(redacted, value, strict=True))
        return value if same else redacted

    def _tokens(self, text: str) -> str:
        parts: list[str] = []
        done = at = 0
        while beginning := _TOKEN_BEGINNING.search(text, at):
            at = beginning.start()
            found = _TOKEN.match(text, at)
            if found is None:
                at += 1
                continue
            parts += (text[done:at], self._token(found))
            done = at = found.end()
        return "".join((*parts, text[done:])) if parts else text

    def _token(self, found: re.Match[str]) -> str:
        label = found.lastgroup or ""
        whole = found[0]
        if label == "placeholder":
            return whole
        inner = f"{label}_s"
        start, end = found.span(inner) if inner in _TOKEN.groupindex else found.span()
        secret = found.string[start:end]
        stripped = secret if label == "private_key" else secret.rstrip(".")
        if not _plausible(label, stripped):
            return whole
        before = found.string[found.start() : start]
        return before + self._placeholder(label, stripped) + secret[len(stripped) :]

    def _url_password(self, found: re.Match[str]) -> str:
        secret = found[2]
        return found[1] + str(self._hide("url_password", secret)) + "@"

    def _assignments(self, text: str) -> str:
        parts: list[str] = []
        done = at = 0
        while found := _NAME.search(text, at):
            at = found.end()
            if found["placeholder"]:
                continue
            before = text[found.start() - 1 : found.start()]
            label = self._label(found["name"], in_query=before in {"?", "&", ";"} and bool(found["equals"]))
            if label is None:
                continue
            span = _value_span(text, found, label)
            if span is None:
                continue
            start, end = span
            parts += (text[done:start], self._placeholder(label, text[start:end]))
            done = at = end
        return "".join((*parts, text[done:])) if parts else text

    def _pattern(self, text: str, label: str, regex: re.Pattern[str]) -> str:
        def hide(found: re.Match[str]) -> str:
            group: str | int = "secret" if "secret" in regex.groupindex else min(regex.groups, 1)
            secret = found[group]
            if not secret:
                return found[0]
            start, end = found.span(group)
            whole = found.string
            return whole[found.start() : start] + self._placeholder(label, secret) + whole[end : found.end()]

        parts: list[str] = []
        done = 0
        for kept in _PLACEHOLDER.finditer(text):
            parts += (regex.sub(hide, text[done : kept.start()]), kept[0])
            done = kept.end()
        parts.append(regex.sub(hide, text[done:]))
        return "".join(parts)


def _compiled(pattern: SecretPattern | str) -> tuple[str, re.Pattern[str]]:
    if isinstance(pattern, str):
        pattern = SecretPattern("pattern", pattern)
    try:
        return re.sub("[^a-z0-9]", "_", pattern.label.lower())[:40] or "pattern", re.compile(pattern.regex)
    except re.error as error:
        raise InvalidArgument(
            "redact.patterns", f"{pattern.regex!r}: {error}", accepted="regular expressions of Python's re"
        ) from None


def _plausible(label: str, secret: str) -> bool:
    """Tell whether a text of the form of a token can be one, for the forms that words also have."""
    if label == "basic":
        try:
            return b":" in base64.b64decode(secret + "=" * (-len(secret) % 4), altchars=b"-_")
        except (binascii.Error, ValueError):
            return False
    if label == "jwt":
        return secret.count(".") >= 2
    if label == "bearer":
        return len(secret) >= 20 or not secret.isalpha()
    if label == "api_key":
        return any(map(str.isdecimal, secret))
    return True


def _value_span(text: str, found: re.Match[str], label: str) -> tuple[int, int] | None:
    """Give where the secret after a secret's name begins and ends, or None where there is none."""
    at = found.end()
    quoted = _QUOTED_VALUE.match(text, at)
    if quoted:
        start, end = quoted.span(quoted.lastgroup or 0)
    elif found["quoted"]:
        return None  # `"token": 5` or `"token": {`: members of JSON text that are no strings
    else:
        start = end = at
    if label == "authorization":
        scheme = _SCHEME_WORD.match(text, start)
        start = scheme.end() if scheme else start
    if _PLACEHOLDER.match(text, start):
        return None
    if not quoted:
        form = _BARE_VALUE
        if found["colon"] and label in {"cookie", "set_cookie"}:
            form = _LINE_VALUE
        elif found["colon"] and label in WEAK_NAMES and not _looks_drawn(text, start):
            return None
        bare = form.match(text, start)
        if bare is None:
            return None
        end = start + len(bare[0].rstrip(" \t,.)]}"))
    secret = text[start:end]
    if not secret or secret.lower() in _NOT_SECRET:
        return None
    return start, end


def _looks_drawn(text: str, at: int) -> bool:
    """Tell whether the word at `at` has figures and letters and some length, judged by its beginning."""
    word = _WORD_BEGINNING.match(text, at)
    if word is None or len(word[0]) < 8:
        return False
    return any(map(str.isdecimal, word[0])) and any(map(str.isalpha, word[0]))
