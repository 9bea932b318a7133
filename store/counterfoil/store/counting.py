"""Counts the operations of all namespaces by state: what an operator watches, never what a tenant is told."""

from msgspec import Struct

from counterfoil.store.domain.instants import Instant
from counterfoil.store.protocol import Connection

__all__ = ["StateCount", "count_operations"]


class StateCount(Struct, frozen=True, kw_only=True):
    """How many operations of a namespace are in a state, and when the longest unchanged one last changed."""

    namespace: str
    state: str
    number: int
    oldest: Instant


async def count_operations(connection: Connection, now: Instant) -> list[StateCount]:
    """Count them as they stand at `now`; states that no operation is in are left out."""
    rows = await connection.fetch_all("count_operations", {"now": now})
    return [
        StateCount(
            namespace=row["namespace"], state=row["shown_state"], number=row["number"], oldest=row["oldest"]
        )
        for row in rows
    ]
