"""Makes the rows of operations anew from the log, where the log is whole: events are the truth, rows follow.

Rows that are what their events make of them are left alone. So is a run whose chain does not hold: nothing in
it is better known than its rows.
"""

from counterfoil.store.chain import first_fault
from counterfoil.store.domain.events import evolve_all
from counterfoil.store.domain.states import state_of
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.replaying import events_by_operation, read_log
from counterfoil.store.rows import load_operation, save_operation

__all__ = ["repair_run"]


async def repair_run(connection: Connection, run: Row) -> list[str]:
    """Make the rows of a run's operations anew that are damaged, gone or differ; give the operations' ids.

    What the log does not tell, when bodies were pruned, is kept where it can be read.
    """
    place = {"namespace": run["namespace"], "run": run["run"]}
    row = await connection.fetch_one("read_run", place)
    log = await read_log(connection, place)
    if row is None or first_fault(log, **place, last_seq=row["last_seq"], head=row["head"]) is not None:
        return []
    events, unreadable = events_by_operation(log)
    if unreadable:
        return []
    stored = {old["id"]: old for old in await connection.fetch_all("read_operations", place)}
    repaired = []
    for name, own in events.items():
        replayed = None if name == "" else evolve_all(None, own)
        if replayed is None:
            continue
        old = stored.get(name)
        if (
            old is not None
            and old["state"] == state_of(replayed, replayed.updated_at).value
            and await load_operation(connection, old) == replayed
        ):
            continue
        for statement in ("remove_attempts", "remove_receipts", "remove_findings"):
            await connection.execute(statement, {**place, "operation": name})
        await connection.execute("remove_operation", {**place, "id": name, "key": replayed.key})
        await save_operation(connection, None, replayed, replayed.updated_at)
        if old is not None and old["pruned_at"] is not None:
            await connection.execute("mark_pruned", {**place, "id": name, "pruned_at": old["pruned_at"]})
        repaired.append(name)
    return repaired
