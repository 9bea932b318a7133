"""Reads the tables of docs/states.md: what is expected of every command in every state."""

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DOCUMENT", "IMPOSSIBLE", "STATES", "Expected", "read_tables"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "states.md"

STATES = (
    "planned",
    "in_progress",
    "in_doubt",
    "failed",
    "succeeded",
    "timed_out",
    "cancelled",
    "compensated",
    "disputed",
)

IMPOSSIBLE = "∅"

_NOTE = re.compile(r"\s*\(([a-z])\)")
_PART = re.compile(
    r"(?:(?P<part>[^:→=↓]+): )?(?:(?P<move>=|→ \w+)(?: · (?P<answer>\w+†?(?: \w+)?))?|(?P<below>↓))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One part of a cell. `to` None: the state stays. `next` None: time passes and nobody is answered.

    `is_below`: the row that says how the new receipt differs from the one on file decides.
    """

    to: str | None
    next: str | None
    reason: str | None
    is_below: bool = False


Cell = dict[str, Expected]
"""The parts of a cell by what they are for; the part for everything else has no name."""

Table = dict[str, dict[str, Cell]]
"""The cells by situation and state; an empty cell is one that cannot occur."""


def _read_part(text: str) -> tuple[str, Expected]:
    match = _PART.fullmatch(text)
    if match is None:
        raise ValueError(f"not a part of a cell: {text!r}")
    part = match["part"] or ""
    if match["below"]:
        return part, Expected(to=None, next=None, reason=None, is_below=True)
    next_, _, reason = (match["answer"] or "").partition(" ")
    to = None if match["move"] == "=" else match["move"].removeprefix("→ ")
    return part, Expected(to=to, next=next_ or None, reason=reason or None)


def _read_cell(text: str) -> Cell:
    text = _NOTE.sub("", text)
    return {} if text == IMPOSSIBLE else dict(_read_part(part.strip()) for part in text.split(" ; "))


def read_tables(text: str | None = None) -> dict[str, Table]:
    """Give every table of commands by its heading."""
    tables: dict[str, Table] = {}
    heading = ""
    for line in (text or DOCUMENT.read_text(encoding="utf-8")).splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| ") or len(cells) != 1 + len(STATES):
            continue
        situation = _NOTE.sub("", cells[0])
        if situation == "situation":
            if tuple(cells[1:]) != STATES:
                raise ValueError(f"{heading}: the states are {cells[1:]}")
            tables[heading] = {}
        else:
            tables[heading][situation] = {
                state: _read_cell(cell) for state, cell in zip(STATES, cells[1:], strict=True)
            }
    return tables
