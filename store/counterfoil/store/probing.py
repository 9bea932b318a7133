"""What the journal needs of a probe: something that reads the performing system itself. Made elsewhere."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from counterfoil.store.domain.json_numbers import Json

__all__ = ["ProbeFinding", "ProbeSubject", "Prober"]


class ProbeSubject(Struct, frozen=True, kw_only=True):
    """The operation that a probe looks for, as it is on record: secrets are placeholders, nothing is cut.

    `probe` is what the recorded lookup names. `external_id`, `kind` and `system` are those of the newest
    receipt with a reference that is neither foreign, set aside nor of the undoing; None where there is none.
    """

    operation: str
    run: str
    key: str
    action: str
    target: str | None = None
    args: Mapping[str, Json] | None = None
    idempotency_key: str | None = None
    external_id: str | None = None
    kind: str | None = None
    system: str | None = None
    probe: str | None = None


class ProbeFinding(Struct, frozen=True, kw_only=True):
    """What a probe saw. `found` None is "cannot tell", and `why` says in our own words what stood in the way.

    The rest are receipt fields; where something was found there is an `external_id`.
    """

    probe: str
    found: bool | None
    why: str | None = None
    external_id: str | None = None
    kind: str = "other"
    system: str | None = None
    performed_at: str | None = None
    evidence: Mapping[str, Json] = field(default_factory=dict)


class Prober(Protocol):
    """Chooses the probe for an operation, and looks. Bounded in time; cancelled, it leaves nothing behind."""

    async def look(self, subject: ProbeSubject) -> ProbeFinding:
        """Look whether the effect happened.

        Raises:
            NotFound, Ambiguous, Forbidden: which probe is meant cannot be told, or it may not serve here.
        """
        ...
