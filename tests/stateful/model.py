"""What a machine of random calls knows of its operations and their run, written from the contract alone.

It is small on purpose: it keeps attempts, ends, receipts, permissions and holds, and says what must never be
seen. It does not predict answers; `tests/domain` holds every one of them against the table.
"""

from dataclasses import dataclass, field

from counterfoil.store.domain.commands import Caller

__all__ = ["ACTIONS", "DEADLINE", "MOVES", "SETTLED", "TRAITS", "Grant", "Known", "KnownRun", "Permission"]

SECOND = 1_000_000
TOLERANCE = 60 * SECOND


TRAITS = ("plain", "gated", "strict", "waiting", "undoing", "limited", "ending")
"""What is special about an operation: nothing; it needs a person's grant; a verified receipt; that the first
one has succeeded; it undoes the first one; may be attempted once; is waited for until a deadline."""

ACTIONS = {"gated": "pay.send", "strict": "git.push"}
"""Of each trait that the configuration knows by its action; the others send mails."""


@dataclass(kw_only=True)
class Permission:
    """A person's grant; `operation` is the name of the one that it is for, None where it is for an action."""

    id: str
    operation: str | None
    expires_at: int | None = None
    is_revoked: bool = False

    def holds(self, now: int) -> bool:
        """Tell whether an attempt may be made under it."""
        return not self.is_revoked and (self.expires_at is None or now < self.expires_at)


@dataclass(kw_only=True)
class KnownRun:
    """The run of all operations; `policy` is the part of its context that blocks where it differs."""

    holder: Caller | None = None
    held_until: int = 0
    finished_as: str | None = None
    policy: str | None = None

    def is_held_by_another(self, caller: Caller, attempts: "list[Grant]", now: int) -> bool:
        """Tell whether its holder is another one whose hold, or whose attempt, is live."""
        if self.holder is None or self.holder.conversation == caller.conversation:
            return False
        return now < self.held_until or any(
            grant.is_live(now) and grant.caller.conversation == self.holder.conversation for grant in attempts
        )


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
    has_run_out: bool = False

    @property
    def end(self) -> int:
        """When it ended at the latest, but never before it began."""
        return max(self.granted_at, self.lease_until if self.ended_at is None else self.ended_at)

    def is_live(self, now: int) -> bool:
        """Tell whether its holder may be acting."""
        is_over = self.has_run_out or self.is_without_effect or self.ended_at is not None
        return not is_over and now < self.lease_until


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
    vouched_for: set[str] = field(default_factory=set)
    has_unannounced: bool = False
    quiet_since: int = 0
    trait: str = "plain"
    deadline: int | None = None
    most_attempts: int | None = None
    asked_policy: str | None = None

    @property
    def action(self) -> str:
        """What the effect is; its target is its own."""
        return ACTIONS.get(self.trait, "email.send")

    @property
    def ends_at(self) -> int | None:
        """When waiting for it ends by its deadline."""
        return self.grants[0].granted_at + self.deadline if self.deadline and self.grants else None

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

    def check_lease(self, *, lease_until: int) -> None:
        """Hold what must be true of a lease, whether granted or prolonged."""
        assert self.ends_at is None or lease_until <= self.ends_at, "a lease beyond the deadline"
        newest = self.grants[-1]
        if self.repeat == "keyed" and len([grant for grant in self.grants if grant.key == newest.key]) > 1:
            first = next(grant for grant in self.grants if grant.key == newest.key)
            assert self.key_ttl is not None
            assert lease_until <= first.granted_at + self.key_ttl - self.settle, (
                "a lease beyond the key's life"
            )

    def check_permission(self, used: str | None, permissions: list[Permission], *, now: int) -> None:
        """Hold what must be true of a new grant where a person has to permit it."""
        own = [permission for permission in permissions if permission.operation == self.name]
        if self.trait == "gated":
            fitting = [permission for permission in permissions if permission.operation in (None, self.name)]
            assert used in {permission.id for permission in fitting if permission.holds(now)}, "not permitted"
        if self.most_attempts is not None:
            assert len(self.grants) < self.most_attempts + len(own), "more attempts than anybody permitted"

    def check_silence(self, *, as_of: int, now: int) -> None:
        """Hold what must be true where an agent's empty look made it `failed`."""
        assert self.has_lookup, "an empty look without a lookup on record"
        for grant in self.may_have_happened():
            assert not grant.is_live(now)
            assert as_of >= grant.end + self.settle, "an empty look before the effect could show"
        assert as_of >= self.quiet_since + self.settle, "an empty look too soon after a sign or a jump"


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
    "timed_out": _moves("in_progress in_doubt failed to timed_out"),
    "cancelled": _moves("planned failed to cancelled"),
    "a person's timed_out": _moves("in_progress in_doubt failed disputed to timed_out"),
    "a person's cancelled": _moves("planned failed in_doubt disputed to cancelled"),
    "progress": _moves("in_doubt to in_progress"),
    "undone": _moves("in_progress in_doubt failed succeeded timed_out cancelled disputed to compensated"),
    "nothing": _moves("in_progress to in_doubt"),
    "a clock set back": _moves("in_progress to in_doubt; in_doubt to in_progress"),
}
"""Which changes of state each kind of call may make (STATES.md); every other one is a silent flip."""

MOVES["weak receipt"] = MOVES["unproving receipt"]
MOVES["weak performed"] = MOVES["unproving receipt"]
MOVES["verify"] = MOVES["performed"] | MOVES["not_performed"] | MOVES["inconclusive"]
MOVES["a person ends the lease"] = MOVES["a person's not_performed"] | _moves(
    "in_progress to in_doubt failed"
)

DEADLINE = _moves("in_progress in_doubt failed to timed_out")
"""What passing the deadline does; until that is written, a clock set back before it takes it back."""
