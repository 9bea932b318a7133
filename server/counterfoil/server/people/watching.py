"""Watches the journal: `tail` shows the newest events, and with --follow each one as it comes."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import click
from rich.text import Text

from counterfoil.server.people import rendering as show
from counterfoil.server.people.gathering import whole_plan
from counterfoil.server.people.operation_page import what, who
from counterfoil.server.people.output import is_read, write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["tail"]

_ROUND_SECONDS = 0.5
_WINDOW = 200
"""Events looked at in each round; where all of them are new, more are looked at until an old one is found."""

_LARGEST_WINDOW = 100_000
Event = Mapping[str, Any]


@teaching_command(
    short="the newest events, and those that come",
    examples=[
        "counterfoil tail",
        "counterfoil tail weekly-report/2026-W48 -n 100",
        "counterfoil tail --follow --json | jq .event",
    ],
)
@click.argument("run", required=False)
@click.option(
    "-n",
    "--number",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="How many of the newest to begin with.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
def tail(request: Request, run: str | None, *, number: int, follow: bool) -> int:
    """Show the newest events, of RUN or of all runs, the newest last.

    With --follow and --json: one event a line (JSON Lines).
    """
    anyio.run(_tail, request, run, number, follow)
    return 0


async def _tail(request: Request, run: str | None, number: int, follow: bool) -> None:
    async with request.journal() as journal:
        if run is not None:
            await whole_plan(journal, request.caller("tail"), run=run, include="open")
        window = max(number, _WINDOW if follow else number, 1)
        events = await journal.reader.tail(run=run, limit=window)
        shown = events[len(events) - number :] if number < len(events) else events
        if not follow:
            if request.as_json:
                write_json({"events": shown})
            elif shown or not events:
                _say(shown)
            return
        _say_each(request, shown)
        seen = {_place(event) for event in events}
        while is_read():
            await anyio.sleep(_ROUND_SECONDS)
            fresh, seen = await _since(journal, run, seen)
            _say_each(request, fresh)


async def _since(
    journal: "Journal", run: str | None, seen: set[tuple[str, int]]
) -> tuple[list[Event], set[tuple[str, int]]]:
    """Give the events that are not in `seen`, and what is seen now."""
    window = _WINDOW
    while True:
        events = await journal.reader.tail(run=run, limit=window)
        fresh = [event for event in events if _place(event) not in seen]
        if len(fresh) < window or window >= _LARGEST_WINDOW:
            return list(fresh), seen | {_place(event) for event in events}
        window *= 10


def _place(event: Event) -> tuple[str, int]:
    return event["run"], event["seq"]


def _say_each(request: Request, events: Iterable[Event]) -> None:
    if request.as_json:
        for event in events:
            write_json(event, compact=True)
    else:
        _say(events, nothing="")


def _say(events: Iterable[Event], *, nothing: str = "Nothing has been recorded yet.") -> None:
    lines = [(show.moment(event["at"]) or "", _line(event)) for event in events]
    if lines:
        write(show.rendered(show.facts(lines)))
    elif nothing:
        write(nothing)


def _line(event: Event) -> Text:
    data = what(event)
    return Text.assemble(
        show.plain(event["event"], "bold"),
        "  ",
        show.plain(event["run"]),
        *(("  ", show.plain(event["operation"], "bright_black")) if event["operation"] else ()),
        "  ",
        show.plain(who(event["caller"])),
        *(("  ", show.plain(data, "bright_black")) if data else ()),
    )
