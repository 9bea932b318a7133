"""The database as the journal of one namespace uses it: as long as it knows what history is lost."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from counterfoil.store.domain.instants import Instant
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.protocol import Connection, Database, Work

__all__ = ["OwnHistory"]

Result = TypeVar("Result")


class OwnHistory:
    """A `Database` that refuses every call once somebody else marks the history of its namespace as lost.

    Whoever opened it before knows of no gap, and would permit what may have happened in it. Marks of other
    namespaces are none of its concern; what is marked through `mark`, it knows.
    """

    def __init__(self, whole: Database, namespace: str, *, lost_at: Instant | None) -> None:
        self.whole = whole
        """The database itself, which holds all namespaces."""
        self._namespace = namespace
        self._lost_at = lost_at

    async def write(self, work: Work[Result]) -> Result:
        """Run `work` as `Database.write` does, unless the history that it goes by is not all there was.

        Raises:
            JournalUnavailable: also where a mark was set, or taken back, since the journal was opened.
        """
        return await self._heeding(self.whole.write, work)

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` as `Database.read` does; see `write`."""
        return await self._heeding(self.whole.read, work)

    async def mark(self, work: Work[Result]) -> Result:
        """Run as `write` does a `work` that marks history as lost, or takes such a mark back."""
        lost_at: Instant | None = None

        async def marking(connection: Connection) -> Result:
            nonlocal lost_at
            result = await work(connection)
            newest = await connection.fetch_one("restores_of_namespace", {"namespace": self._namespace})
            lost_at = None if newest is None else newest["restored_at"]
            return result

        result = await self.write(marking)
        self._lost_at = lost_at
        return result

    async def facts(self) -> Mapping[str, str | float]:
        """Give what the database tells of itself."""
        return await self.whole.facts()

    async def close(self) -> None:
        """Close the database, for every namespace."""
        await self.whole.close()

    async def _heeding(self, run: Callable[[Work[Result]], Awaitable[Result]], work: Work[Result]) -> Result:
        async def heeding(connection: Connection) -> Result:
            if connection.history_lost_at(self._namespace) != self._lost_at:
                raise _marked_meanwhile()
            return await work(connection)

        return await run(heeding)


def _marked_meanwhile() -> JournalUnavailable:
    return JournalUnavailable(
        "the journal was restored, or something is copied or imported into it; nothing was recorded",
        fix="call again when a copy or import that is under way has ended; otherwise start the server again",
    )
