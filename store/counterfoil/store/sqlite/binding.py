"""Binds the parameters of a named statement by their place, which costs a fraction of binding them by name.

For each `:name` Python's driver asks SQLite for the name, lets go of the interpreter lock for that, and makes
a text of what it is told; a begin and its receipt have two hundred and more. So the text of each statement is
read once here, every `:name` becomes a `?1`, and the values are laid in the order of the numbers. A name that
comes again keeps its number: the planner sees that both are one value, and may use an index for it.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from sys import intern
from typing import Any, Final

from msgspec import Struct

from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.statements import Statement, Statements

__all__ = ["Bindings", "Bound", "bind"]

Values = Mapping[str, Any]

_PARAMETER: Final = lazy_pattern(
    r"""(?P<kept>'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/)|:(?P<name>[A-Za-z_]\w*)""", re.DOTALL
)


class Bound(Struct, frozen=True, kw_only=True):
    """A statement as the driver takes it: its text, and what puts given values in the order of their numbers.

    `in_order` raises KeyError for a parameter that was not given.
    """

    statement: Statement
    sql: str
    in_order: Callable[[Values], Sequence[Any]]


class Bindings(dict[str, Bound]):
    """The statements of a journal by name, each bound when it is first asked for."""

    def __init__(self, statements: Statements) -> None:
        super().__init__()
        self._statements = statements
        self._columns: dict[str, tuple[str, ...]] = {}

    def columns(self, name: str, cursor: sqlite3.Cursor) -> tuple[str, ...]:
        """Give what the columns of a statement that `cursor` has run are called: the same for each run of it.

        The driver makes a new text of each name every time; these are the ones that the code spells.
        """
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = tuple(intern(column[0]) for column in cursor.description)
        return found

    def __missing__(self, name: str) -> Bound:
        found = self[name] = bind(self._statements[name])
        return found


def bind(statement: Statement) -> Bound:
    """Read where the parameters of `statement` stand; literals, quoted names and comments hold none."""
    numbers: dict[str, int] = {}

    def place(token: re.Match[str]) -> str:
        if token["name"] is None:
            return token[0]
        return f"?{numbers.setdefault(token['name'], len(numbers) + 1)}"

    sql = _PARAMETER.sub(place, statement.sql)
    return Bound(statement=statement, sql=sql, in_order=_in_order(tuple(numbers)))


def _in_order(names: tuple[str, ...]) -> Callable[[Values], Sequence[Any]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: [values[name] for name in names]


def _null(value: None) -> None:
    return value


# The driver asks every value that is no plain number or text for what may stand for it. None has no answer to
# that, and looking for one took ten times as long as this; every fifth parameter is None.
sqlite3.register_adapter(type(None), _null)
