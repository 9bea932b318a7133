"""JSON values: read strictly, checked, and written in the one canonical form that is hashed.

The canonical form, version 1: members sorted by the code points of their names; no white space; strings
with `"`, `\\` and control characters escaped and everything else as it is (no Unicode folding: strings that
differ in composed and decomposed letters differ); numbers by `json_numbers.number_text`; UTF-8. Locale,
hash seed, Python version and the sharing of objects have no part in it. A number with a fraction or an
exponent is read as a double; one without is an integer, exact at any size.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring as quote
from math import isfinite
from typing import Final

from counterfoil.store.domain.characters import describe, first_surrogate
from counterfoil.store.domain.differences import ABSENT, Difference, Differences, differences, pointer_token
from counterfoil.store.domain.json_numbers import Json, integer_from_text, integer_text, number_text
from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.domain.untrusted import quoted_whole
from counterfoil.store.errors import InvalidArgument

__all__ = [
    "ABSENT",
    "Difference",
    "Differences",
    "MAX_DEPTH",
    "args_digest",
    "canonical_json",
    "check_value",
    "differences",
    "digest",
    "fingerprint",
    "fingerprint_of",
    "parse_json",
    "plain_json",
]

MAX_DEPTH: Final = 32
"""How deep arrays and objects may be nested in what a caller gives (CONTRACT.md, section 2)."""

# Records of the journal wrap what callers give in a few levels of their own.
_WRAPPED_DEPTH: Final = MAX_DEPTH + 32

_FINGERPRINT_TAG: Final = "counterfoil.fingerprint.v1"

_ACCEPTED: Final = (
    "JSON with finite numbers, text without lone surrogates, each member once, nested at most 32 deep"
)
_PATH_SHOWN: Final = 200

# A whole string (also one that never ends) or one bracket; possessive, so that no text is read twice.
_STRING_OR_BRACKET: Final = lazy_pattern(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)


class _Refusal(Exception):
    """What is wrong with a value, and on the way up the path to it, innermost first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str | int] = []


def _invalid(refusal: _Refusal, field: str) -> InvalidArgument:
    path = "".join(map(pointer_token, reversed(refusal.path)))
    where = f" at {quoted_whole(path, limit=_PATH_SHOWN)}" if path else ""
    return InvalidArgument(field, refusal.problem + where, accepted=_ACCEPTED)


def _check_text(text: str, what: str) -> None:
    surrogate = first_surrogate(text)
    if surrogate is not None:
        raise _Refusal(f"the lone surrogate {describe(surrogate)} in {what}")


def _check(value: Json, depth_left: int) -> None:
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _check_text(value, "a string")
    elif kind is dict or kind is list:
        if depth_left == 0:
            raise _Refusal("nested too deep")
        step: str | int = 0
        try:
            if kind is list:
                for step, item in enumerate(value):  # noqa: B007
                    _check(item, depth_left - 1)
            else:
                for name, item in value.items():
                    if type(name) is not str:
                        step = "?"
                        raise _Refusal("a member name that is not a string")
                    step = name
                    if not name.isascii():
                        _check_text(name, "a member name")
                    _check(item, depth_left - 1)
        except _Refusal as refusal:
            refusal.path.append(step)
            raise
    elif kind is float:
        if not isfinite(value):
            raise _Refusal("a number that is not finite (NaN, Infinity or beyond a double)")
    elif value is not None and kind is not bool and kind is not int:
        raise _Refusal(f"a value of the type {kind.__name__}, which JSON does not have")


