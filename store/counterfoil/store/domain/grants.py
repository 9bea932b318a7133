"""Authority: what a person permitted, whether it holds for an operation now, and what it lifts.

A grant permits an attempt and proves nothing; evidence grants nothing. Whether an operation needs one is
the configuration's word; whether one holds is decided here, anew before every attempt, and never for looking
up, recording or reconciling (CONTRACT.md, section 5, `request_authority`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.context import Drift, compare_contexts, drift_class
from counterfoil.store.domain.enumerations import at_hand
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.domain.model import Operation
from counterfoil.store.domain.outlook import Barriers, attempts_used_up
from counterfoil.store.domain.patterns import lazy_pattern, matches_glob
from counterfoil.store.errors import InvalidArgument

__all__ = [
    "GRANTABLE",
    "NO_AUTHORITY",
    "Authority",
    "AuthorityFacts",
    "Constraint",
    "Grant",
    "GrantSource",
    "Refusal",
    "Request",
    "as_data",
    "exact_pattern",
    "held_grants",
    "is_out_of_attempts",
    "parse_constraint",
    "permits",
    "weigh",
]

GRANTABLE = ("authority_required", "authority_expired", "drift", "attempts_exhausted", "history_gap")
"""What a person's grant for an operation answers: reasons of `ask`."""

_CONSTRAINT = lazy_pattern(r"(args(?:\.[^\s.=<]+)+)\s*(==|<=)\s*(\S.*)", re.DOTALL)
_CONSTRAINT_FORM = 'args.MEMBER == VALUE or args.MEMBER <= NUMBER, VALUE as JSON: args.currency == "EUR"'


@at_hand
class GrantSource(StrEnum):
    """Whose word a grant is: a person at the command line, one asked through the client, the operator's."""

    PERSON = "person"
    ELICITATION = "elicitation"
    CONFIGURATION = "configuration"


class Constraint(Struct, frozen=True, kw_only=True):
    """What a member of `args` has to be: equal to a value, or a number of at most that value."""

    path: tuple[str, ...]
    operator: str
    value: Json

    def holds(self, args: Json) -> bool:
        """Tell whether `args` keep it; a member that is not there, or has another type, keeps nothing."""
        found = args
        for name in self.path:
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return False
        if self.operator == "==":
            return canonical_json(found) == canonical_json(self.value)
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        return is_number and found <= self.value


def parse_constraint(text: str) -> Constraint:
    """Read a constraint as people write it: `args.amount <= 100`, `args.to.country == "DE"`.

    Raises:
        InvalidArgument: another form.
    """
    match = _CONSTRAINT.fullmatch(text.strip())
    if match is None:
        raise InvalidArgument("constraint", "cannot be read", accepted=_CONSTRAINT_FORM)
    path, operator, written = match.groups()
    try:
        value = json.loads(written)
    except ValueError:
        raise InvalidArgument(
            "constraint", "has a value that is not JSON", accepted=_CONSTRAINT_FORM
        ) from None
    if operator == "<=" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InvalidArgument("constraint", "compares with no number", accepted=_CONSTRAINT_FORM)
    return Constraint(path=tuple(path.split(".")[1:]), operator=operator, value=value)


class Grant(Struct, frozen=True, kw_only=True):
    """A permission. `action`, `target` and `subject` are globs; `constraints` texts that all have to hold.

    One for a single operation names it and is bound to what the effect was when it was given
    (`fingerprint`, `payload_digest`). `policy` is the context's component of that name under which it was
    given, as canonical JSON, and `context` the digest of the whole; None is "not known", which binds nothing.
    `adds_attempt`: the operation had no attempt left when it was given.
    """

    id: str
    source: GrantSource
    granted_at: Instant
    granted_by: str
    subject: str = "*"
    action: str = "*"
    target: str = "*"
    constraints: tuple[str, ...] = ()
    run: str | None = None
    operation: str | None = None
    fingerprint: str | None = None
    payload_digest: str | None = None
    policy: str | None = None
    context: str | None = None
    not_before: Instant | None = None
    expires_at: Instant | None = None
    max_uses: int | None = None
    adds_attempt: bool = False
    why: str | None = None
    request: str | None = None
    revoked_at: Instant | None = None
    revoked_why: str | None = None

    @property
    def is_for(self) -> str | None:
        """The one operation that it was given for, by a person; None where it is a general one."""
        return None if self.source is GrantSource.CONFIGURATION else self.operation


class Request(Struct, frozen=True, kw_only=True):
    """An agent's wish for a permission, kept until a person answers: waiting, granted or declined.

    Without an operation, `action` and `target` are globs like a grant's.
    """

    id: str
    asked_at: Instant
    reason: str
    run: str | None = None
    operation: str | None = None
    fingerprint: str | None = None
    payload_digest: str | None = None
    action: str
    target: str
    why: str | None = None
    asked_by: str
    call_id: str | None = None
    state: str = "waiting"
    answered_at: Instant | None = None
    grant_id: str | None = None

    def is_same(self, other: "Request") -> bool:
        """Tell whether both wish for the very same."""
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("run", "operation", "fingerprint", "payload_digest", "action", "target")
        )


