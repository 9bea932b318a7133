"""find_operations: searches a namespace's operations by what is known of them; and names for completion."""

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, Literal

from counterfoil.store.cursors import FoundCursor, read_found_cursor, write_found_cursor
from counterfoil.store.domain.answers import FOUND, guidance_for
from counterfoil.store.domain.canonical import canonical_json, digest
from counterfoil.store.domain.commands import Caller, FindOperations
from counterfoil.store.domain.instants import parse_rfc3339, rfc3339
from counterfoil.store.domain.model import Party, State
from counterfoil.store.domain.plan import Step
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.preparing import Preparer
from counterfoil.store.presenting import answer_head, without_none
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.rows import load_operations
from counterfoil.store.viewing import (
    ANSWER_ROOM,
    Viewer,
    damaged_shown,
    party_of,
    safe,
    size_of,
    step_warnings,
)

__all__ = ["FROM_THE_START", "Finder", "search_terms"]

FROM_THE_START: Final[Mapping[str, Any]] = {"after": "", "moment": None, "rare_system": None}
"""What `search_operations` takes to give the first page of all that fits, whenever it changed."""
_ALWAYS = 2**62
"""Further from 1970, in microseconds, than any time that is stored."""
_MANY_RECEIPTS = 1_000
"""A system with so many receipts is met soon, whatever is searched through."""
_USUAL = 20
_MOST = 50
_MOST_SUGGESTED = 100
"""What the protocol allows in one completion."""


