"""Adds a member to a TOML text and takes it back, and leaves every other character as it stands."""

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
    return _written(document)


def cut_member(text: str, path: tuple[str, ...]) -> str:
    """Cut out what stands at this path; give the text as it is where nothing does."""
    document = _read(text)
    at: Any = document
    for name in path[:-1]:
        at = at.get(name) if isinstance(at, dict) else None
    if not isinstance(at, dict) or path[-1] not in at:
        return text
    del at[path[-1]]
    return _written(document)


def _read(text: str) -> TOMLDocument:
    try:
        return parse(text)
    except TOMLKitError as error:
        raise NotTOML(str(error)) from error


def _written(document: TOMLDocument) -> str:
    return document.as_string()
