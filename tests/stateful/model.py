"""What a machine of random calls knows of one operation, written from CONTRACT.md and STATES.md alone.

It is small on purpose: it keeps grants, ends and receipts, and says what must never be seen. It does not
predict answers; `tests/domain` holds every one of them against the table.
"""

from dataclasses import dataclass, field

from counterfoil.store.domain.commands import Caller

__all__ = ["MOVES", "Grant", "Known"]

SECOND = 1_000_000
TOLERANCE = 60 * SECOND


@dataclass(kw_only=True)
class Grant:
    """One attempt as it was granted, and what is known of its end."""

    number: int
    caller: Caller
    key: str
    granted_at: int
    lease_until: int
    set_back: int
    ended_at: int | None = None
    is_without_effect: bool = False
    was_answered: bool = False

    @property
    def end(self) -> int:
        """When it ended at the latest, but never before it began."""
        return max(self.granted_at, self.lease_until if self.ended_at is None else self.ended_at)

    def is_live(self, now: int) -> bool:
        """Tell whether its holder may be acting."""
        return self.ended_at is None and not self.is_without_effect and now < self.lease_until


@dataclass(kw_only=True)
class Known:
    """One operation."""

    name: str
    repeat: str
    has_lookup: bool
    settle: int
    key_ttl: int | None = None
    id: str | None = None
    grants: list[Grant] = field(default_factory=list)
    receipts: list[tuple[object, ...]] = field(default_factory=list)
    handed_in: set[str] = field(default_factory=set)
    has_unannounced: bool = False
    quiet_since: int = 0

    def may_have_happened(self) -> list[Grant]:
        """The attempts that nobody has shown to be without effect."""
        return [grant for grant in self.grants if not grant.is_without_effect]

    def is_repeat_absorbed(self, key: str, now: int, set_back: int) -> bool:
        """Tell whether the provider surely takes a request under `key` for the earlier ones."""
        under_it = [grant for grant in self.grants if grant.key == key]
        if self.key_ttl is None or not under_it:
            return False
        first = under_it[0]
        lost = set_back - first.set_back
        return now < first.granted_at + self.key_ttl - self.settle - lost

    def check_grant(self, number: int, key: str, *, now: int, lease_until: int, set_back: int) -> None:
        """Hold what must be true of a new grant."""
        assert number == len(self.grants) + 1, "attempts are numbered 1, 2, …"
        assert not [grant for grant in self.grants if grant.is_live(now)], "two live attempts"
        assert now < lease_until
        unknown = self.may_have_happened()
        if unknown or self.has_unannounced:
            assert self.repeat == "safe" or (
                not self.has_unannounced
                and all(grant.key == key for grant in unknown)
                and self.is_repeat_absorbed(key, now, set_back)
            ), "granted while an earlier attempt may have had its effect"
            if self.repeat == "keyed":
                first = next(grant for grant in self.grants if grant.key == key)
                assert self.key_ttl is not None
                assert lease_until <= first.granted_at + self.key_ttl - self.settle
        if self.grants and key != self.grants[-1].key:
            last = self.grants[-1].key
            assert key not in {grant.key for grant in self.grants}, "an old key came back"
            under_it = [grant for grant in self.grants if grant.key == last]
            assert all(grant.was_answered for grant in under_it) or not self.is_repeat_absorbed(
                last, now, set_back
            ), "a new key while the provider may know the old one"

    def check_silence(self, *, as_of: int, now: int) -> None:
        """Hold what must be true where an agent's empty look made it `failed`."""
        assert self.has_lookup, "an empty look without a lookup on record"
        for grant in self.may_have_happened():
            assert not grant.is_live(now)
            assert as_of >= grant.end + self.settle, "an empty look before the effect could show"
        assert as_of >= self.quiet_since + self.settle, "an empty look too soon after a sign or a jump"


UNSETTLED = ("planned", "in_progress", "in_doubt", "failed")
SETTLED = ("succeeded", "timed_out", "cancelled", "compensated")


def _moves(text: str) -> set[tuple[str, str]]:
    moves = set()
    for part in text.split(";"):
        sources, _, targets = part.strip().partition(" to ")
        moves |= {(source, target) for source in sources.split() for target in targets.split()}
    return moves


MOVES = {
    "begin": _moves("planned failed in_doubt to in_progress"),
    "receipt": _moves(
        "planned in_progress in_doubt to succeeded; in_progress in_doubt failed succeeded timed_out cancelled"
        " compensated to disputed"
    ),
    "unproving receipt": _moves("planned failed to in_doubt"),
    "failure": _moves("in_progress to in_doubt failed; in_doubt to failed"),
    "performed": _moves(
        "planned in_progress in_doubt failed timed_out cancelled disputed to succeeded;"
        " succeeded timed_out cancelled compensated to disputed; planned failed to in_doubt"
    ),
    "not_performed": _moves("in_progress to in_doubt; in_doubt to failed"),
    "inconclusive": _moves("in_progress to in_doubt"),
    "compensated": _moves("in_doubt succeeded timed_out cancelled disputed to compensated"),
    "a person's not_performed": _moves(
        "in_doubt to failed; succeeded to disputed; timed_out cancelled to failed planned;"
        " disputed to failed planned timed_out cancelled compensated"
    ),
    "progress": _moves("in_doubt to in_progress"),
    "timed_out": _moves("in_progress in_doubt failed to timed_out"),
    "cancelled": _moves("planned failed to cancelled"),
    "a person's timed_out": _moves("in_progress in_doubt failed disputed to timed_out"),
    "a person's cancelled": _moves("planned failed in_doubt disputed to cancelled"),
    "nothing": _moves("in_progress to in_doubt"),
    "a clock set back": _moves("in_progress to in_doubt; in_doubt to in_progress"),
}
"""Which changes of state each kind of call may make (STATES.md); every other one is a silent flip."""
