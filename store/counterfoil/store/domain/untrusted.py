r"""Show text that came from outside: bounded, with every character that could act instead of print escaped.

Control characters (ANSI escapes begin with one), bidirectional and zero-width characters, line separators,
tags and lone surrogates become visible escapes such as `\u001b`. A backslash that was already there stays
single: the escaped text is for reading, not for turning back, and escaping twice changes nothing.
"""

import re
from typing import Final

from counterfoil.store.domain.characters import INVISIBLE
from counterfoil.store.domain.json_numbers import Json, integer_text
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["escape_untrusted", "quoted_whole", "safe_value"]

_ACTS = lazy_pattern(f"[\\x00-\\x1f\\x7f-\\x9f\u2028\u2029{INVISIBLE}\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# A note about what was cut needs this much room; below it a bare ellipsis has to do.
_NOTE_ROOM: Final = 40

_CUT_MEMBER: Final = "…"

# Fewer than 640 digits: the lowest limit that a Python may set on writing integers.
_LONG_INTEGER_BITS: Final = 2_000


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x1_0000 else f"\\U{code:08x}"


def escape_untrusted(text: object, *, limit: int) -> str:
    """Escape `text` and cut it to at most `limit` characters, with a note of how many were left out.

    What a damaged row holds in the place of a text is shown as one.
    """
    if not isinstance(text, str):
        text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    if len(text) <= limit:
        if text.isascii() and text.isprintable():
            return text
        escaped = _ACTS.sub(_escape, text)
        if len(escaped) <= limit:
            return escaped
    note = f"… ({len(text)} characters in all)"
    if limit < _NOTE_ROOM:
        note = "…"[:limit]
    room = limit - len(note)
    kept: list[str] = []
    for character in text[: max(room, 0)]:
        shown = _ACTS.sub(_escape, character)
        room -= len(shown)
        if room < 0:
            break
        kept.append(shown)
    return "".join(kept) + note


def quoted_whole(text: str, *, limit: int) -> str:
    """Escape `text` for a message that quotes it: whole, or not at all where it is longer than `limit`.

    Secrets in a message are replaced by whoever tells it, and half of one would not be known for a secret.
    """
    return escape_untrusted(text, limit=6 * limit) if len(text) <= limit else f"({len(text)} characters)"


def safe_value(value: Json, *, limit: int = 1_000, items: int = 100, depth: int = 8) -> Json:
    """Escape every string and member name of a JSON value.

    Strings are cut to `limit` characters, arrays and objects to `items` entries, nesting to `depth`. A cut
    array ends in a string, a cut object in a member `…`, that says how many entries were left out. Names
    that become equal are numbered, so that none hides another. An integer too long for every JSON writer
    is shown as text.
    """
    if type(value) is str:
        return escape_untrusted(value, limit=limit)
    if type(value) is dict:
        if depth <= 0:
            return f"… (an object of {len(value)} members)" if value else {}
        shown: dict[str, Json] = {}
        for count, (name, member) in enumerate(value.items()):
            if count == items:
                shown[_free_name(_CUT_MEMBER, shown)] = f"{len(value) - items} more members"
                break
            safe_name = _free_name(escape_untrusted(name, limit=limit), shown)
            shown[safe_name] = safe_value(member, limit=limit, items=items, depth=depth - 1)
        return shown
    if type(value) is list:
        if depth <= 0:
            return f"… (an array of {len(value)} items)" if value else []
        kept = [safe_value(item, limit=limit, items=items, depth=depth - 1) for item in value[:items]]
        if len(value) > items:
            kept.append(f"… ({len(value) - items} more items)")
        return kept
    if type(value) is int and value.bit_length() > _LONG_INTEGER_BITS:
        return escape_untrusted(integer_text(value), limit=limit)
    return value


def _free_name(name: str, taken: dict[str, Json]) -> str:
    number = 2
    free = name
    while free in taken:
        free = f"{name} #{number}"
        number += 1
    return free