class AuthorityFacts(Struct, frozen=True, kw_only=True):
    """What is read before a grant is looked for.

    `uses` counts, by grant, the *other* operations that are in a use of it. `args` are the operation's, as
    stored. `principal` is who asks. `today` is the context of the call, in normal form, or else the run's;
    `contexts` are those that grants were given under, by digest. `named` is a grant that the caller picked.
    """

    is_required: bool = False
    grants: Sequence[Grant] = ()
    uses: Mapping[str, int] = field(default_factory=dict)
    args: Json = None
    principal: str = "local"
    today: Mapping[str, Json] | None = None
    contexts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    recorded: Mapping[str, Json] | None = None
    classes: Mapping[str, str] = field(default_factory=dict)
    named: str | None = None


class Refusal(Struct, frozen=True, kw_only=True):
    """A grant meant for this that does not hold: `expired`, `used_up`, `revoked`, `policy` or `not_yet`.

    `other_effect`: it was given for this operation when its args or payload were not yet what they are now.
    """

    grant: Grant
    reason: str


class Authority(Struct, frozen=True, kw_only=True):
    """What came of looking: the grant that an attempt would be made under, and what it lifts.

    `reason` is that of the `ask`, None where nothing stands in the way. `drift` names both values where a
    grant was given under another policy, or where a changed part of the context blocks.
    """

    reason: str | None = None
    grant: Grant | None = None
    lifting: tuple[Grant, ...] = ()
    more_attempts: int = 0
    lifts_drift: bool = False
    refusals: tuple[Refusal, ...] = ()
    drift: tuple[Drift, ...] = ()
    warnings: tuple[str, ...] = ()

    def lifted(self, barriers: Barriers, *, gap_at: Instant | None = None) -> Barriers:
        """Take away what a person's grant for this very operation lifts, and add what authority asks.

        A gap in the history is lifted by a grant that was given since it came about (`gap_at`).
        """
        bridged = gap_at is not None and any(grant.granted_at >= gap_at for grant in self.lifting)
        return replace(
            barriers,
            has_history_gap=barriers.has_history_gap and not bridged,
            is_blocked_by_drift=barriers.is_blocked_by_drift and not self.lifts_drift,
            authority=self.reason,
            more_attempts=self.more_attempts,
        )


NO_AUTHORITY = Authority()


def exact_pattern(text: str) -> str:
    """Give a glob that matches this text only."""
    return re.sub(r"([*?\[])", r"[\1]", text)


def permits(grant: Grant, operation: Operation, facts: AuthorityFacts) -> bool:
    """Tell whether a grant was meant for this effect by this caller, whether it still holds or not."""
    described = operation.description
    if grant.run is not None and grant.run != operation.run:
        return False
    if not matches_glob(facts.principal, grant.subject):
        return False
    if grant.operation is not None:
        return (
            grant.operation == operation.id
            and grant.fingerprint == described.fingerprint
            and grant.payload_digest == described.payload_digest
            and _constraints_hold(grant, facts.args)
        )
    return (
        matches_glob(described.action, grant.action)
        and matches_glob(described.target or "", grant.target)
        and _constraints_hold(grant, facts.args)
    )


def _was_for_another_effect(grant: Grant, operation: Operation, facts: AuthorityFacts) -> bool:
    """Tell whether a person permitted this very operation before it was the effect that it is now."""
    described = operation.description
    return (
        grant.is_for == operation.id
        and matches_glob(facts.principal, grant.subject)
        and (grant.fingerprint, grant.payload_digest) != (described.fingerprint, described.payload_digest)
    )


def _constraints_hold(grant: Grant, args: Json) -> bool:
    return all(parse_constraint(text).holds(args) for text in grant.constraints)


def held_grants(operation: Operation) -> dict[str, bool]:
    """Tell which grants the operation was attempted under, and which of them it is in a use of.

    An attempt found without effect gives its use back; one that is unknown keeps it.
    """
    performed = {receipt.attempt for receipt in operation.standing}
    held: dict[str, bool] = {}
    for attempt in operation.granted:
        if attempt.grant_id is not None:
            may_have_worked = attempt.number in performed or not attempt.outcome.is_without_effect
            held[attempt.grant_id] = held.get(attempt.grant_id, False) or may_have_worked
    return held


def is_out_of_attempts(operation: Operation) -> bool:
    """Tell whether only a person can permit another attempt: all used up, or the last failure was final."""
    newest = operation.newest
    return attempts_used_up(operation) or (newest is not None and not newest.retryable)


