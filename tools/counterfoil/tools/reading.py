"""Reads a whole message strictly: what two readers could take differently is refused, never guessed.

RFC 8259 leaves duplicate members, lone surrogates and the size of numbers open; here each is refused
with its reason, since a fingerprint over them would depend on the reader. A message wraps bodies in levels
of its own and may be no JSON at all, which is told apart here; a body alone is read by `parse_json`.
"""

import json
import math
import re
from typing import Any, NoReturn

from counterfoil.store.domain.json_numbers import integer_from_text

__all__ = [
    "DEEPEST_TEXT",
    "LONGEST_INTEGER",
    "LONGEST_PLAIN_INTEGER",
    "Unreadable",
    "depth_of",
    "holds_long_integer",
    "read_json",
]

DEEPEST_TEXT = 128
"""Nesting of one message: far over what a body may have (32), far under what exhausts a stack."""

LONGEST_INTEGER = 64 * 1024
"""Digits; as much as args may hold. Reading it takes some 15 ms."""

LONGEST_PLAIN_INTEGER = 4_300
"""Digits; what Python's own readers and writers take, and with them the SDK's."""

_MOST_LONG_DIGITS = 512 * 1024
"""Digits in all long runs of one message; bounds what a hostile message costs to a fraction of a second."""

_FIRST_LONG = 10**LONGEST_PLAIN_INTEGER
_PLAIN_BITS = _FIRST_LONG.bit_length() - 1

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_LONG_DIGITS = re.compile("[0-9]{4000,}")


class Unreadable(ValueError):
    """Text that is not taken as JSON. `is_syntax` is true where it is no JSON at all."""

    def __init__(self, problem: str, *, is_syntax: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.is_syntax = is_syntax


def read_json(text: str | bytes) -> Any:
    """Give the one value that `text` denotes.

    Integers are exact; other numbers are finite doubles.

    Raises:
        Unreadable: not UTF-8, not JSON, duplicate members, NaN or an infinity, a number out of range,
            a lone surrogate, or nesting over DEEPEST_TEXT.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise Unreadable("it is not valid UTF-8") from None
    if len(text) > LONGEST_INTEGER and sum(map(len, _LONG_DIGITS.findall(text))) > _MOST_LONG_DIGITS:
        raise Unreadable("it holds too many digits")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {DEEPEST_TEXT}") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"it is not JSON: {error.msg} at character {error.pos}", is_syntax=True) from None
    if text.count("[") + text.count("{") > DEEPEST_TEXT and depth_of(value, DEEPEST_TEXT) > DEEPEST_TEXT:
        raise Unreadable(f"it is nested deeper than {DEEPEST_TEXT}")
    if (not text.isascii() and _LONE_SURROGATE.search(text)) or (
        _SURROGATE_ESCAPE.search(text) and _holds_surrogate(value)
    ):
        raise Unreadable("it holds a lone surrogate (half of a character)")
    return value


def depth_of(value: Any, limit: int) -> int:
    """Give the nesting of `value` (a scalar has 0), or `limit` + 1 as soon as it is deeper."""
    deepest = 0
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if isinstance(item, dict):
            children: Any = item.values()
        elif isinstance(item, list):
            children = item
        else:
            continue
        depth += 1
        if depth > limit:
            return depth
        deepest = max(deepest, depth)
        pending.extend((child, depth) for child in children)
    return deepest


def holds_long_integer(value: Any) -> bool:
    """Tell whether an integer of more than LONGEST_PLAIN_INTEGER digits stands anywhere in `value`."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, int):
            if item.bit_length() > _PLAIN_BITS and abs(item) >= _FIRST_LONG:
                return True
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return False


def _holds_surrogate(value: Any) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if _LONE_SURROGATE.search(item):
                return True
        elif isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return False


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Unreadable("one of its objects has the same member twice")
    return members


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_INTEGER:
        raise Unreadable(f"it holds an integer of more than {LONGEST_INTEGER} digits")
    return integer_from_text(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise Unreadable("it holds a number out of range")
    return number


def _no_number(name: str) -> NoReturn:
    raise Unreadable(f"it holds {name.lstrip('-')}, which is no JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_float=_number, parse_constant=_no_number
)
