"""Parts of the log of a run, as another journal has them: what a copy takes over in one transaction.

A part ends where a call ended, never between the events of one call, and is bounded in size, so that a run of
any length is copied in little memory. What lies before it was taken over before.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.spool import Line

__all__ = ["PART_BYTES", "Part", "read_part"]

PART_BYTES = 4 * 1024 * 1024
"""Enough that a commit costs little beside what it holds, and others wait for a moment only."""

_EVENTS_AT_ONCE = 600
_BODY = re.compile(r"(?<![-:])sha256:[0-9a-f]{64}")
"""What may be the digest of a body: keyed digests and fingerprints have something before it."""


class Part(Struct, kw_only=True):
    """Events of a run, in order, from one number on, with the bodies and contexts that they name.

    `lacking` are digests of what is no body there, or no more; `at_hand` all bodies of a run that is short.
    """

    run: Row
    events: list[Row] = field(default_factory=list)
    bodies: dict[str, Row] = field(default_factory=dict)
    contexts: dict[str, str] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)
    at_hand: dict[str, Row] | None = None
    size_bytes: int = 0

    @property
    def last_seq(self) -> int:
        """The number of its last event."""
        return int(self.events[-1]["seq"])

    @property
    def operations(self) -> set[str]:
        """The ids of the operations that it tells of."""
        return {str(event["operation"]) for event in self.events} - {""}

    def lines(self) -> Iterator[Line]:
        """Give what it holds in the form in which runs are proved (`given_runs`)."""
        last = self.events[-1]
        told = {
            "run": self.run["run"],
            "last_seq": last["seq"],
            "head": last["hash"],
            "workflow": self.run["workflow"],
            "workflow_version": self.run["workflow_version"],
        }
        yield _line("run", f"run {self.run['run']}", told)
        for digest, body in self.bodies.items():
            yield _line("body", f"body {digest}", dict(body))
        for digest, text in self.contexts.items():
            yield _line("context", f"context {digest}", {"digest": digest, "body": text})
        for event in self.events:
            yield _line("event", f"event {event['seq']}", dict(event))


def _line(kind: str, place: str, value: dict[str, Any]) -> Line:
    return Line(number=0, type=kind, value=value, place=place)


async def read_part(connection: Connection, run: Row, *, after: int, most_bytes: int = PART_BYTES) -> Part:
    """Read the events of a run that come after a number, up to where its row says that it ends.

    They are as many as fit into `most_bytes`, and then on to the end of the call of the last one.

    Raises:
        JournalUnavailable: the log ends before its row says so.
    """
    place = {"namespace": run["namespace"], "run": run["run"]}
    part = Part(run=run)
    if after == 0 and run["last_seq"] <= _EVENTS_AT_ONCE:
        part.at_hand = await _all_bodies(connection, place)
    while True:
        page = await connection.fetch_all("read_events", {**place, "after": after, "most": _EVENTS_AT_ONCE})
        for event in page:
            if event["seq"] > run["last_seq"] or (
                part.size_bytes >= most_bytes and _starts_a_call(part, event)
            ):
                return part
            await _add(connection, part, event, place)
        if not page or page[-1]["seq"] >= run["last_seq"]:
            break
        after = page[-1]["seq"]
    if not part.events:
        raise JournalUnavailable(
            f"the log of run {run['run']} ends before its row says so",
            fix="`counterfoil verify` on the journal that is copied tells what is damaged",
        )
    return part


def _starts_a_call(part: Part, event: Row) -> bool:
    """Tell whether an event may be of another call than the last one: those of one call are of one moment."""
    last = part.events[-1]
    return (last["at"], last["caller"]) != (event["at"], event["caller"])


async def _add(connection: Connection, part: Part, event: Row, place: dict[str, str]) -> None:
    part.events.append(event)
    part.size_bytes += len(event["data"]) + len(event["caller"])
    for digest in _BODY.findall(event["data"]):
        if digest in part.bodies or digest in part.lacking:
            continue
        if part.at_hand is not None:
            body = part.at_hand.get(digest)
        else:
            body = await connection.fetch_one("body_on_file", {**place, "digest": digest})
        if body is None:
            part.lacking.add(digest)
        else:
            part.bodies[digest] = body
            part.size_bytes += len(body["body"])
    context = _context_of(event["data"])
    if context is not None and context not in part.contexts:
        named = {"namespace": place["namespace"], "digest": context}
        row = await connection.fetch_one("read_context", named)
        if row is not None:
            part.contexts[context] = row["body"]


async def _all_bodies(connection: Connection, place: dict[str, str]) -> dict[str, Row]:
    """Read the bodies of a short run at once, which is quicker than one by one as events name them."""
    found: dict[str, Row] = {}
    after = ""
    while page := await connection.fetch_all(
        "bodies_page", {**place, "after": after, "most": _EVENTS_AT_ONCE}
    ):
        found.update((body["digest"], body) for body in page)
        after = page[-1]["digest"]
    return found


def _context_of(data: str) -> str | None:
    """Give the context that an event names; what is no JSON is refused where it is proved."""
    if '"context"' not in data:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    found = value.get("context") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