def weigh(operation: Operation, facts: AuthorityFacts, *, now: Instant) -> Authority:
    """Look for the grant that the next attempt would be made under, and tell what stands in the way."""
    meant = [grant for grant in facts.grants if permits(grant, operation, facts)]
    refusals = [
        Refusal(grant=grant, reason=why_not)
        for grant in meant
        if (why_not := _why_not(grant, facts, now)) is not None
    ]
    refusals += [
        Refusal(grant=grant, reason="other_effect")
        for grant in facts.grants
        if _was_for_another_effect(grant, operation, facts) and _why_not(grant, facts, now) is None
    ]
    refused = {refusal.grant.id for refusal in refusals}
    valid = [grant for grant in meant if grant.id not in refused]
    # A person's word for this very operation.
    lifting = [grant for grant in valid if grant.is_for == operation.id]
    used = {attempt.grant_id for attempt in operation.granted}
    adding = [grant for grant in lifting if grant.adds_attempt and grant.id not in used]
    warnings: tuple[str, ...] = ()
    if facts.named is not None:
        if not any(grant.id == facts.named for grant in valid):
            warnings = ("the grant named does not hold for this operation",)
        if facts.is_required:
            valid = [grant for grant in valid if grant.id == facts.named]
            refusals = [refusal for refusal in refusals if refusal.grant.id == facts.named]
    reason: str | None = None
    drift: tuple[Drift, ...] = ()
    if facts.is_required and not valid:
        is_over = any(refusal.reason not in ("not_yet", "other_effect") for refusal in refusals)
        if any(refusal.reason == "other_effect" for refusal in refusals):
            warnings += (_OTHER_EFFECT,)
        reason = "authority_expired" if is_over else "authority_required"
        drift = tuple(
            _policy_drift(refusal.grant, facts) for refusal in refusals if refusal.reason == "policy"
        )
    lifts_drift = any(_covers_today(grant, facts) for grant in lifting)
    needs_more = is_out_of_attempts(operation)
    picked: Grant | None = None
    if facts.is_required or needs_more or facts.named is not None or lifting:
        held = held_grants(operation)
        candidates = valid if facts.is_required or facts.named is not None else lifting
        picked = min(
            (grant for grant in candidates if facts.named in (None, grant.id)),
            key=lambda grant: (
                not (needs_more and grant in adding),
                not held.get(grant.id, False),
                grant.operation is None,
                grant.run is None,
                grant.expires_at if grant.expires_at is not None else _NEVER,
                grant.granted_at,
                grant.id,
            ),
            default=None,
        )
    return Authority(
        reason=reason,
        grant=picked,
        lifting=tuple(lifting),
        more_attempts=len(adding),
        lifts_drift=lifts_drift,
        refusals=tuple(refusals),
        drift=drift,
        warnings=warnings,
    )


_NEVER = 2**62
_OTHER_EFFECT = (
    "a grant was given for this operation when it was another effect (see grants, other_effect): its target, "
    "args or payload were recorded since, and a person has to see them first"
)


def _why_not(grant: Grant, facts: AuthorityFacts, now: Instant) -> str | None:
    if grant.revoked_at is not None:
        return "revoked"
    if grant.expires_at is not None and now >= grant.expires_at:
        return "expired"
    if grant.not_before is not None and now < grant.not_before:
        return "not_yet"
    if grant.max_uses is not None and facts.uses.get(grant.id, 0) >= grant.max_uses:
        return "used_up"
    today = _policy(facts)
    if grant.policy is not None and today is not None and today != grant.policy:
        return "policy"
    return None


def _policy(facts: AuthorityFacts) -> str | None:
    """The policy that holds today; a call that does not say leaves the run's, and none is unknown."""
    for context in (facts.today, facts.recorded):
        if context and context.get("policy") is not None:
            return canonical_json(context["policy"])
    return None


def _policy_drift(grant: Grant, facts: AuthorityFacts) -> Drift:
    today = _policy(facts)
    return Drift(
        component="policy",
        recorded=None if grant.policy is None else json.loads(grant.policy),
        given=None if today is None else json.loads(today),
        drift_class=drift_class("policy", facts.classes),
    )


def _covers_today(grant: Grant, facts: AuthorityFacts) -> bool:
    """Tell whether a grant was given under what holds today, as far as a difference would block."""
    given_under = None if grant.context is None else facts.contexts.get(grant.context)
    if given_under is None:
        return False
    drifts = compare_contexts(given_under, facts.today, facts.classes)
    return not any(drift.drift_class == "block" for drift in drifts)


def as_data(value: Grant | Request) -> dict[str, Any]:
    """Give it as plain JSON for the log, leaving out what is None."""
    data = {name: getattr(value, name) for name in value.__struct_fields__}
    return {
        name: list(part) if isinstance(part, tuple) else part
        for name, part in data.items()
        if part is not None
    }
