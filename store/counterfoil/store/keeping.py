"""Keeping a journal for years: backups, pruning, exports and imports, and what a person accepts as lost.

The rooms of a person's commands, beside the ones of agents; see also `restoring`, which needs no journal.
"""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from counterfoil.store.copy_check import Checked, compare
from counterfoil.store.copying import Copied, Copier, Progress
from counterfoil.store.domain.commands import Caller
from counterfoil.store.domain.granting import NamespaceEvent, NamespaceEventKind
from counterfoil.store.domain.instants import Instant, micros
from counterfoil.store.errors import Forbidden, InvalidArgument, JournalUnavailable
from counterfoil.store.exporting import Exporter
from counterfoil.store.importing import Importer, Taken
from counterfoil.store.lost_history import Lack, begin_copy, end_copy, is_accepted, lack_of
from counterfoil.store.namespace_log import accepted_in_log, append
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.pruning import Pruned, prune_run
from counterfoil.store.repairing import repair_run, repair_shared
from counterfoil.store.shared_rows import UnfitRow, unfit_rows
from counterfoil.store.spool import Spool
from counterfoil.store.statements import StatementRefused
from counterfoil.store.viewing import Viewer, runs_by_name
from counterfoil.store.writing import caller_text

if TYPE_CHECKING:
    from counterfoil.store.journal_identity import JournalIdentity

__all__ = ["AcceptedGap", "Backup", "Keeper"]


class Backup(Struct, frozen=True, kw_only=True):
    """A finished backup."""

    path: str
    size_bytes: int
    backed_up_at: Instant


class AcceptedGap(Struct, frozen=True, kw_only=True):
    """What a person accepted; `is_new` is False where it had been accepted before."""

    run: str | None
    restored_at: Instant
    is_new: bool


