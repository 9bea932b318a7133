"""What every probe has: whom it may serve, how it looks, and what it saw."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Protocol

from msgspec import Struct, field

from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.probing import ProbeSubject

__all__ = ["Inconclusive", "Look", "Probe", "Seen"]


class Inconclusive(Exception):
    """The probe cannot tell. `why` is in our own words: nothing that was read or sent stands in it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Seen(Struct, frozen=True, kw_only=True):
    """What a look showed.

    `external_id` is the performing system's own reference, where it gave one. `is_own_form` marks one that
    only this probe writes so (a digest, a ref at a commit): nobody else's receipt is compared with it.
    """

    found: bool
    external_id: str | None = None
    is_own_form: bool = False
    performed_at: str | None = None
    evidence: Mapping[str, Json] = field(default_factory=dict)


class Look(Protocol):
    """The part of a probe that is of its type."""

    @property
    def kind(self) -> str:
        """The kind of receipt that it gives, where the operator says none."""
        ...

    @property
    def uses_external_id(self) -> bool:
        """True where it looks for the reference that is already on record."""
        ...

    async def see(self, subject: ProbeSubject) -> Seen:
        """Look once. Cancelled at any point, it leaves no process, connection or thread behind.

        Raises:
            Inconclusive: it cannot tell.
        """
        ...

    def lacks(self) -> list[str]:
        """Name what this machine lacks for it: a program, a folder. Nothing is run or sent."""
        ...


class Probe(Struct, frozen=True, kw_only=True):
    """One `[probes.NAME]` of the configuration. `action` is a glob of the actions that it may serve."""

    name: str
    type: str
    look: Look
    action: str | None = None
    kind: str | None = None
    system: str | None = None
    timeout_seconds: float = 20

    def serves(self, action: str) -> bool:
        """Tell whether it may be used for an action; one without a glob may be for each that names it."""
        return self.action is None or fnmatchcase(action, self.action)
