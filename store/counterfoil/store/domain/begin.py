"""begin_operation: whether an attempt is granted, in the order of checks that STATES.md gives."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.store.domain.answers import Verdict, skip_reason
from counterfoil.store.domain.drafting import Creation, Draft, Situation, clock_data, keeping_payload
from counterfoil.store.domain.events import EventKind, to_data
from counterfoil.store.domain.grants import NO_AUTHORITY, Authority, AuthorityFacts, weigh
from counterfoil.store.domain.instants import Instant, micros
from counterfoil.store.domain.lookalikes import Lookalike, Newcomer, find_arrived, find_lookalikes
from counterfoil.store.domain.model import (
    NO_TERMS,
    Attempt,
    Description,
    Operation,
    Repeat,
    Run,
    State,
    Terms,
)
from counterfoil.store.domain.outlook import (
    NO_BARRIERS,
    Barriers,
    Outlook,
    attempts_used_up,
    gate,
    nothing_to_undo,
)
from counterfoil.store.domain.states import (
    current_generation,
    deadline_at,
    is_live,
    is_repeatable,
    is_unresolved,
    next_generation,
    repeat_until,
    settle,
    state_of,
)
from counterfoil.store.domain.table import Command
from counterfoil.store.domain.terms import at_grant, merge_terms

__all__ = ["BeginFacts", "BeginGiven", "decide_begin"]


class BeginGiven(Struct, frozen=True, kw_only=True):
    """A begin in normal form: names normalised, secrets replaced, bodies as digests. Durations in seconds."""

    id: str
    namespace: str
    run: str
    key: str
    description: Description
    terms: Terms = NO_TERMS
    depends_on: tuple[str, ...] = ()
    satisfies: tuple[str, ...] = ()
    distinct_from: tuple[str, ...] = ()
    compensates: str | None = None
    lease_seconds: float | None = None
    context: str | None = None
    workflow_version: str | None = None


class BeginFacts(Struct, frozen=True, kw_only=True):
    """What is read before deciding.

    `others` are look-alike candidates, where it was never attempted or failed; `dependencies` the operations
    waited for, and theirs, by key; `original` the operation that this one would compensate. `next_position`
    and `run_created_at` serve a new operation. `today` is the digest of all that is known of today's context.
    `barriers` stand in the way before any grant is weighed; `authority` is None where nothing asks for one.
    `gap_at` is when the journal was last restored. `is_same_but_for_secrets`: the fingerprints differ only by
    placeholders that another journal made. `compacted_at` is when the caller's conversation last was, where
    one of `others` is its own.
    """

    operation: Operation | None
    run: Run | None
    next_position: int
    run_created_at: int
    others: tuple[Operation, ...] = ()
    dependencies: Mapping[str, Operation] = field(default_factory=dict)
    original: Operation | None = None
    barriers: Barriers = NO_BARRIERS
    today: str | None = None
    authority: AuthorityFacts | None = None
    gap_at: int | None = None
    is_same_but_for_secrets: bool = False
    compacted_at: int | None = None


def decide_begin(given: BeginGiven, facts: BeginFacts, situation: Situation) -> Verdict:
    """Decide whether the caller may perform the effect now.

    A `stop` adds nothing; a `wait` or `ask` leaves a new operation planned.
    """
    draft = Draft(facts.operation, operation_id=given.id, situation=situation)
    operation = facts.operation
    lookalikes: tuple[Lookalike, ...] = ()
    if operation is None or _takes(operation, given.description, draft.before):
        if facts.run is not None and facts.run.finished_as is not None:
            return draft.answer("stop", "run_finished")
        lookalikes = _lookalikes(given, facts, situation)
        stopping = [lookalike for lookalike in lookalikes if lookalike.stops]
        if stopping:
            return draft.answer("stop", "possible_duplicate", fields={"duplicates": stopping})
    elif operation.takes and draft.before is State.PLANNED:
        # Its plan said the whole of it beside look-alikes: they stop nothing. No plan says what it undoes.
        lookalikes = _lookalikes(given, facts, situation)
    if operation is None:
        ended = _create(draft, given, facts, situation)
    else:
        ended = _take_up(draft, operation, given, facts, situation)
    if ended is not None:
        return ended
    mentioned = tuple(f"{lookalike.operation.id} has the same {lookalike.same}" for lookalike in lookalikes)
    mentioned += _merge(draft, given, facts, situation)
    draft.elapse()
    if draft.state.is_settled:
        return draft.answer("skip", skip_reason(draft.state), warnings=mentioned)
    return _permit(draft, given, facts, situation, mentioned)


def _create(draft: Draft, given: BeginGiven, facts: BeginFacts, situation: Situation) -> Verdict | None:
    """Note an effect that is new; give the answer instead where there is nothing that it could undo."""
    if given.compensates is not None and (why := nothing_to_undo(facts.original, draft.now)):
        return draft.answer("stop", "unmet", warnings=why)
    draft.create(
        Creation(
            id=given.id,
            namespace=given.namespace,
            run=given.run,
            key=given.key,
            position=facts.next_position,
            run_created_at=facts.run_created_at,
            description=given.description,
            compensates=given.compensates,
        ),
        began=situation.party,
    )
    return None


def _take_up(
    draft: Draft, operation: Operation, given: BeginGiven, facts: BeginFacts, situation: Situation
) -> Verdict | None:
    """Take what this begin adds to the effect on record; give the answer instead where it may not go on."""
    if _undoes_another(operation, given) or _conflicts(
        operation, given.description, is_same_but_for_secrets=facts.is_same_but_for_secrets
    ):
        return draft.answer("stop", "identity_conflict", fields={"conflict": True})
    if draft.before.is_settled:
        return draft.verdict(Command.BEGIN, "free", warnings=_undoing_not_taken(operation, given))
    if _becomes_an_undoing(operation, given, draft.before):
        alike = _lookalikes(given, facts, situation)
        stopping = [other for other in alike if other.same == "compensates" and other.stops]
        if stopping:
            return draft.answer("stop", "possible_duplicate", fields={"duplicates": stopping})
        if why := nothing_to_undo(facts.original, draft.now):
            return draft.answer("stop", "unmet", warnings=why)
    if draft.before in (State.PLANNED, State.FAILED):
        arrived = find_arrived(
            _newcomer(operation, given, facts, situation),
            operation,
            facts.others,
            now=draft.now,
            policy=situation.policy,
        )
        if arrived:
            return draft.answer("stop", "possible_duplicate", fields={"duplicates": list(arrived)})
    _take(draft, given, situation)
    return None


def _lookalikes(given: BeginGiven, facts: BeginFacts, situation: Situation) -> tuple[Lookalike, ...]:
    newcomer = _newcomer(facts.operation, given, facts, situation)
    return find_lookalikes(newcomer, facts.others, now=situation.now.at, policy=situation.policy)


def _newcomer(
    operation: Operation | None, given: BeginGiven, facts: BeginFacts, situation: Situation
) -> Newcomer:
    return Newcomer(
        id=given.id,
        run=given.run,
        description=given.description if operation is None or operation.takes else operation.description,
        distinct_from=(*given.distinct_from, *(() if operation is None else operation.distinct_from)),
        compensates=given.compensates
        if operation is None or operation.compensates is None
        else operation.compensates,
        party=situation.party,
        compacted_at=facts.compacted_at,
    )


def _takes(operation: Operation, given: Description, state: State) -> bool:
    """Tell whether this begin says what the plan (or an unannounced receipt) left out of the effect."""
    recorded = operation.description
    return _may_take(operation, state) and (
        (recorded.target is None and given.target is not None)
        or (recorded.args_digest is None and given.args_digest is not None)
    )


def _may_take(operation: Operation, state: State) -> bool:
    return operation.takes and state in (State.PLANNED, State.FAILED)


def _conflicts(operation: Operation, given: Description, *, is_same_but_for_secrets: bool) -> bool:
    """Tell whether the effect given is another one than the effect on record."""
    recorded = operation.description
    if recorded.fingerprint == given.fingerprint or is_same_but_for_secrets:
        return False
    if not operation.takes:
        return True
    return (
        recorded.action != given.action
        or (recorded.target is not None and recorded.target != given.target)
        or (recorded.args_digest is not None and recorded.args_digest != given.args_digest)
    )


def _becomes_an_undoing(operation: Operation, given: BeginGiven, state: State) -> bool:
    """Tell whether this begin is the first to say what it undoes, of what cannot have happened yet."""
    return (
        operation.compensates is None
        and given.compensates is not None
        and state in (State.PLANNED, State.FAILED)
    )


def _undoes_another(operation: Operation, given: BeginGiven) -> bool:
    """Tell whether this key is on record as the undoing of another operation than the one given."""
    return operation.compensates is not None and given.compensates not in (None, operation.compensates)


def _undoing_not_taken(operation: Operation, given: BeginGiven) -> tuple[str, ...]:
    """Say that the success of this operation does not count as the undoing that the caller means."""
    return () if given.compensates in (None, operation.compensates) else (_UNDOES_NOTHING,)


_UNDOES_NOTHING = (
    "compensates: not taken, what was begun without it may have happened; if it did undo that, call "
    "reconcile_operation with finding compensated for the operation that was undone"
)


def _take(draft: Draft, given: BeginGiven, situation: Situation) -> None:
    """Write down what was left out; a payload on record stays."""
    operation = draft.operation
    recorded = fuller = operation.description
    may_take = _may_take(operation, draft.before)
    if may_take:
        fuller = keeping_payload(given.description, recorded)
    is_undoing = _becomes_an_undoing(operation, given, draft.before)
    if fuller != recorded or is_undoing or (may_take and operation.began is None):
        draft.add(
            EventKind.DESCRIPTION_TAKEN,
            description=to_data(fuller),
            compensates=operation.compensates or given.compensates,
            began=to_data(situation.party),
        )


def _merge(draft: Draft, given: BeginGiven, facts: BeginFacts, situation: Situation) -> tuple[str, ...]:
    """Tighten the terms and add the links that this call brings."""
    operation = draft.operation
    terms, warnings = merge_terms(operation, given.terms, situation.policy)
    draft.fix(terms)
    covered = facts.others if "*" in given.distinct_from else ()
    settled = [other.id for other in covered if state_of(other, draft.now).is_settled]
    distinct = _new((*given.distinct_from, *settled), (*operation.distinct_from, "*", operation.id))
    depends_on = _new(given.depends_on, operation.depends_on)
    satisfies = _new(given.satisfies, operation.satisfies)
    if distinct or depends_on or satisfies:
        draft.add(
            EventKind.LINKS_ADDED,
            distinct_from=distinct or None,
            depends_on=depends_on or None,
            satisfies=satisfies or None,
        )
    return warnings


def _new(given: tuple[str, ...], recorded: tuple[str, ...]) -> list[str]:
    return [item for item in dict.fromkeys(given) if item not in recorded]


def _permit(
    draft: Draft, given: BeginGiven, facts: BeginFacts, situation: Situation, warnings: tuple[str, ...]
) -> Verdict:
    """Go through the checks from disputed to perform."""
    operation, now, policy = draft.operation, draft.now, situation.policy
    newest = operation.newest
    authority = NO_AUTHORITY if facts.authority is None else weigh(operation, facts.authority, now=now)
    barriers = authority.lifted(facts.barriers, gap_at=facts.gap_at)
    warnings += authority.warnings + _undoing_not_taken(operation, given)
    repeatable = (
        is_repeatable(operation, now, policy)
        and _can_reproduce(operation, given.description)
        and not attempts_used_up(operation, barriers)
    )
    free = "free_repeatable" if repeatable else "free"
    if draft.before is State.IN_DOUBT and not repeatable and is_repeatable(operation, now, policy):
        warnings += (
            "a repeat needs the whole recorded body, which holds secrets that are not kept or was removed: "
            "begin with your own args and payload, if you have them as they were sent",
        )
    if operation.dispute is not None:
        return draft.verdict(Command.BEGIN, free, warnings=warnings)
    again = next(
        (
            attempt
            for attempt in operation.granted
            if situation.call_id is not None and attempt.call_id == situation.call_id
        ),
        None,
    )
    live = newest if newest is not None and is_live(operation, newest, now) else None
    if again is not None and (live is None or _is_the_same_grant(again, live, situation)):
        row = "replay_repeatable" if repeatable else "replay"
        if draft.before is State.IN_DOUBT and not repeatable and is_unresolved(operation):
            row = "unresolved"
        return draft.verdict(Command.BEGIN, row, fields={"attempt": live}, warnings=warnings)
    if live is not None:
        is_mine = live.holder is not None and live.holder.is_holder(situation.party)
        return draft.verdict(
            Command.BEGIN, "held_by_you" if is_mine else "held", fields={"attempt": live}, warnings=warnings
        )
    if draft.state is State.IN_DOUBT and not repeatable:
        row = "unresolved" if is_unresolved(operation) else "free"
        return draft.verdict(Command.BEGIN, row, warnings=warnings)
    why = () if operation.compensates is None else nothing_to_undo(facts.original, now)
    stands_between = gate(
        operation,
        now=now,
        run=facts.run,
        dependencies=facts.dependencies,
        barriers=replace(barriers, nothing_to_undo=why),
    )
    if stands_between is not None and stands_between.reason == "unmet":
        return draft.answer("stop", "unmet", warnings=(*why, *warnings))
    if stands_between is not None:
        return _wait_or_ask(draft, facts.today, stands_between, authority, warnings)
    return _grant(draft, given, situation, free, authority, warnings)


_ASKED_UNDER = ("authority_required", "authority_expired", "drift")
"""What a person answers for the context of the call: it is kept, so that the answer is bound to it."""


def _wait_or_ask(
    draft: Draft, today: str | None, outlook: Outlook, authority: Authority, warnings: tuple[str, ...]
) -> Verdict:
    """Leave the operation as it is, and remember under which context a person has to be asked."""
    fields: dict[str, Any] = {} if outlook.retry_at is None else {"retry_at": outlook.retry_at}
    if outlook.waits_for:
        fields["waits_for"] = outlook.waits_for
    if outlook.next == "ask":
        fields["authority"] = authority
        is_new = today is not None and today != draft.operation.asked_context
        if outlook.reason in _ASKED_UNDER and is_new:
            draft.add(EventKind.PERMISSION_ASKED, reason=outlook.reason, context=today)
    return draft.answer(outlook.next, outlook.reason, fields=fields, warnings=warnings)


def _is_the_same_grant(again: Attempt, live: Attempt, situation: Situation) -> bool:
    return (
        again.number == live.number
        and not live.is_touched
        and live.holder is not None
        and live.holder.may_be(situation.party)
    )


def _can_reproduce(operation: Operation, given: Description) -> bool:
    """Only a caller who has the whole body can send one that was pruned or had a secret replaced."""
    recorded, is_pruned = operation.description, operation.pruned_at is not None
    return (not (recorded.args_redacted or is_pruned) or given.args_keyed == recorded.args_keyed) and (
        not (recorded.payload_redacted or is_pruned) or given.payload_keyed == recorded.payload_keyed
    )


def _lease_until(draft: Draft, terms: Terms, generation: int, lease_seconds: float) -> Instant:
    """Tell when a lease of so many seconds ends: before the deadline does, and the key that it repeats."""
    operation, ends = draft.operation, [draft.now + micros(lease_seconds)]
    deadline = deadline_at(operation)
    if deadline is not None:
        ends.append(deadline)
    elif terms.deadline_seconds is not None:
        ends.append(draft.now + micros(terms.deadline_seconds))
    until = repeat_until(operation, draft.policy)
    if generation == current_generation(operation) and terms.repeat is Repeat.KEYED and until is not None:
        ends.append(until)
    return min(ends)


def _grant(
    draft: Draft,
    given: BeginGiven,
    situation: Situation,
    row: str,
    authority: Authority,
    warnings: tuple[str, ...],
) -> Verdict:
    """Grant the next attempt: its number, its key, and a lease that ends before deadline and key do."""
    now, policy = draft.now, situation.policy
    terms = at_grant(draft.operation.terms, policy)
    draft.fix(terms)
    operation = draft.operation
    generation = next_generation(operation, now, policy)
    lease_seconds = policy.lease_seconds if given.lease_seconds is None else given.lease_seconds
    lease_until = _lease_until(draft, terms, generation, min(lease_seconds, policy.longest_lease_seconds))
    if lease_seconds > policy.longest_lease_seconds:
        warnings += (f"the lease is cut to the longest one, {policy.longest_lease_seconds:g} seconds",)
    if terms.key_ttl_seconds is not None and micros(terms.key_ttl_seconds) <= settle(operation, policy):
        warnings += ("key_ttl_seconds is no longer than the settle time: this key never permits a repeat",)
    reason = {
        State.PLANNED: "first_attempt",
        State.FAILED: "retry_after_failure",
        State.IN_DOUBT: "repeat_safe" if terms.repeat is Repeat.SAFE else "repeat_keyed",
    }[draft.before]
    newest = operation.newest
    draft.add(
        EventKind.ATTEMPT_GRANTED,
        number=1 if newest is None else newest.number + 1,
        generation=generation,
        holder=to_data(situation.party),
        call_id=situation.call_id,
        reason=reason,
        granted_at=now,
        lease_until=lease_until,
        context=given.context,
        workflow_version=given.workflow_version,
        grant_id=None if authority.grant is None else authority.grant.id,
        clock=clock_data(situation.now),
    )
    return draft.verdict(
        Command.BEGIN,
        row,
        reason=reason,
        fields={"attempt": draft.operation.newest, "authority": authority},
        warnings=warnings,
    )
