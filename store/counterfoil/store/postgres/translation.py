"""Turns `:name` parameters into the driver's `%(name)s`, once, when statements are loaded.

The text is read as PostgreSQL reads it: what stands in literals, quoted names, comments and dollar quotes is
left alone, and `::` is a cast. Nothing else of a statement is changed, except that a parameter of which is
asked whether it is NULL gets its type: PostgreSQL cannot tell it from there, and SQLite needs none.
"""

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from counterfoil.store.statements import Statements

__all__ = ["split", "translate", "translated"]

_TOKEN: Final = re.compile(
    r"""
      (?P<kept> '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
        | :: )
    | :(?P<name>[A-Za-z_]\w*)(?P<asked>\s+IS\s+(?:NOT\s+)?NULL\b)?
    | (?P<percent>%)
    | (?P<end>;)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_INSTANTS: Final = frozenset(("before", "moment", "now", "since", "until"))


def _type_of(name: str) -> str:
    is_instant = name in _INSTANTS or name.endswith(("_at", "_until"))
    return "bigint" if is_instant else "text"


def translate(sql: str) -> str:
    """Give `sql` with the driver's parameters."""
    parts = []
    for token in _TOKEN.finditer(sql):
        if (name := token["name"]) is not None:
            asked = token["asked"]
            parts.append(f"%({name})s" + (f"::{_type_of(name)}{asked}" if asked else ""))
        else:
            # The driver reads every % as the beginning of a parameter, in literals and comments as well.
            parts.append(token[0].replace("%", "%%"))
    return "".join(parts)


def translated(statements: Statements) -> Statements:
    """Give the statements of the dialect as the driver takes them."""
    return Statements({name: replace(of, sql=translate(of.sql)) for name, of in statements.items()})


def split(script: str) -> Iterator[str]:
    """Part a script into its statements, each without the semicolon that ends it."""
    parts: list[str] = []
    for token in _TOKEN.finditer(script):
        if token["end"]:
            yield "".join(parts).strip()
            parts = []
        else:
            parts.append(token[0])
    rest = "".join(parts)
    if any(line.strip() and not line.strip().startswith("--") for line in rest.splitlines()):
        raise ValueError("the last statement has no end")
