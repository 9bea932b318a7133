"""Which journal this is: what every part that names it needs."""

from msgspec import Struct

from counterfoil.store.domain.instants import Instant

__all__ = ["JournalIdentity"]


class JournalIdentity(Struct, frozen=True, kw_only=True):
    """Which journal this is."""

    id: str
    created_at: Instant
    restored_at: Instant | None = None