def check_value(value: Json, *, field: str, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a parsed value that is no JSON value of the accepted form.

    A container at the top is one deep. Only the plain Python types that a JSON parser gives are taken.

    Raises:
        InvalidArgument: with `field`, naming what is wrong and the path to it.
    """
    try:
        _check(value, max_depth)
    except _Refusal as refusal:
        raise _invalid(refusal, field) from None


def _check_text_depth(text: str, field: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidArgument(
                    field, f"nested too deep at character {found.start()}", accepted=_ACCEPTED
                )
        elif mark in "]}":
            depth -= 1


def parse_json(text: str | bytes, *, field: str = "json", max_depth: int = MAX_DEPTH) -> Json:
    """Read one JSON text (RFC 8259; bytes are UTF-8) and refuse what `check_value` refuses.

    Raises:
        InvalidArgument: also for text that is no JSON and for a member that is given twice.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidArgument(field, f"not UTF-8 at byte {error.start}", accepted=_ACCEPTED) from None
    _check_text_depth(text, field)
    doubled: list[str] = []

    def members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        taken = dict(pairs)
        if len(taken) < len(pairs):
            seen: set[str] = set()
            doubled.extend(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        return taken

    try:
        value = json.loads(text, object_pairs_hook=members, parse_int=integer_from_text)
    except json.JSONDecodeError as error:
        problem = f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise InvalidArgument(field, problem, accepted=_ACCEPTED) from None
    if doubled:
        name = quoted_whole(doubled[0], limit=_PATH_SHOWN)
        raise InvalidArgument(field, f'the member "{name}" is given twice', accepted=_ACCEPTED)
    check_value(value, field=field, max_depth=max_depth)
    return value


def _write(value: Json, put: Callable[[str], None], depth_left: int) -> None:
    kind = type(value)
    if kind is str:
        put(quote(value))
    elif kind is dict:
        if depth_left == 0:
            raise _Refusal("nested too deep")
        lead = "{"
        for name in sorted(value):
            put(lead)
            put(quote(name))
            put(":")
            _write(value[name], put, depth_left - 1)
            lead = ","
        put("}" if value else "{}")
    elif value is None:
        put("null")
    elif kind is bool:
        put("true" if value else "false")
    elif kind is int or (kind is float and isfinite(value)):
        put(number_text(value))
    elif kind is list:
        if depth_left == 0:
            raise _Refusal("nested too deep")
        lead = "["
        for item in value:
            put(lead)
            _write(item, put, depth_left - 1)
            lead = ","
        put("]" if value else "[]")
    else:
        raise _Refusal("no JSON value")


def canonical_json(value: Json, *, field: str = "value", max_depth: int = _WRAPPED_DEPTH) -> str:
    """Write the canonical form; equal texts are equal values and the other way round.

    Raises:
        InvalidArgument: as `check_value`, which it makes needless.
    """
    parts: list[str] = []
    try:
        _write(value, parts.append, max_depth)
    except (_Refusal, TypeError):  # TypeError: member names that are not all strings
        check_value(value, field=field, max_depth=max_depth)
        raise
    text = "".join(parts)
    if first_surrogate(text) is not None:
        check_value(value, field=field, max_depth=max_depth)
    return text


_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def plain_json(value: Json, *, is_checked: bool = False) -> str:
    """Write `value` as JSON: members in their order, doubles as they are, integers exact at any size.

    Raises:
        InvalidArgument: as `check_value`, unless `is_checked`: that has taken the value before.
    """
    if not is_checked:
        check_value(value, field="value", max_depth=_WRAPPED_DEPTH)
    try:
        return _COMPACT.encode(value)
    except ValueError:  # an integer too long for str() is the only cause left
        return _with_long_integers(value)


def _with_long_integers(value: Json) -> str:
    if type(value) is dict:
        return (
            "{" + ",".join(f"{quote(name)}:{_with_long_integers(item)}" for name, item in value.items()) + "}"
        )
    if type(value) is list:
        return "[" + ",".join(map(_with_long_integers, value)) + "]"
    if type(value) is int:
        return integer_text(value)
    return json.dumps(value, ensure_ascii=False)


def digest(content: str | bytes) -> str:
    """Give `sha256:<hex>` of bytes, or of a text's UTF-8."""
    data = content.encode() if isinstance(content, str) else content
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def fingerprint(action: str, target: str | None, args: Mapping[str, Json] | None) -> str:
    """Give `v1:sha256:<hex>` of what the effect is.

    An empty target counts as none, and so do empty args. `args` are those after redaction.

    Raises:
        InvalidArgument: for args that `check_value` refuses.
    """
    args_text = canonical_json(dict(args), field="args", max_depth=MAX_DEPTH) if args else None
    return fingerprint_of(action, target, args_text)


def fingerprint_of(action: str, target: str | None, args_text: str | None) -> str:
    """Give the fingerprint where the canonical form of the args is at hand; None stands for none."""
    action_text = canonical_json(action, field="action")
    target_text = canonical_json(target or None, field="target")
    return "v1:" + digest(f'["{_FINGERPRINT_TAG}",{action_text},{target_text},{args_text or "null"}]')


def args_digest(args: Mapping[str, Json] | None) -> str:
    """Give `sha256:<hex>` of the canonical form of `args`; None counts as an empty object.

    Raises:
        InvalidArgument: for args that `check_value` refuses.
    """
    return digest(canonical_json(dict(args), field="args", max_depth=MAX_DEPTH) if args else "{}")
