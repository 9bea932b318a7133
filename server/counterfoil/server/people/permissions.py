"""Lists what agents ask a person to permit, and what is permitted: `requests`."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.text import Text

from counterfoil.server.people import rendering as show
from counterfoil.server.people.granting import with_journal
from counterfoil.server.people.output import tell, write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command

__all__ = ["requests", "told_of_damage"]


@teaching_command(
    short="what agents ask you to permit, and what is permitted",
    examples=["counterfoil requests", "counterfoil requests --all", "counterfoil requests --grants"],
)
@click.option("--all", "every", is_flag=True, help="Also those that were answered.")
@click.option("--grants", "of_grants", is_flag=True, help="The grants instead, with their uses.")
def requests(request: Request, *, every: bool, of_grants: bool) -> int:
    """List the requests that wait for `counterfoil grant`, oldest first; or the grants.

    Exit code 1: there is one that cannot be read; it permits nothing.
    """
    if of_grants:
        found = with_journal(request, lambda journal: journal.list_grants())
        name, headings = "grants", ("grant, what", "until, uses", "holds")
        rows = [[_named(line["grant"], line), _limits(line), line["holds"]] for line in found]
    else:
        state = None if every else "waiting"
        found = with_journal(request, lambda journal: journal.list_requests(state=state))
        name, headings = "requests", ("request, what", "asked", "why")
        rows = [[_named(line["request"], line), _asked(line), line.get("why", "")] for line in found]
    if request.as_json:
        write_json({name: found})
    elif not found:
        write("Nothing is waiting." if name == "requests" and not every else f"There are no {name}.")
    else:
        write(show.rendered(show.table(*headings, rows=rows, whole=headings[:1])))
    return told_of_damage(found, is_told=not request.as_json)


def told_of_damage(found: Sequence[Mapping[str, Any]], *, is_told: bool) -> int:
    """Say how many of a list cannot be read, and give the exit code."""
    damaged = sum(1 for line in found if line.get("damaged"))
    if damaged and is_told:
        tell(f"counterfoil: {damaged} of them cannot be read: `counterfoil verify` says why")
    return 1 if damaged else 0


def _named(name: str, line: Mapping[str, Any]) -> Text:
    """Name a request or grant, and below it what it is about."""
    if line.get("damaged"):
        return show.lines(name, "its row cannot be read")
    run = f"run {line['run']}" if "run" in line else None
    what = f"{line['action']} to {line['target']}"
    return show.lines(name, what, run, line.get("operation"), *line.get("constraints", ()))


def _asked(line: Mapping[str, Any]) -> Text:
    if line.get("damaged"):
        return show.plain("?")
    answered = None if line["request_state"] == "waiting" else line["request_state"]
    return show.lines(show.moment(line["asked_at"]), f"by {line['asked_by']}", line["asked_for"], answered)


def _limits(line: Mapping[str, Any]) -> str:
    if line.get("damaged"):
        return "?"
    end = show.moment(line.get("expires_at")) or "no end"
    most = f" of {line['max_uses']}" if "max_uses" in line else ""
    return f"{end}, {line['uses']}{most} in use"
