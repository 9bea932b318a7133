"""What a hook asks: it sees the beginning and the end of a call in two processes, and has to join the two."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from counterfoil.store.domain.commands import Caller
from counterfoil.store.domain.model import Operation, Party, State
from counterfoil.store.domain.states import is_live, state_of
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.rows import load_operation, load_operations
from counterfoil.store.viewing import Viewer, party_of

__all__ = ["AttendedCalls", "HeldAttempt"]

_MOST_HELD = 500
_MOST_ELSEWHERE = 20


class HeldAttempt(Struct, frozen=True, kw_only=True):
    """The newest attempt of an operation, and what was noted at it.

    `is_live`: its lease has not run out. `marks` are the external ids of the acknowledgements at this very
    attempt by a system that was asked about, `calls` the ids of the calls that began or marked it.
    `earlier` are the attempts before it by the ids of such calls of theirs. `goes_on`: another system
    acknowledged it, so that its end may come long after the call's.
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
    goes_on: bool
    earlier: Mapping[str, int] = field(default_factory=dict)


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

    async def in_doubt(
        self, caller: Caller, *, runs: Collection[str], system: str
    ) -> tuple[HeldAttempt, ...]:
        """Give what is in doubt in some runs since an attempt of a conversation ended, by its end on record.

        What somebody looked for since is left out: whoever did knows of it.
        """
        party = party_of(self._view.prepare.caller(caller))
        names = [self._view.prepare.name(run, name="run") for run in runs]

        async def work(connection: Connection) -> tuple[HeldAttempt, ...]:
            now = self._view.now(connection).at
            found = []
            for run in names:
                rows = await connection.fetch_all(
                    "read_unsettled_operations", {"namespace": self._view.namespace, "run": run}
                )
                in_doubt = [row for row in rows if row["state"] == State.IN_DOUBT.value]
                for operation in await load_operations(connection, in_doubt):
                    if _is_left_in_doubt(operation, party, now):
                        found.append(_held(operation, now, system))
            return tuple(found)

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

    async def elsewhere(self, *, run: str, key: str, system: str, mark: str) -> tuple[HeldAttempt, ...]:
        """Give what other runs have on file for a call, as `on_file` gives it for one; the first few.

        Raises:
            InvalidArgument: the run or the key is no name.
        """
        run, key = (self._view.prepare.name(name, name=field) for name, field in ((run, "run"), (key, "key")))

        async def work(connection: Connection) -> tuple[HeldAttempt, ...]:
            now, place = self._view.now(connection).at, {"namespace": self._view.namespace}
            found = list(
                await connection.fetch_all(
                    "read_operations_of_key", {**place, "key": key, "most": _MOST_ELSEWHERE}
                )
            )
            owners = await connection.fetch_all("owners", {**place, "external_id": mark, "system": system})
            for owner in owners[:_MOST_ELSEWHERE]:
                row = await connection.fetch_one("read_operation_by_id", {**place, "id": owner["operation"]})
                if row is not None and row["key"] != key:
                    found.append(row)
            return await _standing(connection, [row for row in found if row["run"] != run], now, system)

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


def _is_left_in_doubt(operation: Operation, party: Party, now: int) -> bool:
    newest = None if operation.is_damaged else operation.newest
    if newest is None or newest.holder is None or not newest.holder.is_holder(party):
        return False
    was_looked_for = any(finding.attempt == newest.number for finding in operation.findings)
    return state_of(operation, now) is State.IN_DOUBT and not was_looked_for


def _held(operation: Operation, now: int, system: str | None) -> HeldAttempt:
    newest = operation.newest
    number = 0 if newest is None else newest.number
    marks = [
        receipt
        for receipt in operation.receipts
        if receipt.system == system and not receipt.final and receipt.attempt == number
    ]
    acknowledged = [receipt for receipt in operation.receipts if not receipt.final]
    calls = [None if newest is None else newest.call_id, *(receipt.call_id for receipt in marks)]
    earlier = [(attempt.call_id, attempt.number) for attempt in operation.attempts]
    earlier += [(receipt.call_id, receipt.attempt) for receipt in acknowledged if receipt.system == system]
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
        earlier={call: at for call, at in earlier if call is not None and at and at != number},
        goes_on=any(
            receipt.attempt == number and not _is_of(receipt.system, system) for receipt in acknowledged
        ),
    )


def _is_of(system: str | None, asked: str | None) -> bool:
    """Tell whether a system is the one asked about, or a part of it: `SYSTEM:…`."""
    return system == asked or (asked is not None and (system or "").startswith(f"{asked}:"))
