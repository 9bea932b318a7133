"""Find where in a text secrets stand: by their form, in URLs, and after the names of secrets.

Each finder gives spans in order, none inside a placeholder, and reads each character a bounded number of
times whatever the text is. Most texts are short and hold nothing that a secret begins with: each finder sees
that first, and then gives no spans at all.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.secret_forms import COMMON_BEGINNINGS, TOKEN_BEGINNINGS, TOKEN_FORMS, is_plausible
from counterfoil.store.secret_names import WEAK_NAMES, SecretNames

__all__ = [
    "HEADER_LABELS",
    "PLACEHOLDER",
    "Span",
    "assignment_spans",
    "is_placeholder",
    "token_spans",
    "url_password_spans",
]

Span = tuple[int, int, str]
"""Where a secret begins and ends, and its label."""

_PLACEHOLDER_FORM: Final = r"\[redacted:[a-z0-9_]{1,40}:[0-9a-f]{28}\]"
PLACEHOLDER: Final = lazy_pattern(_PLACEHOLDER_FORM)
_TOKEN_BEGINNING: Final = lazy_pattern(TOKEN_BEGINNINGS)
_TOKEN: Final = lazy_pattern(f"(?P<placeholder>{_PLACEHOLDER_FORM})|{TOKEN_FORMS}")

_URL_PASSWORD: Final = lazy_pattern(rf"(?<=://)(?:{_PLACEHOLDER_FORM}|[^/?#\s:@])*+:([^/?#\s]+)@")

# A name and what stands between it and its value: `name=`, `name: `, `"name": "`, `user[name]=`, `--name `;
# in a list `"--name", "` and `"X-Name", "`.
_NAME: Final = lazy_pattern(
    rf"(?P<placeholder>{_PLACEHOLDER_FORM})"
    r"|(?P<flag>(?<![A-Za-z0-9_])--?)?(?P<name>(?:(?<![A-Za-z0-9_])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))[A-Za-z][A-Za-z0-9_-]{1,63})"
    r"(?:(?P<quoted>\\?[\"']\s{0,3}[:=]\s{0,3})"
    r"|(?P<listed>\\?[\"']\s{0,3},\s{0,3}(?=\\?[\"'](?!-)))"
    r"|\]?\s{0,3}(?P<equals>=(?![=>])\s{0,3}|%3[Dd])"
    r"|\s{0,2}(?P<colon>:(?![:/])[ \t]{0,3})"
    r"|(?(flag)(?P<space>[ \t]{1,3})(?!-)|(?!)))"
)
_ASSIGNMENT: Final = lazy_pattern(r"[=:]|%3[Dd]|-[^-\s]*[ \t]|[\"']\s{0,3},")
"""One of these stands in whatever assigns; most texts have none."""
_QUOTED_VALUE: Final = lazy_pattern(
    r"\\\"(?P<escaped>(?:(?!\\\").)+)"
    r"|\"(?P<double>(?:[^\"\\]|\\.)+)"
    r"|'(?P<single>(?:[^'\\]|\\.)+)",
    re.DOTALL,
)
_WORD_BEGINNING: Final = lazy_pattern(r"[^\s&;\"'<>\\]{1,80}")
_BARE_VALUE: Final = lazy_pattern(r"[^\s&;\"'<>\\]+")
_LINE_VALUE: Final = lazy_pattern(r"[^\r\n\"'\\]+")
_SCHEME_WORD: Final = lazy_pattern(
    r"(?:Bearer|Basic|Token|Digest|ApiKey|Negotiate|AWS4-HMAC-SHA256)[ \t]+", re.IGNORECASE
)
_NOT_SECRET: Final = frozenset({"null", "none", "true", "false", "undefined", "nil"})

HEADER_LABELS: Final = frozenset({"authorization", "cookie", "set_cookie"})
"""Labels of headers whose whole value is secret."""


def is_placeholder(value: Json) -> bool:
    """Tell whether `value` is a text of the form of a placeholder, of this journal or another."""
    return type(value) is str and PLACEHOLDER.fullmatch(value) is not None


# The start of a word is also that after a percent-encoded character.
_INSIDE_WORD: Final = lazy_pattern(r"(?<!%[0-9A-Fa-f])[A-Za-z0-9]\Z")


def token_spans(text: str) -> Iterable[Span]:
    """Find tokens and keys by their form."""
    return _token_spans(text) if _TOKEN_BEGINNING.search(text) else ()


def _token_spans(text: str) -> Iterator[Span]:
    at = last_end = 0
    # A run of characters that was read and found to be no token is not read again for the same beginning.
    barren: dict[str, int] = {}
    while beginning := _TOKEN_BEGINNING.search(text, at):
        at = beginning.start()
        literal = beginning[0]
        is_inside_word = (
            literal in COMMON_BEGINNINGS and at != last_end and _INSIDE_WORD.search(text, at - 3, at)
        )
        found = None if is_inside_word or at < barren.get(literal, 0) else _TOKEN.match(text, at)
        if found is None:
            at += 1
            continue
        label = found.lastgroup or ""
        if label == "placeholder":
            at = found.end()
            continue
        start, end = _secret_span(found, label)
        if is_plausible(label, text[start:end]):
            yield start, end, label
            at = last_end = end
        else:
            barren[literal] = end
            at = beginning.end()


def _secret_span(found: re.Match[str], label: str) -> tuple[int, int]:
    """Give where the secret part of a token begins and ends; a full stop after it is the sentence's."""
    inner = f"{label}_s"
    start, end = found.span(inner) if inner in _TOKEN.groupindex else found.span()
    if label != "private_key":
        while found.string[end - 1] == ".":
            end -= 1
    return start, end


def url_password_spans(text: str) -> Iterable[Span]:
    """Find passwords in `scheme://user:password@host`."""
    return _url_password_spans(text) if "://" in text and "@" in text else ()


def _url_password_spans(text: str) -> Iterator[Span]:
    for found in _URL_PASSWORD.finditer(text):
        if not is_placeholder(found[1]):
            yield (*found.span(1), "url_password")


def assignment_spans(text: str, names: SecretNames) -> Iterable[Span]:
    """Find what follows the name of a secret: in queries, headers, environments, flags and JSON text."""
    return _assignment_spans(text, names) if _ASSIGNMENT.search(text) else ()


def _assignment_spans(text: str, names: SecretNames) -> Iterator[Span]:
    at = 0
    while found := _NAME.search(text, at):
        at = found.end()
        if found["placeholder"]:
            continue
        in_query = bool(found["equals"]) and text[found.start() - 1 : found.start()] in {"?", "&", ";"}
        label = names.label(found["name"], in_query=in_query)
        if found["listed"] and not found["flag"] and "-" not in found["name"] and label not in HEADER_LABELS:
            continue  # two plain words of a list
        span = None if label is None else _value_span(text, found, label)
        if label is not None and span is not None:
            yield (*span, label)
            at = span[1]


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
    if PLACEHOLDER.match(text, start):
        return None
    if not quoted:
        form = _BARE_VALUE
        if found["colon"] and label != "authorization" and label in HEADER_LABELS:
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
