"""What a hook asks: it sees the beginning and the end of a call in two processes, and has to join the two."""

from collections.abc import Sequence
from dataclasses import dataclass

from counterfoil.store.domain.commands import Caller
from counterfoil.store.domain.model import Operation, State
from counterfoil.store.domain.states import is_live, state_of
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.rows import load_operation, load_operations
from counterfoil.store.viewing import Viewer, party_of

__all__ = ["AttendedCalls", "HeldAttempt"]

_MOST_HELD = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAttempt:
    """The newest attempt of an operation, and what was noted at it.

    `is_live`: its lease has not run out. `marks` are the external ids of the acknowledgements at this very
    attempt by a system that was asked about, `calls` the ids of the calls that began or marked it.
    """

    operation: str
    run: str
    key: str
    state: State
    attempt: int
    is_live: bool
    connection: str
    action: str
    target: str | None
    distinct_from: tuple[str, ...]
    marks: tuple[str, ...]
    calls: tuple[str, ...]


class AttendedCalls:
    """Answers for one namespace; changes nothing."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def held(self, caller: Caller, *, system: str) -> tuple[HeldAttempt, ...]:
        """Give the attempts that a conversation holds, or held until their leases ran out unnoticed."""
        party = party_of(self._view.prepare.caller(caller))

        async def work(connection: Connection) -> tuple[HeldAttempt, ...]:
            now = self._view.now(connection).at
            rows = await connection.fetch_all(
                "live_operations",
                {
                    "namespace": self._view.namespace,
                    "principal": party.principal,
                    "conversation": party.conversation,
                    "connection": party.connection,
                    "most": _MOST_HELD,
                },
            )
            held = []
            for operation in await load_operations(connection, rows):
                newest = None if operation.is_damaged else operation.newest
                if newest is not None and newest.holder is not None and newest.holder.is_holder(party):
                    held.append(_held(operation, now, system))
            return tuple(held)

        return await self._view.database.read(work)

    async def on_file(self, *, run: str, key: str, system: str | None, mark: str) -> tuple[HeldAttempt, ...]:
        """Give what a run has on file for a call: the operation of its key, and those that it was marked at.

        Without a system a mark counts under any; which ones stand at an attempt is not told then.

        Raises:
            InvalidArgument: the run or the key is no name.
        """
        run, key = (self._view.prepare.name(name, name=field) for name, field in ((run, "run"), (key, "key")))

        async def work(connection: Connection) -> tuple[HeldAttempt, ...]:
            now, place = self._view.now(connection).at, {"namespace": self._view.namespace}
            own = await connection.fetch_one("read_operation", {**place, "run": run, "key": key})
            rows = [] if own is None else [own]
            owners = await connection.fetch_all("owners", {**place, "external_id": mark, "system": system})
            for owner in owners:
                row = await connection.fetch_one("read_operation_by_id", {**place, "id": owner["operation"]})
                if row is not None and row["run"] == run and row["key"] != key:
                    rows.append(row)
            return await _standing(connection, rows, now, system)

        return await self._view.database.read(work)


async def _standing(
    connection: Connection, rows: Sequence[Row], now: int, system: str | None
) -> tuple[HeldAttempt, ...]:
    loaded = [await load_operation(connection, row) for row in rows]
    return tuple(
        _held(operation, now, system)
        for operation in loaded
        if operation is not None and not operation.is_damaged
    )


def _held(operation: Operation, now: int, system: str | None) -> HeldAttempt:
    newest = operation.newest
    number = 0 if newest is None else newest.number
    marks = [
        receipt
        for receipt in operation.receipts
        if receipt.system == system and not receipt.final and receipt.attempt == number
    ]
    calls = [None if newest is None else newest.call_id, *(receipt.call_id for receipt in marks)]
    return HeldAttempt(
        operation=operation.id,
        run=operation.run,
        key=operation.key,
        state=state_of(operation, now),
        attempt=number,
        is_live=newest is not None and is_live(operation, newest, now),
        connection="" if newest is None or newest.holder is None else newest.holder.connection,
        action=operation.description.action,
        target=operation.description.target,
        distinct_from=operation.distinct_from,
        marks=tuple(receipt.external_id for receipt in marks if receipt.external_id is not None),
        calls=tuple(call for call in calls if call is not None),
    )
