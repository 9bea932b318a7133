"""Bounds an answer and writes it as text: the same members, the verb first, in compact JSON.

Clients show a model either the text or the structured content, so each says everything and each stays under
10,000 characters (real clients cut at 12,000). Whatever is cut here is named in `shortened` with its count
and the way to the rest, and sets `cut`: a cut answer never reads as complete.
"""

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.json_numbers import integer_text

__all__ = ["LONGEST_ANSWER", "bounded", "length", "sendable", "told", "written"]

LONGEST_ANSWER = 9_500
"""Characters of compact JSON; leaves room under 10,000 for what names the cuts."""

_FIRST = ("next", "reason", "guidance")
_NEVER_CUT = frozenset(
    {
        "as_of",
        "next",
        "reason",
        "guidance",
        "operation",
        "run",
        "key",
        "idempotency_key",
        "next_cursor",
        "shortened",
    }
)
_BODIES = frozenset({"args", "payload", "checkpoint"})
"""Members that are recorded bodies, to be sent or gone on with as they are: shown whole, or not at all."""
_BODY_NOT_SHOWN = frozenset({"cut", "characters", "digest", "beginning", "whole"})
"""The members of what stands for a body that is too long for any answer."""
_SHORTEST_TEXT = 400
"""Texts up to this length are left alone: cutting them saves little and may cost their sense."""
_LONG_TEXT = 1_500
"""Texts over this length are cut before any list is."""
_LONG_INTEGER_BITS = 2_000
"""About 600 digits, the least that Python always writes."""
_MARK = "… [cut]"
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def written(value: Any) -> str:
    """Give `value` as compact JSON."""
    return _COMPACT.encode(value)


def sendable(answer: dict[str, Any]) -> dict[str, Any]:
    """Give `answer` in a form that any JSON writer takes: what is durable is never lost to how it is told.

    Integers of thousands of digits become text, half characters a mark, numbers that are not finite null.
    """
    return _sendable(answer)[0]


def _sendable(answer: dict[str, Any]) -> tuple[dict[str, Any], str]:
    try:
        text = written(answer)
        text.encode()
    except ValueError:
        answer = {name: _plain(value) for name, value in answer.items()}
        text = written(answer)
    return answer, text


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and value.bit_length() > _LONG_INTEGER_BITS:
        return integer_text(value)
    return value


def length(value: Any) -> int:
    """Count the characters of `value` as compact JSON."""
    return len(written(value))


def bounded(answer: dict[str, Any], *, way: str) -> dict[str, Any]:
    """Give `answer` with its verb first and at most about LONGEST_ANSWER characters long.

    `way` says how a caller gets what was cut.
    """
    return told(answer, way=way)[0]


def told(answer: dict[str, Any], *, way: str) -> tuple[dict[str, Any], str]:
    """Give `answer` as `bounded` does, and as text: what was written to measure it is what is sent."""
    ordered = {name: answer[name] for name in _FIRST if name in answer}
    ordered.update((name, value) for name, value in answer.items() if name not in ordered)
    ordered, text = _sendable(ordered)
    if len(text) <= LONGEST_ANSWER:
        return ordered, text
    ordered = copy.deepcopy(ordered)
    shortened: dict[str, dict[str, Any]] = {}
    while (excess := length(ordered) - LONGEST_ANSWER) > 0:
        largest = max(_cuttable(ordered, "", way), default=None, key=lambda found: (found.rank, found.size))
        if largest is None:
            break
        length_of_it = largest.size if largest.way is not None else len(largest.value)
        whole = shortened.get(largest.path, {}).get("of", length_of_it)
        shown = largest.cut(excess, whole)
        shortened[largest.path] = {"path": largest.path, "shown": shown, "of": whole, "rest": way}
        ordered["cut"] = True
        if ordered.get("complete") is True:
            ordered["complete"] = False
        ordered["shortened"] = list(shortened.values())
    return ordered, written(ordered)


class _Cuttable(Struct, frozen=True, kw_only=True):
    """A text, list or object inside an answer that may be cut. What has the highest rank is cut first.

    `way`: it is a body, which half shown would be taken for the whole: this is said in its place.
    """

    holder: Any
    name: Any
    path: str
    rank: int
    size: int
    way: str | None = None

    @property
    def value(self) -> Any:
        return self.holder[self.name]

    def cut(self, excess: int, whole: int) -> int:
        """Drop the end of it, about `excess` characters and at least something; give how much is left."""
        value = self.value
        if self.way is not None:
            self.holder[self.name] = {"cut": True, "characters": self.size, "whole": self.way}
            return 0
        share = max(0, self.size - excess - 100) / self.size
        keep = min(int(len(value) * share), len(value) - 1)
        if isinstance(value, str):
            keep = max(0, keep - len(_MARK))
            self.holder[self.name] = value[:keep] + _MARK
        elif isinstance(value, list):
            self.holder[self.name] = value[:keep]
        else:
            self.holder[self.name] = dict(list(value.items())[:keep])
        return min(keep, whole)


def _cuttable(value: Any, path: str, way: str) -> Iterator[_Cuttable]:
    """Find what may be cut below `value`: long texts first, then lists, then objects and middling texts.

    Bodies go with the lists, the longest first, and as wholes.
    """
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, item in members:
        if not path and name in _NEVER_CUT:
            continue
        here = f"{path}[{name}]" if isinstance(name, int) else f"{path}.{name}" if path else str(name)
        if isinstance(value, dict) and name in _BODIES and isinstance(item, str | dict | list):
            size = length(item)
            if size > _SHORTEST_TEXT and not _is_not_shown(item):
                yield _Cuttable(holder=value, name=name, path=here, rank=2, size=size, way=way)
        elif isinstance(item, str):
            if len(item) > _SHORTEST_TEXT:
                rank = 3 if len(item) > _LONG_TEXT else 1
                yield _Cuttable(holder=value, name=name, path=here, rank=rank, size=length(item))
        elif isinstance(item, dict | list) and item:
            rank = 2 if isinstance(item, list) else 0
            yield _Cuttable(holder=value, name=name, path=here, rank=rank, size=length(item))
            yield from _cuttable(item, here, way)


def _is_not_shown(body: Any) -> bool:
    return isinstance(body, dict) and body.keys() <= _BODY_NOT_SHOWN and body.get("cut") is True
