"""What whoever records calls on behalf of an agent asks: its live attempts, its run, what is on record.

A gateway and a hook see a tool's call and not the reasoning around it. Which run the call belongs to, and
whether the agent itself has begun the effect, they learn from the journal.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.commands import Caller, Json, OperationRef
from counterfoil.store.domain.model import Operation, Party, State
from counterfoil.store.domain.states import live_attempt, state_of
from counterfoil.store.presenting import value_of
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.resolving import operation_or_fault, read_body
from counterfoil.store.rows import load_operations
from counterfoil.store.viewing import Viewer, party_of

__all__ = ["Attendance", "Attending", "LiveAttempt", "Mark", "Recorded"]

Mark = Callable[[str | None], tuple[str, str]]
"""Gives, for a run, the system and the external id of a mark."""

_MOST_LIVE = 500
_MOST_HELD = 1_000
"""Sessions at work at one time; beyond it a call is taken for one that nobody announced."""


class LiveAttempt(Struct, frozen=True, kw_only=True):
    """A permission that an agent holds now: which operation it is of, and what the effect is."""

    operation: str
    run: str
    key: str
    attempt: int
    connection: str
    action: str
    target: str | None
    args: Json


class Attendance(Struct, frozen=True, kw_only=True):
    """Where a conversation stands: the run that it holds, and its live attempts by run and key.

    `marked` is the operation that a mark is on file for (see `Attending.attendance`).
    """

    run: str | None
    live: tuple[LiveAttempt, ...]
    marked: str | None = None


class Recorded(Struct, frozen=True, kw_only=True):
    """The bodies of one operation, whole and with secrets replaced; None is "not on file".

    `was_result`: a result was recorded, and may have been pruned since.
    """

    operation: str
    run: str
    key: str
    state: State
    args: Json
    payload: Json
    is_payload_hidden: bool
    result: Json
    was_result: bool


class Attending:
    """Answers for one namespace; changes nothing."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    def hidden(self, value: Json) -> Json:
        """Give `value` as it would be stored: with every secret in it replaced.

        Raises:
            InvalidArgument: it is nested deeper than any body.
        """
        return self._view.prepare.redactor.redact(value)

    async def attendance(
        self, caller: Caller, *, mark: Mark | None = None, run: str | None = None
    ) -> Attendance:
        """Tell where the caller's conversation stands; a caller without one is known by its connection.

        The run is the one that begin_run last gave this conversation and that it still holds; it is not
        looked for where the caller knows of another `run`. `mark` gives,
        for that run, the system and the reference of an acknowledgement by which a call that was once
        attached to an agent's own operation is known again.
        """
        party = party_of(self._view.prepare.caller(caller))
        return await self._view.database.read(
            lambda connection: self.facts(connection, party, mark=mark, run=run)
        )

    async def facts(
        self, connection: Connection, party: Party, *, mark: Mark | None, run: str | None
    ) -> Attendance:
        """Read the same inside a transaction."""
        place = {"namespace": self._view.namespace}
        now = self._view.now(connection).at
        held: Sequence[Row] = ()
        if run is None:
            held = await connection.fetch_all("held_runs", {**place, "most": _MOST_HELD})
        rows = await connection.fetch_all("live_operations", {**place, **_whom(party), "most": _MOST_LIVE})
        live = []
        for operation in await load_operations(connection, rows):
            attempt = None if operation.is_damaged else live_attempt(operation, now)
            if attempt is None or attempt.holder is None or not attempt.holder.is_holder(party):
                continue
            live.append(
                LiveAttempt(
                    operation=operation.id,
                    run=operation.run,
                    key=operation.key,
                    attempt=attempt.number,
                    connection=attempt.holder.connection,
                    action=operation.description.action,
                    target=operation.description.target,
                    args=await _value(connection, operation, operation.description.args_digest),
                )
            )
        found = run or _run_of(held, party)
        marked = None if mark is None else await self._owner(connection, *mark(found))
        return Attendance(run=found, live=tuple(live), marked=marked)

    async def _owner(self, connection: Connection, system: str, external_id: str) -> str | None:
        place = {"namespace": self._view.namespace, "external_id": external_id, "system": system}
        rows = await connection.fetch_all("owners", place)
        return rows[0]["operation"] if rows else None

    async def recorded(self, ref: OperationRef) -> Recorded:
        """Give the bodies of an operation; the result is that of the first receipt that counts and has one.

        Raises:
            NotFound, InvalidArgument: which operation is meant cannot be told.
        """
        reference = self._view.prepare.reference(ref)

        async def work(connection: Connection) -> Recorded:
            operation = await operation_or_fault(connection, self._view.namespace, reference, must_exist=True)
            if operation is None:
                raise LookupError("operation_or_fault gave nothing")
            described = operation.description
            digests = [receipt.result_digest for receipt in operation.receipts if receipt.counts]
            result = next((digest for digest in digests if digest is not None), None)
            return Recorded(
                operation=operation.id,
                run=operation.run,
                key=operation.key,
                state=state_of(operation, self._view.now(connection).at),
                args=await _value(connection, operation, described.args_digest),
                payload=await _value(connection, operation, described.payload_digest),
                is_payload_hidden=described.payload_redacted,
                result=await _value(connection, operation, result),
                was_result=result is not None,
            )

        return await self._view.database.read(work)


async def _value(connection: Connection, operation: Operation, digest: str | None) -> Any:
    text = None if digest is None else await read_body(connection, operation, digest)
    return None if text is None else value_of(text)


def _whom(party: Party) -> dict[str, str | None]:
    return {name: getattr(party, name) for name in ("principal", "conversation", "connection")}


def _run_of(held: Sequence[Row], party: Party) -> str | None:
    """Give the run that a party holds; of several the one touched last."""
    own = [row for row in held if _is_held_by(row, party)]
    latest: Row | None = max(own, key=lambda row: row["touched_at"], default=None)
    return None if latest is None else latest["run"]


def _is_held_by(row: Row, party: Party) -> bool:
    try:
        told = json.loads(row["holder"])
    except (TypeError, ValueError):
        return False
    if not isinstance(told, Mapping) or not {"principal", "connection"} <= told.keys():
        return False
    holder = Party(
        principal=told["principal"], conversation=told.get("conversation"), connection=told["connection"]
    )
    return holder.is_holder(party)
