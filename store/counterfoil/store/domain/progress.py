"""record_progress: the holder of an attempt says that it is still at it, and what a successor should know."""

from msgspec import Struct

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.instants import Instant, micros
from counterfoil.store.domain.model import Attempt, Operation, Outcome, Repeat, State
from counterfoil.store.domain.states import current_generation, deadline_at, repeat_until
from counterfoil.store.domain.table import Command

__all__ = ["ProgressFacts", "decide_progress"]


class ProgressFacts(Struct, frozen=True, kw_only=True):
    """Progress in normal form; `checkpoint` is a digest, `attempt` None stands for the newest.

    `is_redelivered`: the same call was taken before and changes nothing.
    """

    attempt: int | None = None
    message: str | None = None
    fraction: float | None = None
    checkpoint: str | None = None
    is_redelivered: bool = False


def decide_progress(operation: Operation, given: ProgressFacts, situation: Situation) -> Verdict:
    """Extend the holder's lease and keep what it says; anything but `continue` means: do not send."""
    draft = Draft(operation, operation_id=operation.id, situation=situation)
    newest = draft.operation.newest
    if newest is None or (given.attempt is not None and given.attempt != newest.number):
        return draft.verdict(Command.PROGRESS, "older")
    if newest.holder is None or not newest.holder.is_holder(situation.party):
        return draft.verdict(Command.PROGRESS, "another_caller")
    if given.is_redelivered:
        return draft.verdict(Command.PROGRESS, "its_holder", fields={"attempt": draft.operation.newest})
    is_revived = draft.before is State.IN_DOUBT and _may_revive(draft.operation, newest, draft.now)
    until = _extended(draft.operation, newest, situation)
    if draft.before is State.IN_PROGRESS or (is_revived and until > draft.now):
        draft.add(EventKind.LEASE_EXTENDED, attempt=newest.number, lease_until=max(until, newest.lease_until))
        draft.add(
            EventKind.PROGRESSED,
            message=given.message,
            fraction=given.fraction,
            checkpoint=given.checkpoint,
        )
        row = "its_holder_revives" if draft.before is State.IN_DOUBT else "its_holder"
        return draft.verdict(Command.PROGRESS, row, fields={"attempt": draft.operation.newest})
    return draft.verdict(Command.PROGRESS, "its_holder")


def _may_revive(operation: Operation, newest: Attempt, now: Instant) -> bool:
    """A lease that merely ran out may live again, unless something was decided or found since.

    Findings, receipts and acknowledgements since its end are such, also where they settle nothing; what
    another attempt or an unannounced effect left unknown does not end this one.
    """
    if newest.outcome is not Outcome.UNKNOWN or newest.ended_at is not None:
        return False
    told = [finding.recorded_at for finding in operation.findings]
    told += [receipt.recorded_at for receipt in operation.receipts if not receipt.is_foreign]
    return all(at < newest.lease_until for at in told)


def _extended(operation: Operation, newest: Attempt, situation: Situation) -> Instant:
    """The new end of the lease: never beyond the deadline, the key's life or the longest lease.

    It is extended by the length that it was granted for, which its end shows from where it was last set: a
    length that earlier extensions are counted into would grow with each of them.
    """
    now, policy = situation.now.at, situation.policy
    granted_for = newest.lease_until - max(newest.granted_at, operation.progressed_at or 0)
    ends = [
        now + max(granted_for, micros(policy.lease_seconds)),
        newest.granted_at + micros(policy.longest_lease_seconds),
    ]
    deadline = deadline_at(operation)
    if deadline is not None:
        ends.append(deadline)
    until = repeat_until(operation, policy)
    if (
        operation.terms.repeat is Repeat.KEYED
        and until is not None
        and newest.generation == current_generation(operation)
    ):
        ends.append(until)
    return min(ends)