class Keeper:
    """Keeps one namespace of one journal; a backup holds all of them."""

    def __init__(self, view: Viewer, *, identity: "JournalIdentity") -> None:
        self._view = view
        self._identity = identity

    async def backup(self, path: str | os.PathLike[str]) -> Backup:
        """Copy the whole journal to a new file while it is in use.

        Raises:
            JournalUnavailable: something lies at `path`, or the journal is busy or of another kind.
        """
        copy_to = getattr(self._view.database.whole, "copy_to", None)
        if copy_to is None:
            raise JournalUnavailable(
                "this database makes its own backups", fix="use the database's own tools, such as pg_dump"
            )
        now = self._view.clock().at
        size = await copy_to(path, backed_up_at=now)
        return Backup(path=os.fspath(path), size_bytes=size, backed_up_at=now)

    async def repair(self) -> list[str]:
        """Make rows anew that are not what their events make of them, in every namespace; give the ids.

        Only where a run's chain holds; what stays wrong is what `verify` finds afterwards.
        """

        async def runs(connection: Connection) -> Sequence[Row]:
            return await connection.fetch_all("all_runs")

        repaired: list[str] = []
        for run in await self._view.database.read(runs):
            if not isinstance(run["namespace"], str) or not isinstance(run["run"], str):
                continue

            async def work(connection: Connection, run: Row = run) -> list[str]:
                return await repair_run(connection, run, now=self._view.clock().at)

            # A row that was put elsewhere stands in the way of this run's: the others are made anew.
            with suppress(StatementRefused):
                repaired += await self._view.database.write(work)
        homes: dict[tuple[str, str], list[UnfitRow]] = {}
        for unfit in await self._view.database.read(unfit_rows):
            homes.setdefault((unfit.namespace, unfit.run), []).append(unfit)
        for (namespace, run_name), found in homes.items():
            shared = partial(repair_shared, namespace=namespace, run=run_name, unfit=found)
            with suppress(StatementRefused):
                repaired += await self._view.database.write(shared)
        return list(dict.fromkeys(repaired))

    async def gap(self, run: str | None = None) -> tuple[Lack | None, bool]:
        """Give what this journal lacks since it was put back, and whether a person has accepted that.

        For a run, as the journal has its name, or for all where none is named. None: it lacks nothing.
        """
        lack = await lack_of(self._view)
        return lack, lack is not None and await is_accepted(self._view, lack, run)

    async def accept_gap(self, run: str | None, caller: Caller) -> AcceptedGap:
        """Let operations of a run, or of every run, be attempted although the journal lacks history.

        A run that the journal does not know may be named.

        Raises:
            Forbidden: nobody was shown to be a person.
            InvalidArgument: this journal was never restored, or the name is none.
        """
        if not caller.is_person:
            raise Forbidden(
                "only a person accepts what a restored journal lacks; nothing was recorded",
                fix="answer at a terminal, or bring the operator's secret",
            )
        restored_at = self._view.policy.history_lost_at
        if restored_at is None:
            raise InvalidArgument(
                "accept-gap", "this journal was never restored", accepted="a journal that lacks history"
            )
        name = None if run is None else self._view.prepare.name(run, name="run")
        text = caller_text(self._view.prepare.caller(caller))

        async def work(connection: Connection) -> bool:
            """Accept once: who did it first stays on file."""
            namespace, at = self._view.namespace, self._view.now(connection).at
            place = {"run": name or "", "restored_at": restored_at}
            if await accepted_in_log(connection, namespace, run=name or "", restored_at=restored_at):
                return False
            await append(
                connection,
                namespace,
                lambda _fresh: NamespaceEvent(kind=NamespaceEventKind.GAP_ACCEPTED, at=at, data=place),
                caller=text,
            )
            return True

        is_new = await self._view.database.write(work)
        return AcceptedGap(run=name, restored_at=restored_at, is_new=is_new)

    async def prune(self, *, older_than_seconds: float, is_dry: bool = False) -> Pruned:
        """Remove the bodies of operations that were settled, and left alone, for longer than that.

        One transaction per run. The space is given back by `reclaim`.
        """
        now = await self._view.moment()
        before = now - micros(older_than_seconds)
        pruned = Pruned()
        async for page in runs_by_name(self._view):
            for run in page:

                async def work(connection: Connection, run: Row = run) -> Pruned:
                    return await prune_run(connection, self._view, run, before=before, now=now, is_dry=is_dry)

                database = self._view.database
                pruned += await (database.read(work) if is_dry else database.write(work))
        return pruned

    async def reclaim(self) -> int | None:
        """Give the space of what was removed back to the disk: how many bytes, None where that is not ours.

        Raises:
            JournalUnavailable: in use; the space is used again for what is recorded next.
        """
        reclaim = getattr(self._view.database.whole, "reclaim", None)
        return None if reclaim is None else int(await reclaim())

    def export(self, *, run: str | None = None) -> AsyncIterator[str]:
        """Give the lines of an export; see `exporting`."""
        return Exporter(self._view, identity=self._identity).lines(run)

    async def take_in(self, spool: Spool, caller: Caller) -> Taken:
        """Add the evidence of an export; see `importing`."""
        return await Importer(self._view).take_in(spool, caller)

    async def begin_copy_of(self, other: "Keeper") -> None:
        """Mark this namespace before one is copied into it; then open it anew. See `begin_copy`.

        Raises:
            Forbidden: it cannot be copied into this one; nothing was changed.
        """
        await begin_copy(other._view, self._view, of=other._identity.id)

    async def end_copy_of(self, other: "Keeper") -> None:
        """Let what was copied of another journal count as whole: the last thing that is done."""
        await end_copy(self._view, of=other._identity.id)

    async def copy_from(
        self, other: "Keeper", caller: Caller, *, tell: Callable[[Progress], None] = lambda _: None
    ) -> tuple[Copied, Checked]:
        """Copy this namespace of another journal into this one, then compare; see `copying`, `copy_check`.

        Raises:
            JournalUnavailable: one of the two cannot be used; what was copied before stays.
        """
        copier = Copier(other._view, self._view, identities=(other._identity, self._identity), tell=tell)
        copied = await copier.copy(caller)
        return copied, await compare(other._view, self._view, tell=tell)

    async def namespaces(self) -> list[str]:
        """Name every namespace of this journal that has runs."""

        async def work(connection: Connection) -> list[str]:
            return [row["namespace"] for row in await connection.fetch_all("namespaces_on_file")]

        return await self._view.database.read(work)
