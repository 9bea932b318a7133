"""close_operation, and what the success of a compensating operation, or its denial, does to the original."""

from msgspec import Struct

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import Event, EventKind
from counterfoil.store.domain.model import DisputeKind, Operation, State
from counterfoil.store.domain.states import live_attempt
from counterfoil.store.domain.table import Command

__all__ = ["CloseFacts", "compensate", "count_as_done_again", "decide_close"]


class CloseFacts(Struct, frozen=True, kw_only=True):
    """A decision in normal form: `timed_out` or `cancelled`.

    `is_redelivered`: this very call has decided before.
    """

    outcome: State
    reason: str
    is_redelivered: bool = False


def decide_close(operation: Operation, given: CloseFacts, situation: Situation) -> Verdict:
    """Take the explicit decision to stop waiting, or to give up."""
    draft = Draft(operation, operation_id=operation.id, situation=situation)
    if given.is_redelivered:
        return draft.answer("continue", "duplicate")
    row, state = given.outcome.value, draft.state
    live = live_attempt(draft.operation, draft.now)
    is_holder = live is not None and live.holder is not None and live.holder.is_holder(situation.party)
    if situation.is_person:
        row += "_by_a_person"
    elif given.outcome is State.TIMED_OUT and state is State.IN_PROGRESS and is_holder:
        row += "_by_its_holder"
    takes_effect = _takes_effect(row, state, has_live=live is not None)
    if takes_effect:
        if state is State.DISPUTED:
            draft.add(EventKind.DISPUTE_CLOSED, by="person")
        draft.add(
            EventKind.DECIDED,
            outcome=given.outcome.value,
            by="person" if situation.is_person else "agent",
            reason=given.reason,
        )
    elif state is State.DISPUTED and situation.is_person:
        return draft.answer("wait", "lease_held")
    instead = () if takes_effect else _instead(operation, given.outcome, state)
    return draft.verdict(Command.CLOSE, row, warnings=instead)


def _instead(operation: Operation, outcome: State, state: State) -> tuple[str, ...]:
    """Say what is done where a decision is refused."""
    if state is State.SUCCEEDED:
        return (
            "what succeeded is not closed but undone: begin_operation under a key of its own, with "
            f"compensates: {operation.id}",
        )
    if state is State.PLANNED and outcome is State.TIMED_OUT:
        return ("what was never attempted cannot time out: close it as cancelled",)
    if state is State.IN_DOUBT and outcome is State.CANCELLED:
        return (
            "it was not closed, as it may have happened: look it up and reconcile, or close it as timed_out "
            "to stop waiting for it",
        )
    return ()


def _takes_effect(row: str, state: State, *, has_live: bool) -> bool:
    match row, state:
        case _, State.FAILED:
            return True
        case ("timed_out" | "timed_out_by_a_person", State.IN_DOUBT):
            return True
        case ("timed_out_by_its_holder" | "timed_out_by_a_person", State.IN_PROGRESS):
            return True
        case ("timed_out_by_a_person", State.DISPUTED):
            return True
        case ("cancelled" | "cancelled_by_a_person", State.PLANNED):
            return True
        case ("cancelled_by_a_person", State.IN_DOUBT):
            return True
        case ("cancelled_by_a_person", State.DISPUTED):
            return not has_live
        case _:
            return False


def compensate(original: Operation, situation: Situation, *, by: str) -> tuple[Event, ...]:
    """Give the events by which an operation counts as undone, once its compensation has succeeded.

    Two effects on file stay a question for a person: one undoing undoes one of them.
    """
    draft = Draft(original, operation_id=original.id, situation=situation)
    dispute = draft.operation.dispute
    if draft.state in (State.COMPENSATED, State.PLANNED) or (
        dispute is not None and dispute.kind is DisputeKind.EFFECTS
    ):
        return ()
    if dispute is not None:
        draft.add(EventKind.DISPUTE_CLOSED, by="compensated")
    draft.add(EventKind.DECIDED, outcome=State.COMPENSATED.value, by="compensation", reason=by)
    return draft.events


def count_as_done_again(original: Operation, situation: Situation, *, by: str) -> tuple[Event, ...]:
    """Give the events by which an operation is no longer undone, once a person denied the undoing `by`.

    Where no receipt of the effect stands either, it is given up: nothing is opened by this.
    """
    decision = original.decision
    if decision is None or (decision.outcome, decision.reason) != (State.COMPENSATED, by):
        return ()
    draft = Draft(original, operation_id=original.id, situation=situation)
    if draft.operation.standing or draft.operation.dispute is not None:
        draft.add(EventKind.DECISION_WITHDRAWN, by="person")
    else:
        draft.add(
            EventKind.DECIDED,
            outcome=State.CANCELLED.value,
            by="person",
            reason="no receipt of it stands, and its undoing was denied",
        )
    return draft.events