class Finder:
    """Searches; changes nothing."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def find(self, command: FindOperations, caller: Caller) -> dict[str, Any]:
        """List operations that fit everything that is given, most recently changed first; states are today's.

        A cursor skips nothing that did not change; the last page says whether something that fits moved
        since the first one.

        Raises:
            InvalidArgument: a state, time, limit or cursor that is not one.
            JournalUnavailable: nothing can be told; absence is not proven.
        """
        wanted = search_terms(command, self._view.prepare)
        after = read_found_cursor(command.cursor, digest(canonical_json(wanted)))
        most = min(command.limit or _USUAL, _MOST)

        async def work(connection: Connection) -> dict[str, Any]:
            return await self._page(connection, wanted, after, most, party_of(caller))

        return await self._view.database.read(work)

    async def suggest(self, kind: Literal["run", "operation"], beginning: str) -> tuple[list[str], bool]:
        """Give names of runs or ids of operations that begin so, and whether there are more than these."""
        statement = "suggest_runs" if kind == "run" else "suggest_operations"

        async def work(connection: Connection) -> Sequence[Row]:
            return await connection.fetch_all(
                statement,
                {
                    "namespace": self._view.namespace,
                    "beginning": beginning[:200],
                    "most": _MOST_SUGGESTED + 1,
                },
            )

        rows = await self._view.database.read(work)
        return [row["name"] for row in rows[:_MOST_SUGGESTED]], len(rows) > _MOST_SUGGESTED

    async def _page(
        self,
        connection: Connection,
        wanted: Mapping[str, Any],
        after: FoundCursor | None,
        most: int,
        party: Party,
    ) -> dict[str, Any]:
        now = self._view.now(connection).at
        place = {**FROM_THE_START, "namespace": self._view.namespace, "now": now, **wanted}
        place["rare_system"] = await _rare_system(connection, self._view.namespace, wanted)
        page = {} if after is None else {"before": after.changed_at, "after": after.operation}
        rows = await connection.fetch_all("search_operations", {**place, **page, "most": most + 1})
        shown: list[dict[str, Any]] = []
        damaged = passed = used = 0
        for row in rows[:most]:
            (operation,) = await load_operations(connection, (row,))
            step = await self._view.step_of(connection, operation, now, party=party)
            entry = self._shown(step)
            used += size_of(entry)
            if used > ANSWER_ROOM and shown:
                break
            damaged += step.operation.is_damaged
            shown.append(entry)
            passed += 1
        is_cut = passed < len(rows)
        as_of = now if after is None else after.as_of
        has_moved = (
            after is not None
            and not is_cut
            and await connection.fetch_one("search_operations", {**place, "moment": as_of, "most": 1})
            is not None
        )
        last = rows[passed - 1] if is_cut else None
        is_empty = not rows and after is None
        head = answer_head("continue", "no_history" if is_empty else "listed", now)
        if not is_empty:
            head["guidance"] = FOUND
        return without_none(
            {
                **head,
                "operations": shown,
                "guidances": {
                    entry["reason"]: guidance_for(entry["next"], entry["reason"]) for entry in shown
                }
                or None,
                "damaged": damaged or None,
                "cut": is_cut,
                "next_cursor": None
                if last is None
                else write_found_cursor(
                    FoundCursor(changed_at=last["updated_at"], operation=last["id"], as_of=as_of),
                    digest(canonical_json(dict(wanted))),
                ),
                "changed_meanwhile": True if has_moved else None,
            }
        )

    def _shown(self, step: Step) -> dict[str, Any]:
        operation = step.operation
        if operation.is_damaged:
            return {**damaged_shown(operation), "next": step.outlook.next, "reason": step.outlook.reason}
        newest = operation.newest
        return without_none(
            {
                "run": operation.run,
                "operation": operation.id,
                "key": operation.key,
                "action": safe(operation.description.action),
                "target": safe(operation.description.target),
                "state": step.state.value,
                "next": step.outlook.next,
                "reason": step.outlook.reason,
                "attempt": None if newest is None else newest.number,
                "changed_at": rfc3339(operation.updated_at),
                "receipts": self._view.present.receipts(operation.receipts, most=2) or None,
                "warnings": step_warnings(step),
            }
        )


async def _rare_system(connection: Connection, namespace: str, wanted: Mapping[str, Any]) -> str | None:
    """Give the system that is asked for, where going through its receipts is less than going through all."""
    system: str | None = wanted["system"]
    if system is None or wanted["external_id"] is not None:
        return None
    row = await connection.fetch_one(
        "receipts_of_system", {"namespace": namespace, "system": system, "most": _MANY_RECEIPTS}
    )
    return system if row is None or row["receipts"] < _MANY_RECEIPTS else None


def search_terms(command: FindOperations, prepare: Preparer) -> dict[str, Any]:
    """Bring what is asked for into the form that `search_operations` takes; it names the list as well.

    Raises:
        InvalidArgument: a state, time or limit that is not one.
    """
    text = prepare.text(command.text, name="text")
    states = [state.value for state in State]
    if command.state is not None and command.state not in states:
        raise InvalidArgument("state", "is unknown", accepted="one of " + ", ".join(states))
    if command.limit is not None and not 1 <= command.limit <= 1_000:
        raise InvalidArgument("limit", "is out of range", accepted="1 to 1000")
    external_id = prepare.text(command.external_id, name="external_id")
    return {
        "run": None if command.run is None else prepare.name(command.run, name="run"),
        "workflow": prepare.text(command.workflow, name="workflow"),
        "state": command.state,
        "action": prepare.text(command.action, name="action"),
        "system": prepare.text(command.system, name="system"),
        "external_id": None if external_id is None else external_id.strip(),
        # A page after the first one begins before the end that is asked for.
        "since": -_ALWAYS if command.since is None else parse_rfc3339(command.since, field="since"),
        "before": _ALWAYS if command.until is None else parse_rfc3339(command.until, field="until") - 1,
        **_word_terms(text),
    }


def _word_terms(text: str | None) -> dict[str, str | None]:
    """Give a pattern for each word, wherever it stands; from the fifth on, words are one as they stand."""
    words = [] if text is None else text.split(maxsplit=len(_WORDS) - 1)
    terms: dict[str, str | None] = {}
    for name, word in zip_longest(_WORDS, words):
        # Databases agree on lower case in ASCII only; folded targets know more.
        terms[name] = None if word is None else _anywhere(_ascii_lower(word.rstrip()))
        terms[f"{name}_folded"] = None if word is None else _anywhere(word.rstrip().casefold())
    return terms


_WORDS = ("text", "second", "third", "fourth", "fifth")


def _anywhere(text: str) -> str:
    """Give the pattern, with `!` as its escape, of what holds a text."""
    return "%" + re.sub("[!%_]", r"!\g<0>", text) + "%"


def _ascii_lower(text: str) -> str:
    return "".join(character.lower() if character.isascii() else character for character in text)
