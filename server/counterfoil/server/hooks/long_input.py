"""Bounds what of a tool's input is searched for secrets and compared: no body of the journal holds more.

A hook reads what a client sends, and that may be megabytes: to look for secrets in one takes about a second.
"""

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["MOST_CHARACTERS", "bounded_input"]

MOST_CHARACTERS = 256 * 1024
"""As JSON: what the journal takes of the largest body that it has, a payload."""

_written = json.JSONEncoder(sort_keys=True).encode
"""Writes a value in one form: neither the order of members nor what the client escaped counts."""


def bounded_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """Give the arguments of a tool, in which what is too long stands as a secret would.

    Each that has more characters than `MOST_CHARACTERS` does, and all of them where they have more together.
    A member of a secret's name is kept by its keyed digest alone: equal ones are known again, nothing of one
    can be guessed, and what stands in it is not searched for.
    """
    whole = _written(given)
    if len(whole) <= MOST_CHARACTERS:
        return dict(given)
    written = {name: _written(value) for name, value in given.items()}
    long = {name for name, text in written.items() if len(text) > MOST_CHARACTERS}
    if sum(len(text) for name, text in written.items() if name not in long) > MOST_CHARACTERS:
        return _stand_in(whole)
    return {name: _stand_in(written[name]) if name in long else value for name, value in given.items()}


def _stand_in(text: str) -> dict[str, Any]:
    return {"characters": len(text), "password": text}
