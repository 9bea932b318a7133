"""Makes the rows of operations anew from the log, where the log is whole: events are the truth, rows follow.

Rows that are what their events make of them are left alone. So is a run whose chain does not hold: nothing in
it is better known than its rows.
"""

from collections.abc import Sequence

from counterfoil.store.chain import first_fault
from counterfoil.store.domain.events import Event
from counterfoil.store.domain.grants import held_grants
from counterfoil.store.domain.instants import Instant, is_instant
from counterfoil.store.domain.model import Operation
from counterfoil.store.domain.states import state_of
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.pruning import bodies_of
from counterfoil.store.replaying import events_by_operation, grant_uses, read_log, replay, rows_problem
from counterfoil.store.saving_rows import save_operation
from counterfoil.store.shared_rows import UnfitRow, remove_unfit

__all__ = ["repair_run", "repair_shared"]


async def repair_run(connection: Connection, run: Row, *, now: Instant) -> list[str]:
    """Make the rows of a run's operations anew that are damaged, gone or differ; give the operations' ids.

    What the log does not tell, when bodies were pruned, is kept where it can be read; where it went with the
    row, a settled operation whose bodies are missing is marked as pruned now.
    """
    place = {"namespace": run["namespace"], "run": run["run"]}
    stored = {old["id"]: old for old in await connection.fetch_all("read_operations", place)}
    uses = await grant_uses(connection, place)
    repaired = []
    for name, own in (await _whole_log(connection, place)).items():
        replayed = None if name == "" else replay(own)
        if replayed is None:
            continue
        named = {"namespace": run["namespace"], "id": name}
        # A row that was put into another run stands in the way there.
        old = stored.get(name) or await connection.fetch_one("read_operation_by_id", named)
        if (
            old is not None
            and await rows_problem(connection, old, replayed) is None
            and held_grants(replayed) == uses.get(name, {})
        ):
            continue
        for statement in ("remove_attempts", "remove_receipts", "remove_findings", "remove_grant_uses"):
            await connection.execute(statement, {**place, "operation": name})
        await connection.execute("remove_operation", {**place, "id": name, "key": replayed.key})
        if old is not None and old["run"] != run["run"]:
            await connection.execute("remove_operation", {**named, "run": old["run"], "key": old["key"]})
        await save_operation(connection, None, replayed, replayed.updated_at)
        pruned_at = None if old is None else old["pruned_at"]
        if old is None or not (pruned_at is None or is_instant(pruned_at)):
            pruned_at = await _pruned_anew(connection, replayed, now)
        if pruned_at is not None:
            await connection.execute("mark_pruned", {**place, "id": name, "pruned_at": pruned_at})
        anew = await connection.fetch_one("read_operation_by_id", named)
        if anew is not None and await rows_problem(connection, anew, replayed) is None:
            repaired.append(name)
    return repaired


async def repair_shared(
    connection: Connection, *, namespace: str, run: str, unfit: Sequence[UnfitRow]
) -> list[str]:
    """Put right what is compared across runs, of the operations of a run; give the operations' ids."""
    by_operation = await _whole_log(connection, {"namespace": namespace, "run": run})
    if not by_operation:
        return []
    for row in unfit:
        if not row.is_lacking:
            await remove_unfit(connection, row)
    repaired = []
    for name in dict.fromkeys(row.operation for row in unfit):
        replayed = replay(by_operation.get(name, ()))
        if replayed is not None:
            # Every row that its events lead to; those that are there stay as they are.
            await save_operation(connection, None, replayed, replayed.updated_at)
            anew = await connection.fetch_one("read_operation_by_id", {"namespace": namespace, "id": name})
            if anew is None or await rows_problem(connection, anew, replayed) is not None:
                continue
        repaired.append(name)
    return repaired


async def _whole_log(connection: Connection, place: dict[str, str]) -> dict[str, list[Event]]:
    """Give a run's events by operation; none where its chain does not hold."""
    row = await connection.fetch_one("read_run", place)
    log = await read_log(connection, place)
    if (
        row is None
        or first_fault(
            log, namespace=place["namespace"], run=place["run"], last_seq=row["last_seq"], head=row["head"]
        )
        is not None
    ):
        return {}
    events, unreadable = events_by_operation(log)
    return {} if unreadable else events


async def _pruned_anew(connection: Connection, operation: Operation, now: Instant) -> Instant | None:
    """Give when an operation whose row is gone counts as pruned: now, if it is settled and lacks a body."""
    if not state_of(operation, now).is_settled:
        return None
    place = {"namespace": operation.namespace, "run": operation.run, "before": now + 1}
    there = {row["digest"] for row in await connection.fetch_all("old_bodies", place)}
    return None if there >= set(bodies_of(operation)) else now
