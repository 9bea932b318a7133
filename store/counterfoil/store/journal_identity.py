"""Which journal this is: what every part that names it needs."""

from dataclasses import dataclass

from counterfoil.store.domain.instants import Instant

__all__ = ["JournalIdentity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalIdentity:
    """Which journal this is."""

    id: str
    created_at: Instant
    restored_at: Instant | None = None
