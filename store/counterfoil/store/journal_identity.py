"""Which journal this is, and what it says of itself, held against what a journal can say."""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from counterfoil.store.domain.instants import Instant, is_instant
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.protocol import Connection, Database, Row

__all__ = ["JournalIdentity", "Marks", "read_marks"]


class JournalIdentity(Struct, frozen=True, kw_only=True):
    """Which journal this is."""

    id: str
    created_at: Instant
    restored_at: Instant | None = None


class Marks(Struct, frozen=True, kw_only=True):
    """What a journal says of itself: which it is, and the key under which its secrets are compared."""

    identity: JournalIdentity
    secret: str


async def read_marks(database: Database, namespace: str, *, named: object) -> Marks:
    """Read what a journal says of itself, and when history of `namespace` was lost last.

    Raises:
        JournalUnavailable: it says nothing, or holds what no journal has; the message names the column.
    """

    async def work(connection: Connection) -> tuple[Row, Sequence[Row]]:
        row = await connection.fetch_one("read_journal")
        if row is None:
            raise JournalUnavailable(
                f"{named} is corrupt: its own row is gone",
                fix="stop; keep the file as it is, and restore a backup",
            )
        return row, await connection.fetch_all("restores_of_namespace", {"namespace": namespace})

    row, restores = await database.read(work)
    _check(row, _OF_THE_JOURNAL, what="its own row (table journal)", named=named)
    for mark in restores:
        _check(mark, _OF_A_RESTORE, what="a mark of lost history (table restores)", named=named)
    return Marks(
        identity=JournalIdentity(
            id=row["id"],
            created_at=row["created_at"],
            restored_at=restores[0]["restored_at"] if restores else None,
        ),
        secret=row["secret"],
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()


def _is_instant_or_none(value: object) -> bool:
    return value is None or is_instant(value)


def _is_key(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"(?:[0-9a-fA-F]{2}){32,}", value) is not None


_Checks = Mapping[str, tuple[Callable[[object], bool], str]]
_A_TIME = "no time"
_OF_THE_JOURNAL: _Checks = {
    "id": (_is_name, "no name"),
    "created_at": (is_instant, _A_TIME),
    "backed_up_at": (_is_instant_or_none, _A_TIME),
    # Never quoted: it may be a key but for one character.
    "secret": (_is_key, "no key: at least 64 hexadecimal digits"),
}
_OF_A_RESTORE: _Checks = {"restored_at": (is_instant, _A_TIME), "backed_up_at": (is_instant, _A_TIME)}


def _check(row: Row, checks: _Checks, *, what: str, named: object) -> None:
    broken = [f"{column} is {lack}" for column, (holds, lack) in checks.items() if not holds(row[column])]
    if broken:
        raise JournalUnavailable(
            f"{named} is corrupt: {what} cannot be read: {'; '.join(broken)}; nothing was recorded",
            fix="stop; keep the file as it is, and restore a backup",
        )
