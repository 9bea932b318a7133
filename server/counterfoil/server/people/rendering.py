"""Makes what people see: tables and lines that fit the terminal, coloured by state where there is one.

Stored text is shown as it is and never read as markup: everything becomes `Text`, and whatever could act on
the terminal is escaped once more here, whoever escaped it before.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from counterfoil.server.people.column_widths import column_widths
from counterfoil.store.domain.untrusted import escape_untrusted

__all__ = [
    "INDENT",
    "OPERATION",
    "age",
    "counted",
    "counts",
    "facts",
    "indented",
    "lines",
    "moment",
    "name_and_id",
    "plain",
    "rendered",
    "size",
    "state",
    "table",
    "verb",
]

OPERATION = "key, operation"
"""The heading of a column of `name_and_id`."""

_GAP = 3
"""Between two columns."""

_RULE = "─"
"""What the line below the headings is made of; escaped for a stdout without it, it would be six as long."""

INDENT = 2
"""By how much `indented` moves a part to the right."""

_NARROWEST = 60
_LONGEST = 2_000

_STATES = {
    "planned": "default",
    "in_progress": "cyan",
    "in_doubt": "bold yellow",
    "failed": "red",
    "succeeded": "green",
    "timed_out": "magenta",
    "cancelled": "bright_black",
    "compensated": "blue",
    "disputed": "bold red",
}
_VERBS = {"reconcile": "bold yellow", "ask": "bold red", "begin": "cyan", "wait": "default", "skip": "green"}

STATE_ORDER = (
    "disputed",
    "in_doubt",
    "in_progress",
    "failed",
    "planned",
    "succeeded",
    "timed_out",
    "cancelled",
    "compensated",
)
"""The order in which people want to know."""


def rendered(*parts: RenderableType) -> str:
    """Give `parts` as text for stdout as it is: its width, and colours only where it is a terminal."""
    is_terminal = sys.stdout.isatty()
    out = StringIO()
    console = Console(
        file=out,
        width=_width(),
        force_terminal=is_terminal,
        color_system="auto" if is_terminal else None,
        no_color=bool(os.environ.get("NO_COLOR")),
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )
    console.print(Group(*parts))
    shown = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    return shown if _can_write(_RULE) else shown.replace(_RULE, "-")


def _can_write(character: str) -> bool:
    try:
        character.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def plain(value: Any, style: str = "") -> Text:
    """Show a value as text that does nothing."""
    return Text(escape_untrusted("" if value is None else str(value), limit=_LONGEST), style=style)


def state(name: str) -> Text:
    """Show a state in its colour."""
    return plain(name, _STATES.get(name, ""))


def verb(name: str) -> Text:
    """Show what is to be done next in its colour."""
    return plain(name, _VERBS.get(name, ""))


def counts(by_state: Mapping[str, int]) -> Text:
    """Show how many there are in each state, the open questions first."""
    shown = [(name, by_state[name]) for name in STATE_ORDER if by_state.get(name)]
    parts = [Text.assemble(f"{number} ", state(name)) for name, number in shown]
    return Text(", ").join(parts) if parts else Text("none")


def table(
    *headings: str,
    rows: Iterable[Sequence[Text | str]],
    narrow: Sequence[str] = (),
    whole: Sequence[str] = (),
    indent: int = 0,
) -> Table:
    """Make a table whose cells fold instead of being cut; `column_widths` says what is kept on one line.

    `narrow` and `whole` name columns; `indent` is by how much the table is to be moved to the right.
    """
    cells = [[cell if isinstance(cell, Text) else plain(cell) for cell in row] for row in rows]
    widths = column_widths(
        [
            [heading, *(line for row in cells for line in row[index].plain.split("\n"))]
            for index, heading in enumerate(headings)
        ],
        room=_width() - indent - _GAP * (len(headings) - 1),
        narrow=[headings.index(name) for name in narrow if name in headings],
        whole=[headings.index(name) for name in whole if name in headings],
    )
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading, width in zip(headings, widths, strict=True):
        made.add_column(Text(heading), overflow="fold", width=width)
    for row in cells:
        made.add_row(*row)
    return made


def _width() -> int:
    return max(_NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def facts(pairs: Iterable[tuple[str, Text | str | float | None]]) -> Table:
    """Show named facts one under the other; those without a value are left out."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="bright_black", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            made.add_row(Text(name), value if isinstance(value, Text) else plain(value))
    return made


def indented(part: RenderableType) -> RenderableType:
    """Move a part to the right, below its heading."""
    return Padding(part, (0, 0, 0, INDENT))


def name_and_id(name: str, operation: str, *, run: str | None = None) -> Text:
    """Show a key with the operation's id below it, and the run above it where it is named."""
    above = () if run is None else (plain(run), "\n")
    return Text.assemble(*above, plain(name), "\n", plain(operation, "bright_black"))


def lines(*texts: str | None) -> Text:
    """Show texts one below the other; what is missing is left out."""
    return Text("\n").join(plain(text) for text in texts if text is not None)


def moment(rfc3339: str | None) -> str | None:
    """Shorten a time to what people read: seconds, UTC."""
    return None if rfc3339 is None else f"{rfc3339[:10]} {rfc3339[11:19]}Z"


def age(duration_seconds: float) -> str:
    """Say a duration in its largest unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if duration_seconds >= length:
            return f"{int(duration_seconds // length)} {unit}"
    return f"{int(duration_seconds)} s"


def size(size_bytes: float) -> str:
    """Say a size in its largest unit."""
    for unit, length in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= length:
            return f"{size_bytes / length:.1f} {unit}"
    return counted(int(size_bytes), "byte")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Say how many there are: one, or many in the plural, which ends in s where it is not given."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
