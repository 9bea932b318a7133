"""Compactions: what a conversation began before one, its model no longer remembers."""

from collections.abc import Callable, Mapping
from functools import partial

from counterfoil.store.domain.commands import Caller
from counterfoil.store.domain.granting import NamespaceEvent, NamespaceEventKind
from counterfoil.store.domain.instants import Instant
from counterfoil.store.namespace_log import append
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.viewing import Viewer
from counterfoil.store.writing import caller_text

__all__ = ["copy_compactions", "note_compaction"]

_MOST_LOOKED_THROUGH = 10_000
"""Operations, newest first; a conversation that is in none of so many may still have begun an older one."""


async def note_compaction(view: Viewer, caller: Caller) -> bool:
    """Take down that a conversation was compacted now, or is about to be; tell whether anything was written.

    Nothing is where it has no more to forget: it was granted no attempt, or none since it was last told of.
    So the same compaction may be told of twice. Where that cannot be seen it is written.

    Raises:
        JournalUnavailable: nothing was recorded.
    """
    conversation, namespace = caller.conversation, view.namespace
    if not conversation:
        return False
    place = {"namespace": namespace, "conversation": conversation}

    async def look(connection: Connection) -> tuple[Row | None, Row | None]:
        asked = {**place, "most": _MOST_LOOKED_THROUGH}
        latest = await connection.fetch_one("latest_grant_of_conversation", asked)
        return latest, await connection.fetch_one("read_compaction", place)

    # Before the writing transaction, which would let others wait, or lose races with them.
    latest, last = await view.database.read(look)
    granted_at: Instant | None = None if latest is None else latest["granted_at"]
    is_all = latest is not None and latest["looked_through"] < _MOST_LOOKED_THROUGH
    if granted_at is None and is_all:
        return False
    if granted_at is not None and last is not None and granted_at <= last["compacted_at"]:
        return False

    async def work(connection: Connection) -> None:
        # A wall clock that was set back makes nothing remembered that is forgotten.
        now = view.now(connection).at
        await _append(connection, namespace, {conversation: max(now, granted_at or now)}, caller, at=now)

    await view.database.write(work)
    return True


async def copy_compactions(source: Viewer, target: Viewer, caller: Caller) -> None:
    """Take down in one journal what another one knows of the compactions in the same namespace.

    Raises:
        JournalUnavailable: one of the two cannot be used; nothing was recorded.
    """

    async def look(connection: Connection) -> list[Row]:
        return list(await connection.fetch_all("read_compactions", {"namespace": source.namespace}))

    rows = await source.database.read(look)
    if not rows:
        return

    async def work(connection: Connection) -> None:
        known = {
            row["conversation"]: row["compacted_at"]
            for row in await connection.fetch_all("read_compactions", {"namespace": target.namespace})
        }
        later = {
            row["conversation"]: row["compacted_at"]
            for row in rows
            if row["compacted_at"] > known.get(row["conversation"], -1)
        }
        await _append(connection, target.namespace, later, caller, at=target.now(connection).at)

    await target.database.write(work)


async def _append(
    connection: Connection, namespace: str, compactions: Mapping[str, Instant], caller: Caller, *, at: Instant
) -> None:
    for conversation, compacted_at in compactions.items():
        row = await connection.fetch_one(
            "read_compaction", {"namespace": namespace, "conversation": conversation}
        )
        event = NamespaceEvent(
            kind=NamespaceEventKind.CONVERSATION_COMPACTED,
            at=at,
            data={"conversation": conversation, "compacted_at": compacted_at},
        )
        await append(
            connection,
            namespace,
            partial(_as_it_is, event),
            caller=caller_text(caller),
            compactions={} if row is None else {conversation: row["compacted_at"]},
        )


def _as_it_is(event: NamespaceEvent, _fresh: Callable[[str], str]) -> NamespaceEvent:
    return event
