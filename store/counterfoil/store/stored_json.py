"""The JSON that rows and events are stored in: written in one form, and read strictly.

A server writes it with orjson, a process of one call with the standard library: loading orjson, and what it
loads in turn, takes as long as writing a thousand such texts. Both write the same bytes but for doubles below
0.0001, which nothing compares as text.
"""

import json
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import Any

from msgspec.json import Decoder

__all__ = ["from_json", "quoted", "to_json", "write_quickly"]

_quick: Callable[[Any], str] | None = None

from_json = Decoder().decode
"""Read a text that `to_json` wrote; raises ValueError for what is no JSON, TypeError for what is no text."""


def to_json(value: Any) -> str:
    """Write plain JSON in the one compact form in which the journal stores it: members sorted, no spaces.

    A command writes some twelve such texts.

    Raises:
        TypeError: it is no plain JSON.
    """
    if _quick is not None:
        try:
            return _quick(value)
        except TypeError:
            pass  # The standard library writes integers of more than 64 bits, and refuses what is no JSON.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def quoted(text: str) -> str:
    """Write a text as `json.dumps` does by itself: whatever is no printable ASCII as an escape.

    The hash of every event covers its data so, often a thousand characters, which orjson writes in a tenth of
    the time. What it would leave as it is, characters beyond ASCII and DEL, is not for it.
    """
    if _quick is not None and text.isascii() and "\x7f" not in text:
        return _quick(text)
    return encode_basestring_ascii(text)


def write_quickly() -> None:
    """Load orjson and write with it from now on: for a process that lasts."""
    global _quick
    import orjson

    options = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
    dumps = orjson.dumps

    def quick(value: Any) -> str:
        return dumps(value, option=options).decode()

    _quick = quick
