"""What checks and plans share: one operation looked at as it stands now among the others of its run."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.store.arrivals import arrived_beside
from counterfoil.store.damaged_rows import misled
from counterfoil.store.domain.answers import damage_warning
from counterfoil.store.domain.commands import Caller, Json
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.instants import Instant, Reading, rfc3339
from counterfoil.store.domain.model import Assurance, Operation, Party, Run, State, shown_by
from counterfoil.store.domain.outlook import is_misled
from counterfoil.store.domain.plan import Step, make_steps
from counterfoil.store.domain.states import Policy, state_of
from counterfoil.store.domain.untrusted import escape_untrusted, safe_value
from counterfoil.store.errors import BodyDamaged
from counterfoil.store.own_history import OwnHistory
from counterfoil.store.preparing import Preparer
from counterfoil.store.presenting import Presenter, body_damaged, body_gone, body_shown, without_none
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.resolving import of_key, read_body
from counterfoil.store.rows import run_from_row
from counterfoil.store.standing_requests import request_standing
from counterfoil.store.weighing import authority_shown, barriers_of

__all__ = [
    "ANSWER_ROOM",
    "CONTEXT_DAMAGED",
    "Viewer",
    "damaged_shown",
    "history_entry",
    "keys_shown",
    "party_of",
    "runs_by_name",
    "safe",
    "size_of",
    "step_warnings",
    "undo_shown",
]

_MOST_AROUND = 1_000
_MOST_KEYS = 5
_RUNS_AT_ONCE = 200

ANSWER_ROOM = 7_000
"""Characters of JSON that the entries of one page may take, so that the whole answer stays under 10,000."""


class Viewer(Struct, frozen=True, kw_only=True):
    """What every reading room needs."""

    database: OwnHistory
    namespace: str
    policy: Policy
    clock: Callable[[], Reading]
    prepare: Preparer
    present: Presenter

    def now(self, connection: Connection) -> Reading:
        """Give the moment of a transaction."""
        return connection.now(self.clock())

    def situation(self, connection: Connection, caller: Caller) -> Situation:
        """Give the moment, the configuration and the caller of a command; the clock is read here, once."""
        return Situation(
            now=self.now(connection),
            policy=self.policy,
            party=party_of(caller),
            call_id=caller.call_id,
            is_person=caller.is_person,
        )

    async def moment(self) -> Instant:
        """Give the moment for what no single transaction does."""

        async def work(connection: Connection) -> Instant:
            return self.now(connection).at

        return await self.database.read(work)

    async def step_of(
        self, connection: Connection, operation: Operation, now: Instant, *, party: Party | None = None
    ) -> Step:
        """Look at an operation among the others of its run that it waits for, as `party` would.

        The step's operation is one that is damaged where it waits for what is not there.
        """
        place = {"namespace": operation.namespace, "run": operation.run}
        row = await connection.fetch_one("read_run", place)
        around = await self._around(connection, operation)
        if len(around) < _MOST_AROUND and is_misled(operation, {other.key: other for other in around}):
            operation = misled(operation)
        run = None if row is None else run_from_row(row)
        barriers, authority = await barriers_of(
            connection,
            operation,
            run=run,
            policy=self.policy,
            principal="local" if party is None else party.principal,
            today=None,
            now=now,
        )
        suspects: tuple[Operation, ...] = ()
        if state_of(operation, now) in (State.PLANNED, State.FAILED):
            suspects = await arrived_beside(connection, operation)
        steps = make_steps(
            (operation,),
            run=run,
            now=now,
            policy=self.policy,
            around=around,
            party=party,
            barriers=lambda _operation: barriers,
            authorities={operation.id: authority},
            suspects=suspects,
        )
        return steps[0]

    async def _around(self, connection: Connection, operation: Operation) -> tuple[Operation, ...]:
        """Read what an operation waits for, directly or not; the rest of its run is not read."""
        around: dict[str, Operation] = {}
        missing = list(operation.depends_on)
        while missing and len(around) < _MOST_AROUND:
            key = missing.pop()
            if key in around or key == operation.key:
                continue
            other = await of_key(connection, operation.namespace, operation.run, key)
            if other is not None:
                around[key] = other
                missing += other.depends_on
        return tuple(around.values())

    async def lookup_args(self, connection: Connection, operation: Operation) -> Json:
        """Show the args of the declared lookup."""
        lookup = operation.terms.lookup
        if lookup is None or lookup.args_digest is None:
            return None
        return await self.body(connection, operation, lookup.args_digest, detail="lookup")

    async def body(
        self,
        connection: Connection,
        owner: Operation | Run,
        digest: str,
        *,
        detail: str,
        must_be_whole: bool = False,
    ) -> Json:
        """Show a recorded body; what was removed or is damaged is named by its digest, and the rest served.

        Raises:
            BodyDamaged: it is damaged, and `must_be_whole`.
        """
        try:
            text = await read_body(connection, owner, digest)
        except BodyDamaged:
            if must_be_whole:
                raise
            return body_damaged(digest)
        return body_gone(digest) if text is None else body_shown(text, detail=detail)

    async def doubt(self, connection: Connection, operation: Operation, now: Instant) -> dict[str, Any]:
        """Show how to find out whether the effect happened."""
        return self.present.doubt(operation, now, await self.lookup_args(connection, operation))

    def settled(self, operation: Operation, now: Instant) -> dict[str, Any]:
        """Show what proves that the operation is over, and since when."""
        return without_none(
            {
                "receipts": self.present.receipts(operation.receipts) or None,
                "settled_at": self.present.settled_at(operation, now),
            }
        )

    async def step_shown(self, connection: Connection, step: Step, now: Instant) -> dict[str, Any]:
        """Show a step: what it is, what may be done now, and what is needed for that."""
        operation = step.operation
        if operation.is_damaged:
            return {
                **damaged_shown(operation),
                "next": step.outlook.next,
                "reason": step.outlook.reason,
                "age_seconds": max(0, now - operation.created_at) // 1_000_000,
            }
        newest = operation.newest
        entry: dict[str, Any] = {
            "operation": operation.id,
            "key": operation.key,
            "action": safe(operation.description.action),
            "target": safe(operation.description.target),
            "state": step.state.value,
            "next": step.outlook.next,
            "reason": step.outlook.reason,
            "attempt": None if newest is None else newest.number,
            "age_seconds": max(0, now - operation.created_at) // 1_000_000,
            "retry_at": None if step.outlook.retry_at is None else rfc3339(step.outlook.retry_at),
            "waits_for": keys_shown(step.outlook.waits_for) or None,
            "warnings": step_warnings(step),
        }
        if step.outlook.next == "ask":
            entry.update(authority_shown(step.authority))
            entry.update(
                await request_standing(
                    connection,
                    operation,
                    next_=step.outlook.next,
                    reason=step.outlook.reason,
                    policy=self.policy,
                )
            )
        if step.outlook.reason == "possible_duplicate":
            entry["duplicates"] = self.present.duplicates(step.duplicates, now)
        if step.outlook.next in ("reconcile", "ask", "begin") and operation.attempts:
            entry.update(await self.doubt(connection, operation, now))
        elif operation.receipts:
            entry["receipts"] = self.present.receipts(operation.receipts, most=2)
        if operation.checkpoint is not None and step.outlook.next != "skip":
            # Whoever takes the step up reads the plan first, and may have to wait before a begin tells of it.
            entry["checkpoint"] = await self.body(
                connection, operation, operation.checkpoint, detail="checkpoint"
            )
        if step.state is State.SUCCEEDED:
            entry["undo"] = undo_shown(operation)
        return without_none(entry)


async def runs_by_name(view: Viewer) -> AsyncIterator[Sequence[Row]]:
    """Give the runs of a namespace, some at a time, in the order of their names."""
    after = ""
    while True:
        place = {"namespace": view.namespace, "after": after, "most": _RUNS_AT_ONCE}

        async def page(connection: Connection, place: dict[str, object] = place) -> Sequence[Row]:
            return await connection.fetch_all("runs_page", place)

        rows = await view.database.read(page)
        if not rows:
            return
        yield rows
        after = rows[-1]["run"]


def damaged_shown(operation: Operation) -> dict[str, Any]:
    """Show an operation whose rows cannot be read: what it is, and that nothing else is known of it here."""
    return without_none(
        {
            "operation": operation.id,
            "run": safe(operation.run),
            "key": safe(operation.key),
            "action": safe(operation.description.action) or None,
            "state": State.IN_DOUBT.value,
            "warnings": [damage_warning(operation)],
        }
    )


CONTEXT_DAMAGED = (
    "the context that this was made under, or a body that its authority is weighed upon, is damaged: nothing "
    "is compared with it and nothing that depends on it is permitted, until a person has run `counterfoil "
    "verify`, which names it, and restored a backup; the rest can still be used"
)
"""What an answer says that shows what it can although a context cannot be read."""


def step_warnings(step: Step) -> list[str] | None:
    """Warn where what a step is weighed upon is damaged, or has nothing to undo; None where neither is so."""
    return [*([CONTEXT_DAMAGED] if step.is_unreadable else ()), *step.warnings] or None


def party_of(caller: Caller) -> Party:
    """Give whom a grant to this caller would go to."""
    return Party(principal=caller.principal, conversation=caller.conversation, connection=caller.connection)


def undo_shown(operation: Operation) -> dict[str, Any] | None:
    """Show how an effect is undone, where that was declared, and the detail that gives all of it."""
    undo = operation.terms.undo
    if undo is None:
        return None
    return without_none({"tool": safe(undo.tool), "instructions": safe(undo.instructions), "detail": "undo"})


def keys_shown(keys: Sequence[str]) -> list[Any]:
    """Name operations by their keys; where there are many, the last entry says how many more."""
    shown: list[Any] = [safe(key) for key in keys[:_MOST_KEYS]]
    if len(keys) > _MOST_KEYS:
        shown.append({"cut": len(keys) - _MOST_KEYS, "whole": "resume_plan with include all"})
    return shown


def safe(text: str | None) -> str | None:
    """Bound and escape a short text from outside."""
    return None if text is None else escape_untrusted(text, limit=300)


def history_entry(row: Row) -> dict[str, Any]:
    """Show one event, bounded and escaped; one that cannot be read is named as damaged."""
    try:
        return {
            "seq": row["seq"],
            "at": rfc3339(row["at"]),
            "event": EventKind(row["kind"]).value,
            "data": safe_value(_told(_event_data(row)), limit=120, items=12, depth=3),
            "caller": safe_value(json.loads(row["caller"]), limit=80, items=20, depth=2),
        }
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError):
        seq = row["seq"] if isinstance(row["seq"], int) else None
        return without_none({"seq": seq, "damaged": True, "note": EVENT_DAMAGED})


EVENT_DAMAGED = "cannot be read any more: `counterfoil verify` tells what is damaged"
"""What stands in the place of an event that cannot be read."""


def _event_data(row: Row) -> Any:
    """Read what an event says; who spoke for a person without being shown to be one does not read as one."""
    data = json.loads(row["data"])
    if row["kind"] == EventKind.FINDING_RECORDED and isinstance(data, dict) and "by" in data:
        return {**data, "by": shown_by(data["by"])}
    return data


_TIMES = frozenset(("at", "since", "since_floor", "until", "as_of"))


def _told(data: Any, name: str = "") -> Any:
    """Put an event's data into the words of answers: times as RFC 3339, assurance by its word."""
    if isinstance(data, dict):
        return {member: _told(value, member) for member, value in data.items()}
    if isinstance(data, list):
        return [_told(item) for item in data]
    if isinstance(data, int) and not isinstance(data, bool):
        if name == "assurance":
            return Assurance(data).word
        if name in _TIMES or name.endswith(("_at", "_until")):
            return rfc3339(data)
    return data


def size_of(value: Any) -> int:
    """Count the characters of a value as it stands in an answer, with what parts it from the next."""
    return len(json.dumps(value, ensure_ascii=False)) + 2
