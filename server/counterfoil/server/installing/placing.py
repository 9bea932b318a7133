"""What is put into a client's files, and taken out of them again, as a change of texts.

Nothing here touches a file. A placement is what is wanted; an addition is what was really put there, which is
all that is ever taken back. What a person has changed since then is theirs, and stays.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct

from counterfoil.server.installing import json_text
from counterfoil.server.installing.json_text import NotJSON, Path, Where

__all__ = ["Addition", "Kind", "Misshapen", "Placed", "Placement", "place", "take_back"]

_T = TypeVar("_T")

Kind = Literal["member", "item", "table", "text"]
"""A member or an array's item of a JSON file, a table of a TOML file, or the whole of a file of our own."""


class Misshapen(ValueError):
    """A file has not the shape that its client reads."""


class Placement(Struct, frozen=True, kw_only=True):
    """One thing that is to stand in a file."""

    kind: Kind
    path: Path = ()
    value: Any


class Addition(Struct, frozen=True, kw_only=True):
    """One thing that was put into a file; `made` is how much of its path was made for it."""

    kind: Kind
    path: Path = ()
    value: Any
    made: int = 0

    def as_json(self) -> dict[str, Any]:
        """Give it as the ledger keeps it."""
        steps = [[step.name, step.value] if isinstance(step, Where) else step for step in self.path]
        return {"kind": self.kind, "path": steps, "value": self.value, "made": self.made}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> "Addition":
        """Read it as the ledger keeps it."""
        steps = tuple(step if isinstance(step, str) else Where(*step) for step in kept["path"])
        return cls(kind=kept["kind"], path=steps, value=kept["value"], made=kept["made"])


class Placed(Struct, frozen=True, kw_only=True):
    """A text with everything in place, what of it was added now or before, and what was left to its owner."""

    text: str
    additions: tuple[Addition, ...]
    left: tuple[Placement, ...] = ()


def place(text: str | None, wanted: Sequence[Placement], before: Sequence[Addition]) -> Placed:
    """Put what is wanted into a file's text, None where there is no file; `before` was put there earlier.

    What stands there already and is not ours is left: as it is where it is the same, and told where not.

    Raises:
        Misshapen: the file cannot be read, or something else stands where ours is to go.
    """
    text, gone = _without_outdated(text, wanted, before)
    kept = [one for one in before if one not in gone]
    additions: list[Addition] = []
    left: list[Placement] = []
    for one in wanted:
        known = next((a for a in kept if (a.kind, a.path, a.value) == (one.kind, one.path, one.value)), None)
        if _stands(text, one):
            additions += [] if known is None else [known]
        elif one.kind != "item" and _value_at(text, one.kind, one.path) is not None:
            left.append(one)
        else:
            made = 0 if text is None or one.kind == "text" else _missing(text, one)
            text = _with(text, one)
            additions.append(Addition(kind=one.kind, path=one.path, value=one.value, made=made))
    return Placed(text=text or "", additions=tuple(additions), left=tuple(left))


def take_back(text: str, additions: Sequence[Addition]) -> tuple[str, tuple[Addition, ...]]:
    """Take additions out of a text; give it with those that a person has changed, which stay.

    Raises:
        Misshapen: the file cannot be read.
    """
    changed = []
    for one in reversed(additions):
        if one.kind == "text":
            if text == one.value:
                text = ""
            else:
                changed.append(one)
        elif one.kind == "item":
            text = _cut_item(text, one)
            text = _without_empty(text, one, upto=len(one.path) + 1)
        elif (found := _value_at(text, one.kind, one.path)) == one.value:
            text = _cut_member(text, one.kind, one.path)
            text = _without_empty(text, one, upto=len(one.path))
        elif found is not None:
            changed.append(one)
    return text, tuple(changed)


def _without_outdated(
    text: str | None, wanted: Sequence[Placement], before: Sequence[Addition]
) -> tuple[str | None, tuple[Addition, ...]]:
    """Take back what an earlier installation added and this one does not want."""
    words = [(one.kind, one.path, json.dumps(one.value)) for one in wanted]
    gone = tuple(one for one in before if (one.kind, one.path, json.dumps(one.value)) not in words)
    if text is None or not gone:
        return text, gone
    text, _ = take_back(text, gone)
    return text or None, gone


def _stands(text: str | None, one: Placement) -> bool:
    if text is None:
        return False
    found = _value_at(text, one.kind, one.path)
    return one.value in found if one.kind == "item" and isinstance(found, list) else bool(found == one.value)


def _value_at(text: str | None, kind: Kind, path: Path) -> Any:
    if text is None or kind == "text":
        return text
    if kind == "table":
        from counterfoil.server.installing import toml_text

        return _guarded(lambda t: toml_text.value_at(t, _names(path)), text)
    return _guarded(lambda t: json_text.value_at(t, path), text) if text.strip() else None


def _missing(text: str, one: Placement) -> int:
    """Count the steps of the path that have to be made, the thing itself left out."""
    containers = one.path if one.kind == "item" else one.path[:-1]
    there = sum(
        _value_at(text, one.kind, containers[: length + 1]) is not None for length in range(len(containers))
    )
    return len(containers) - there


def _with(text: str | None, one: Placement) -> str:
    match one.kind:
        case "text":
            return str(one.value)
        case "table":
            from counterfoil.server.installing import toml_text

            return _guarded(lambda t: toml_text.add_member(t, _names(one.path), one.value), text or "")
        case "item":
            add: Callable[[str, Path, Any], str] = json_text.add_item
        case _:
            add = json_text.add_member
    start = text if text is not None and text.strip() else "{}\n"
    return _guarded(lambda t: add(t, one.path, one.value), start)


def _cut_item(text: str, one: Addition) -> str:
    return _guarded(lambda t: json_text.cut_item(t, one.path, one.value), text)


def _cut_member(text: str, kind: Kind, path: Path) -> str:
    if kind == "table":
        from counterfoil.server.installing import toml_text

        return _guarded(lambda t: toml_text.cut_member(t, _names(path)), text)
    return _guarded(lambda t: json_text.cut_member(t, path), text)


def _without_empty(text: str, one: Addition, *, upto: int) -> str:
    """Take back the containers that were made for an addition, as far as they are empty."""
    for length in range(upto - 1, upto - 1 - one.made, -1):
        container = one.path[:length]
        if _value_at(text, one.kind, container) not in ({}, []):
            break
        text = _cut_member(text, one.kind, container)
    return text


def _names(path: Path) -> tuple[str, ...]:
    return tuple(step for step in path if isinstance(step, str))


def _guarded(work: Callable[[str], _T], text: str) -> _T:
    try:
        return work(text)
    except NotJSON as problem:
        raise Misshapen(str(problem)) from problem
    except ValueError as problem:
        raise Misshapen(f"it cannot be read: {problem}") from problem
