"""Marks of lost history that come with runs of another journal: while they come, and for good.

Such a mark counts in one namespace only, the one that is copied or imported into; what a restore marks counts
in all of them (`restoring`).
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.gaps import lacks_history
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Operation, State
from counterfoil.store.domain.states import state_of
from counterfoil.store.errors import Forbidden
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.viewing import Viewer

__all__ = [
    "Lack",
    "begin_copy",
    "begin_import",
    "closes_gap",
    "end_copy",
    "end_import",
    "is_accepted",
    "lack_of",
    "unfinished",
]

_EXPORT = "export"
_OPEN = (State.PLANNED, State.IN_PROGRESS, State.IN_DOUBT, State.FAILED)


class Lack(Struct, frozen=True, kw_only=True):
    """What a namespace lacks: all between the moment of a backup and the moment when it was put back.

    `copy_of` is the journal whose runs have not all come yet, where it lacks those; `exported_at` is the
    moment of its export where they come in a file, and None where they are copied.
    """

    restored_at: Instant
    backed_up_at: Instant
    copy_of: str | None = None
    exported_at: Instant | None = None

    @property
    def command(self) -> str:
        """The command that ends what has not ended."""
        return "copy" if self.exported_at is None else "import"


async def lack_of(view: Viewer) -> Lack | None:
    """Give the newest lack that counts in a namespace, None where its history is whole."""

    async def work(connection: Connection) -> Lack | None:
        marks = await _marks(connection, view.namespace)
        return marks[0] if marks else None

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
        raise unfinished(lack, to_be="copied")
    await _begin(target, lack, _arriving(of), to_be="copied")


async def end_copy(target: Viewer, *, of: str) -> None:
    """Take back the marks of this copy, and of imports of that journal: it has all that an export of it had.

    Those of other journals stay.
    """
    await _end(target, lambda mark: mark.copy_of == of)


async def begin_import(
    target: Viewer, *, of: str, exported_at: Instant, lack: Lack | None, runs: int
) -> None:
    """Mark a namespace that holds no run yet as one that lacks history, until this file has come into it.

    As `begin_copy` does, and for the same reason; `of` and `exported_at` name the export, `lack` is what the
    journal lacked that it is of. What comes in one transaction, as a single run does, needs no mark.

    Raises:
        Forbidden: it is in use already and would not know what is lacking; nothing was changed.
    """
    await _begin(target, lack, _arriving(of, exported_at) if runs > 1 else None, to_be="imported")


async def end_import(target: Viewer, *, of: str, exported_at: Instant, runs: int) -> None:
    """Take back the mark of this import, and of those of earlier exports of that journal.

    It has what they had; but not what a copy may bring, whose mark stays. An export of a single run, which is
    often one of many, takes no mark back.
    """

    def has_come(mark: Lack) -> bool:
        return mark.copy_of == of and mark.exported_at is not None and mark.exported_at <= exported_at

    if runs > 1:
        await _end(target, has_come)


def unfinished(lack: Lack, *, to_be: str) -> Forbidden:
    """Make the refusal of what has not come whole itself."""
    return Forbidden(
        f"what is to be {to_be} lacks what a `counterfoil {lack.command}` into it has still to bring, which "
        f"has not ended; nothing was {to_be}",
        fix=f"end it first, by the same `counterfoil {lack.command}` that began it",
    )


async def closes_gap(
    connection: Connection,
    namespace: str,
    run: str,
    operations: Iterable[Operation],
    *,
    theirs: Lack | None,
    now: Instant,
) -> Operation | None:
    """Find an operation of another journal that would count as one with a history since this one's restore.

    An attempt granted elsewhere, and a person's look there, say nothing of what this journal did in the time
    that it lacks: taken over with its log, such an operation would be begun here and nobody would be asked.
    What is settled permits nothing. Where `theirs`, what the other journal lacks, is the same, so is the time
    since.
    """
    marks = [mark for mark in await _marks(connection, namespace) if mark.copy_of is None]
    if not marks or (theirs is not None and theirs.restored_at >= marks[0].restored_at):
        return None
    lost_at = marks[0].restored_at
    place = {"namespace": namespace, "restored_at": lost_at, "run": run}
    if await connection.fetch_one("accepted_gap", place) is not None:
        return None
    return next(
        (each for each in operations if state_of(each, now) in _OPEN and not lacks_history(each, lost_at)),
        None,
    )


async def _begin(target: Viewer, lack: Lack | None, arriving: str | None, *, to_be: str) -> None:
    """Mark a namespace with what comes with a journal for good, and until it has come."""

    async def mark(connection: Connection) -> bool:
        marks = await _marks(connection, target.namespace)
        coming = [_arriving(row.copy_of, row.exported_at) for row in marks if row.copy_of is not None]
        is_filling = bool(coming) or await _holds_no_run(connection, target.namespace)
        if lack is not None and not await _take(connection, target.namespace, lack, is_filling=is_filling):
            return False
        if is_filling and arriving is not None and arriving not in coming:
            latest = await connection.fetch_one("newest_restore")
            at = target.now(connection).at
            if latest is not None:
                at = max(at, latest["restored_at"] + 1)
            await connection.execute("save_restore", {"restored_at": at, "backed_up_at": at})
            place = {"namespace": target.namespace, "restored_at": at}
            await connection.execute("bind_restore", {**place, "copy_of": arriving})
        return True

    if not await target.database.mark(mark) and lack is not None:
        raise _refused(lack, done=to_be)


async def _end(target: Viewer, has_come: Callable[[Lack], bool]) -> None:
    """Take back the marks of what has come."""

    async def work(connection: Connection) -> None:
        for mark in await _marks(connection, target.namespace):
            if mark.copy_of is None or not has_come(mark):
                continue
            place = {"namespace": target.namespace, "restored_at": mark.restored_at}
            await connection.execute("end_restore_of_copy", {**place, "ended_at": target.now(connection).at})
            await connection.execute("unbind_restore", place)
            await connection.execute("remove_restore_of_copy", {"restored_at": mark.restored_at})

    await target.database.mark(work)


async def _take(connection: Connection, namespace: str, lack: Lack, *, is_filling: bool) -> bool:
    """Mark a namespace with a lack for good, unless it counts there already; False where it is in use."""
    for known in await _marks(connection, namespace):
        if known.copy_of is None and known.restored_at >= lack.restored_at:
            return True
    if is_filling:
        mark = {"restored_at": lack.restored_at, "backed_up_at": lack.backed_up_at}
        await connection.execute("take_restore", mark)
        place = {"namespace": namespace, "restored_at": lack.restored_at}
        await connection.execute("bind_restore", {**place, "copy_of": None})
    return is_filling


async def _marks(connection: Connection, namespace: str) -> list[Lack]:
    """Give what counts in a namespace, the newest first."""
    rows = await connection.fetch_all("restores_of_namespace", {"namespace": namespace})
    return [
        Lack(
            restored_at=row["restored_at"], backed_up_at=row["backed_up_at"], **_read_arriving(row["copy_of"])
        )
        for row in rows
    ]


def _arriving(journal: str, exported_at: Instant | None = None) -> str:
    """Write what is coming as the column `copy_of` has it: a journal, or an export of it."""
    return journal if exported_at is None else f"{_EXPORT} {exported_at} {journal}"


def _read_arriving(text: str | None) -> dict[str, Any]:
    """Read what `_arriving` wrote."""
    kind, _, rest = (text or "").partition(" ")
    moment, _, journal = rest.partition(" ")
    if kind != _EXPORT or not moment.lstrip("-").isdecimal():
        return {"copy_of": text}
    return {"copy_of": journal, "exported_at": int(moment)}


async def _holds_no_run(connection: Connection, namespace: str) -> bool:
    return await connection.fetch_one("first_run", {"namespace": namespace}) is None


def _refused(lack: Lack, *, done: str) -> Forbidden:
    return Forbidden(
        f"what is to be {done} was restored at {rfc3339(lack.restored_at)} and lacks history; the namespace "
        f"to take it is in use and would not know that; nothing was {done}",
        fix="take it into a journal that holds nothing yet",
    )
