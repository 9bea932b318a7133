"""Holds the values of counterfoil.toml to their form; what is wrong is named by its path in the file."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "Wrong",
    "choice_of",
    "digest_of",
    "number_of",
    "patterns_of",
    "refuse_unknown",
    "switch_of",
    "table_in",
    "tables_in",
    "text_of",
    "texts_of",
]


class Wrong(Exception):
    """A value that cannot be taken: `name` says where it stands, `problem` what it has to be."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name)
        self.name, self.problem = name, problem


def table_in(name: str, document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give a table of the file; an empty one where it says nothing."""
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise Wrong(f"{prefix}{name}", f"it is a table: [{prefix}{name}]")
    return value


def tables_in(name: str, document: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Give the tables of a list, each with its path."""
    value = document.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Wrong(name, f"it is a list of tables: [[{name}]]")
    return [(f"{name}[{index}]", item) for index, item in enumerate(value)]


def refuse_unknown(where: str, table: Mapping[str, Any], names: Iterable[str]) -> None:
    """Make sure that a table says nothing but what `names` are, and name what may be meant."""
    accepted = list(names)
    for name in table:
        if name not in accepted:
            from difflib import get_close_matches

            near = get_close_matches(name, accepted, n=1, cutoff=0.51)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(accepted)}"
            raise Wrong(f"{where}.{name}" if where else name, f"it is not known{hint}")


def text_of(name: str, value: Any) -> str:
    """Give a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise Wrong(name, "it is a text")
    return value


def texts_of(name: str, value: Any) -> tuple[str, ...]:
    """Give a list of texts."""
    if not isinstance(value, list):
        raise Wrong(name, "it is a list of texts")
    return tuple(text_of(f"{name}[{index}]", item) for index, item in enumerate(value))


def patterns_of(name: str, value: Any) -> tuple[str, ...]:
    """Give a list of regular expressions."""
    patterns = texts_of(name, value)
    for index, pattern in enumerate(patterns):
        try:
            re.compile(pattern)
        except re.error as error:
            raise Wrong(f"{name}[{index}]", f"it is no regular expression: {error}") from None
    return patterns


def digest_of(name: str, value: Any) -> str | None:
    """Give a SHA-256 in lower case."""
    if value is not None and not (isinstance(value, str) and re.fullmatch(r"[0-9A-Fa-f]{64}", value)):
        raise Wrong(name, "it is the SHA-256 of the secret: 64 hexadecimal digits")
    return value and value.lower()


def switch_of(name: str, value: Any) -> bool | None:
    """Give true or false."""
    if value is not None and not isinstance(value, bool):
        raise Wrong(name, "it is true or false")
    return value


def number_of(name: str, value: Any) -> float:
    """Give a number of seconds, up to ten years."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 315_360_000:
        raise Wrong(name, "it is a number of seconds")
    return value


def choice_of(name: str, value: Any, accepted: tuple[str, ...]) -> str:
    """Give one of the accepted texts."""
    if value not in accepted:
        raise Wrong(name, f"it is one of {', '.join(accepted)}")
    return str(value)
