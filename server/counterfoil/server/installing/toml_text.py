"""Adds a member to a TOML text and takes it back, and leaves every other character as it stands."""

import re
import tomllib
from typing import Any

from tomlkit import TOMLDocument, parse, table
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable

__all__ = ["NotTOML", "add_member", "cut_member", "value_at"]


class NotTOML(ValueError):
    """The text is no TOML, or does not have the shape that the path needs."""


def value_at(text: str, path: tuple[str, ...]) -> Any:
    """Give what stands at this path, None where nothing does.

    Raises:
        NotTOML: the text is no TOML.
    """
    value: Any = _read(text).unwrap()
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def add_member(text: str, path: tuple[str, ...], value: Any) -> str:
    """Add a table at the path's end, and the tables on the way that are missing.

    At the end of the text, so that each comment stays with what it is about; elsewhere only where the text
    holds those tables in a form that takes no further ones by a header.

    Raises:
        NotTOML: something on the way is no table.
    """
    document = _read(text)
    at: Any = document
    for name in path[:-1]:
        if name not in at:
            # A table above others needs no line of its own.
            at[name] = table(is_super_table=True)
        at = at[name]
        if not isinstance(at, AbstractTable | Container):
            raise NotTOML(f"no table stands at {name}")
    at[path[-1]] = value
    appended = _appended(text, path, value)
    return appended if _means(appended, document.unwrap()) else _written(document)


def cut_member(text: str, path: tuple[str, ...]) -> str:
    """Cut out what stands at this path; give the text as it is where nothing does.

    Comments that follow it stay, whoever wrote them: they may be about what comes next.
    """
    document = _read(text)
    at: Any = document
    for name in path[:-1]:
        at = at.get(name) if isinstance(at, dict) else None
    if not isinstance(at, dict) or path[-1] not in at:
        return text
    del at[path[-1]]
    cut, expected = _without_block(text, path), document.unwrap()
    if _means(cut, expected):
        return cut
    # A table that only its tables' headers name is gone with the last of them.
    for length in range(len(path) - 1, 0, -1):
        above: Any = expected
        for name in path[: length - 1]:
            above = above[name]
        if above[path[length - 1]] != {}:
            break
        del above[path[length - 1]]
        if _means(cut, expected):
            return cut
    return _written(document)


def _appended(text: str, path: tuple[str, ...], value: Any) -> str:
    """Give the text with a table of that name behind it, a line free between."""
    document = TOMLDocument()
    at: Any = document
    for name in path[:-1]:
        at[name] = table(is_super_table=True)
        at = at[name]
    at[path[-1]] = value
    line_end = "\r\n" if "\r\n" in text else "\n"
    block = document.as_string().rstrip("\n").replace("\n", line_end) + line_end
    if not text.strip():
        return text + block
    return text + ("" if text.endswith("\n") else line_end) + line_end + block


def _without_block(text: str, path: tuple[str, ...]) -> str:
    """Give the text without the lines from the table's header on to its last value, or its tables' last."""
    lines = text.splitlines(keepends=True)
    own = r"\s*\.\s*".join(
        rf"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')" for name in path
    )
    header = re.compile(rf"\s*\[\s*{own}\s*[\].]")
    first = next((place for place, line in enumerate(lines) if header.match(line)), None)
    if first is None:
        return text
    last = first
    for place in range(first, len(lines)):
        line = lines[place].strip()
        if line.startswith("[") and not header.match(lines[place]):
            break
        if line and not line.startswith("#"):
            last = place
    if first > 0 and not lines[first - 1].strip():
        first -= 1
    return "".join((*lines[:first], *lines[last + 1 :]))


def _means(text: str, expected: Any) -> bool:
    """Tell whether a text says exactly this, for every reader of TOML."""
    try:
        return bool(tomllib.loads(text) == expected)
    except ValueError:
        return False


def _read(text: str) -> TOMLDocument:
    try:
        return parse(text)
    except TOMLKitError as error:
        raise NotTOML(str(error)) from error


def _written(document: TOMLDocument) -> str:
    return document.as_string()
