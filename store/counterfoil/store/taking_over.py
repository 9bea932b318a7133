"""Takes the log of a run over as it stands, hashes included, whole or from where it is known; rows follow."""

from collections.abc import Mapping
from typing import Any

from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.instants import Instant
from counterfoil.store.given_runs import GivenRun, Standing
from counterfoil.store.protocol import Connection
from counterfoil.store.pruning import bodies_of
from counterfoil.store.saving_rows import save_operation, save_run

__all__ = ["save_contexts", "take_over"]


async def save_contexts(connection: Connection, given: GivenRun, *, now: Instant) -> None:
    """Keep the contexts that a run names."""
    for digest, text in given.contexts.items():
        await connection.execute(
            "save_context",
            {"namespace": given.namespace, "digest": digest, "body": text, "stored_at": now},
        )


async def take_over(connection: Connection, given: GivenRun, *, known: Standing | None, now: Instant) -> bool:
    """Append the proved events of a run to what is known of it, and write the rows that follow from them.

    Nothing is taken, and the answer is False, where the run is not (or no longer) known just so far.
    """
    place = {"namespace": given.namespace, "run": given.run}
    named = {"workflow": given.workflow, "workflow_version": given.workflow_version}
    run = None if known is None else known.run
    if run is None:
        fresh = {"created_at": given.created_at, "touched_at": given.touched_at, "head": given.head}
        if await connection.fetch_one("create_run", {**place, **named, **fresh}) is None:
            return False
    created = sum(event["kind"] == EventKind.OPERATION_CREATED.value for event in given.events)
    advanced = await connection.execute(
        "advance_run",
        {
            **place,
            "touched_at": given.touched_at if run is None else max(given.touched_at, run.touched_at),
            "last_seq": given.last_seq,
            "head": given.head,
            "operations": created + (0 if run is None else run.operations),
            "expected_seq": 0 if known is None else known.seq,
        },
    )
    if advanced == 0:
        return False
    if run is not None and (given.workflow, given.workflow_version) != (run.workflow, run.workflow_version):
        await connection.execute("name_workflow", {**place, **named})
    if given.run_after is not None:
        await save_run(connection, given.run_after)
    before, gathered = {} if known is None else known.operations, _Gathered(connection)
    for operation in given.operations.values():
        # The stored state is that of the last event; what time has done since, reads see by themselves.
        await save_operation(gathered, before.get(operation.id), operation, operation.updated_at)
    await gathered.execute_all()
    await connection.execute_many("append_event", given.events)
    bodies = [
        {**place, "digest": digest, "body": text, "stored_at": stored_at}
        for digest, (text, stored_at) in given.bodies.items()
    ]
    if bodies:
        await connection.execute_many("save_body", bodies)
    await save_contexts(connection, given, now=now)
    await _mark_missing(connection, given, now)
    return True


class _Gathered:
    """Takes what is to be executed and executes it together, each statement for all its rows at once.

    One hop to a thread, or one way to a server, for many rows. Operations come first: others refer to them.
    """

    def __init__(self, connection: Connection) -> None:
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        self.now, self.history_lost_at = connection.now, connection.history_lost_at
        self.fetch_one, self.fetch_all = connection.fetch_one, connection.fetch_all
        self.execute_many = connection.execute_many

    async def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        self._rows.setdefault(statement, []).append(parameters or {})
        return 1

    async def execute_all(self) -> None:
        for statement in sorted(self._rows, key=lambda name: name != "save_operation"):
            await self.execute_many(statement, self._rows[statement])


async def _mark_missing(connection: Connection, given: GivenRun, now: Instant) -> None:
    """Mark the operations whose bodies were pruned where they come from."""
    place = {"namespace": given.namespace, "run": given.run}
    for operation in given.operations.values():
        for digest in bodies_of(operation):
            # What an earlier part of the log named came with that part.
            if digest in given.bodies or await connection.fetch_one("read_body", {**place, "digest": digest}):
                continue
            await connection.execute("mark_pruned", {**place, "id": operation.id, "pruned_at": now})
            break
