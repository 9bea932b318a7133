"""Marks of lost history that come with runs of another journal: while a copy is under way, and for good.

Such a mark counts in one namespace only, the one that is copied or imported into; what a restore marks counts
in all of them (`restoring`).
"""

from msgspec import Struct

from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.errors import Forbidden
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.viewing import Viewer

__all__ = ["Lack", "begin_copy", "end_copy", "is_accepted", "lack_of", "take_lack"]


class Lack(Struct, frozen=True, kw_only=True):
    """What a namespace lacks: all between the moment of a backup and the moment when it was put back.

    `copy_of` is the journal whose copy into it has not ended, where it lacks what has not come yet.
    """

    restored_at: Instant
    backed_up_at: Instant
    copy_of: str | None = None


async def lack_of(view: Viewer) -> Lack | None:
    """Give the newest lack that counts in a namespace, None where its history is whole."""

    async def work(connection: Connection) -> Lack | None:
        marks = await _marks(connection, view.namespace)
        return None if not marks else Lack(**marks[0])

    return await view.database.read(work)


async def is_accepted(view: Viewer, lack: Lack, run: str | None) -> bool:
    """Tell whether a person has accepted what a namespace lacks: for a run, for all if none is named."""

    async def work(connection: Connection) -> bool:
        place = {"namespace": view.namespace, "restored_at": lack.restored_at, "run": run or ""}
        return await connection.fetch_one("accepted_gap", place) is not None

    return await view.database.read(work)


async def begin_copy(source: Viewer, target: Viewer, *, of: str) -> None:
    """Mark a namespace that holds no run yet as one that lacks history, until this copy into it has ended.

    A run that has not come yet is one that it does not know: begun there, it would be performed a second
    time. Marked, it answers `ask: history_gap`, as a restored journal does, for ever if the copy never ends.
    The mark is that of the journal copied (`of`, its id): no other copy takes it back. What that journal
    lacks by itself, the namespace is marked with for good. Whoever has the journal open has to open it again,
    as after any restore.

    Raises:
        Forbidden: it is in use already and would not know what is lacking, or what is copied is a backup or
            a copy that has not ended; nothing was changed.
    """

    async def told(connection: Connection) -> Row | None:
        return await connection.fetch_one("read_backup")

    backup = await source.database.read(told)
    if backup is not None and backup["backed_up_at"] is not None:
        raise Forbidden(
            f"what is to be copied is a backup of {rfc3339(backup['backed_up_at'])}: it lacks what "
            "came after that, and a copy would not know; nothing was copied",
            fix="put it back with `counterfoil restore FILE --journal PLACE`, then copy that journal",
        )
    lack = await lack_of(source)
    if lack is not None and lack.copy_of is not None:
        raise Forbidden(
            "what is to be copied is a copy that has not ended; nothing was copied",
            fix="end it first, by the same `counterfoil copy` that began it",
        )

    async def mark(connection: Connection) -> bool:
        marks = await _marks(connection, target.namespace)
        copies = [row["copy_of"] for row in marks if row["copy_of"] is not None]
        is_filling = bool(copies) or await _holds_no_run(connection, target.namespace)
        if lack is not None and not await _take(connection, target.namespace, lack, is_filling=is_filling):
            return False
        if is_filling and of not in copies:
            latest = await connection.fetch_one("newest_restore")
            at = target.now(connection).at
            if latest is not None:
                at = max(at, latest["restored_at"] + 1)
            await connection.execute("save_restore", {"restored_at": at, "backed_up_at": at})
            place = {"namespace": target.namespace, "restored_at": at}
            await connection.execute("bind_restore", {**place, "copy_of": of})
        return True

    if not await target.database.write(mark) and lack is not None:
        raise _refused(lack, done="copied")


async def end_copy(target: Viewer, *, of: str) -> None:
    """Take back the mark that `begin_copy` made for this copy; those of other copies stay."""

    async def work(connection: Connection) -> None:
        for row in await _marks(connection, target.namespace):
            if row["copy_of"] != of:
                continue
            place = {"namespace": target.namespace, "restored_at": row["restored_at"]}
            await connection.execute("end_restore_of_copy", {**place, "ended_at": target.now(connection).at})
            await connection.execute("unbind_restore", place)
            await connection.execute("remove_restore_of_copy", {"restored_at": row["restored_at"]})

    await target.database.write(work)


async def take_lack(target: Viewer, lack: Lack) -> None:
    """Mark a namespace that holds no run yet with what the journal that an export is of lacks.

    Raises:
        Forbidden: it is in use already and would not know what is lacking; nothing was changed.
    """

    async def work(connection: Connection) -> bool:
        is_filling = await _holds_no_run(connection, target.namespace)
        return await _take(connection, target.namespace, lack, is_filling=is_filling)

    if not await target.database.write(work):
        raise _refused(lack, done="imported")


async def _take(connection: Connection, namespace: str, lack: Lack, *, is_filling: bool) -> bool:
    """Mark a namespace with a lack for good, unless it counts there already; False where it is in use."""
    for row in await _marks(connection, namespace):
        if row["copy_of"] is None and row["restored_at"] >= lack.restored_at:
            return True
    if is_filling:
        mark = {"restored_at": lack.restored_at, "backed_up_at": lack.backed_up_at}
        await connection.execute("take_restore", mark)
        place = {"namespace": namespace, "restored_at": lack.restored_at}
        await connection.execute("bind_restore", {**place, "copy_of": None})
    return is_filling


async def _marks(connection: Connection, namespace: str) -> list[Row]:
    return list(await connection.fetch_all("restores_of_namespace", {"namespace": namespace}))


async def _holds_no_run(connection: Connection, namespace: str) -> bool:
    return await connection.fetch_one("first_run", {"namespace": namespace}) is None


def _refused(lack: Lack, *, done: str) -> Forbidden:
    return Forbidden(
        f"what is to be {done} was restored at {rfc3339(lack.restored_at)} and lacks history; the namespace "
        f"to take it is in use and would not know that; nothing was {done}",
        fix="take it into a journal that holds nothing yet",
    )
