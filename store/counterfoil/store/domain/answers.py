"""The one verb of every answer, its reasons, and the words that say what to do.

The words are the server's own; nothing stored ever enters them (CONTRACT.md, section 4).
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from counterfoil.store.domain.events import Event, EventKind
from counterfoil.store.domain.model import Finding, Operation, State

__all__ = [
    "FINDING_KEPT",
    "FOUND",
    "GUIDANCE",
    "HOLD_ENDED",
    "NO_ATTEMPT_LEFT",
    "NOBODY_ASKED",
    "NOTHING_OPEN",
    "NOT_HELD",
    "NOT_ITS_UNDOING",
    "PERMITTED",
    "REQUESTED",
    "RUNS_LISTED",
    "RUN_OVER",
    "TWIN_IN_QUESTION",
    "Verdict",
    "damage_warning",
    "guidance_for",
    "skip_reason",
]

RECORDED: Mapping[State, str] = {
    State.PLANNED: "Recorded. Nothing was attempted yet: begin_operation when it is to be done.",
    State.IN_PROGRESS: "Recorded. The attempt goes on; record its receipt or failure when it ends.",
    State.IN_DOUBT: "Recorded. Whether it happened is still open: look it up later and reconcile_operation.",
    State.FAILED: "Recorded: no attempt had an effect. If it is still wanted, call begin_operation again, at "
    "retry_at where that is given.",
    State.SUCCEEDED: "Recorded: it is done. Go on with the next step.",
}
"""What to do after `continue: recorded`, by the state that it led to."""

NO_ATTEMPT_LEFT = (
    "Recorded: no attempt had an effect, and none is left or this failure was final: unless a person has "
    "permitted one more, begin_operation answers ask. If it was denied or is not wanted any more, give it "
    "up: close_operation as cancelled, where that tool is offered."
)
HOLD_ENDED = (
    "The hold is over: whoever calls begin_run next has the run. Live attempts go on; "
    "`counterfoil reconcile --end-lease` ends one."
)
RUNS_LISTED = (
    "Choose the run that you work on and call resume_plan with it; nothing here lets you act. One that is "
    "missing is over (`include: all` shows it) or was begun under another name."
)
NOTHING_OPEN = (
    "Nothing is open in this run (resume_plan with `include: all` shows what is settled). Begin further "
    "effects with begin_operation; where the work is over, call finish_run, if that tool is offered."
)
RUN_OVER = (
    "This run is finished and nothing in it is open: nothing new is begun in it. One that finished as failed "
    "is taken up again by begin_run, where that tool is offered; otherwise tell the person."
)
FOUND = (
    "Operations of any run as they stand now; nothing here lets you act. Each one's next says what comes, "
    "and begin_operation decides."
)
NOT_HELD = "Nobody holds this run: nothing was changed."
FINDING_KEPT = (
    "The receipt is on file already; the finding is kept beside it, and the state is unchanged. Go on."
)
NOT_ITS_UNDOING = (
    "Kept, but it does not prove that this was undone (see warnings). Do not perform it, and undo it no "
    "second time: look for the undoing of this one in the performing system, or tell a person."
)
NOBODY_ASKED = (
    "Nobody was asked, as nothing that is known here needs a person's permission: this is nobody's yes. If "
    "your own instructions want one, ask the person yourself; else call begin_operation, which decides."
)
PERMITTED = "A permission for it is on file: call begin_operation, which decides."
REQUESTED: Mapping[str, str] = {
    "waiting": "The request waits for a person: do not perform it, and never grant it yourself. Tell them, "
    "once, what `how` says; when they have permitted it, begin_operation says so.",
    "declined": "A person was asked and has not permitted it: do not perform it. Asking again asks nobody; "
    "they can still permit it as `how` says. Where it is given up, close_operation as cancelled, if that "
    "tool is offered.",
}
"""What to do about a request for a permission, by its state."""

TWIN_IN_QUESTION = (
    "This very effect is on file under another key, and whether it happened is in question: do not perform "
    "it. No distinct_from sets it aside: use that key (see duplicates), and reconcile it first."
)


class Verdict(Struct, frozen=True, kw_only=True):
    """What a command decided: the answer, and the events that make it so.

    `row` names the row of the table that decided, where one did; `fields` are further answer fields that only
    the decision knows; `after` are the facts once the events are applied.
    """

    next: str
    reason: str
    row: str | None = None
    events: tuple[Event, ...] = ()
    after: Operation | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def kept_finding(self) -> Finding | None:
        """The finding that this command put on file, if it did."""
        is_kept = any(event.kind is EventKind.FINDING_RECORDED for event in self.events)
        return self.after.findings[-1] if is_kept and self.after is not None else None


def skip_reason(state: State) -> str:
    """The reason of `skip` in a settled state."""
    return "already_succeeded" if state is State.SUCCEEDED else state.value


def damage_warning(operation: Operation) -> str:
    """Say what is the matter with an operation whose rows cannot be read, and what to do."""
    return (
        f"what is on record of {operation.id} cannot be read: its effect may have happened, so do not "
        "perform it, and keep every receipt of it; nothing can be recorded on it until a person has run "
        "`counterfoil verify`, which tells whether its log is whole and `--repair` can make its rows anew"
    )


_PERFORM = (
    "Perform the effect now, once, before send_before, with this idempotency_key where the system takes "
    "one; then call record_receipt with this attempt. If you cannot tell how it ended: record_failure, "
    "effect unknown."
)

GUIDANCE: Mapping[tuple[str, str], str] = {
    ("perform", "first_attempt"): _PERFORM,
    ("perform", "retry_after_failure"): "Earlier attempts had no effect. " + _PERFORM,
    ("perform", "repeat_safe"): "An earlier attempt may have worked, and this effect is safe to repeat. "
    + _PERFORM,
    (
        "perform",
        "repeat_keyed",
    ): "An earlier attempt may have worked: send exactly the recorded args and payload "
    "under this same idempotency_key, so that the system takes both for one. " + _PERFORM,
    ("perform", "replayed"): "This is the grant that you already have, not a second one. "
    "Perform only if you have not sent it yet; otherwise record what came of it.",
    (
        "begin",
        "first_attempt",
    ): "Not started: call begin_operation with what is recorded of it (check_operation with detail args and "
    "payload gives these) and your own choice of what is not; it decides.",
    ("begin", "retry_after_failure"): "It had no effect so far: to try again call begin_operation with "
    "the recorded action, target, args and payload (check_operation with detail args and payload).",
    ("begin", "repeat_safe"): "Unknown, but safe to repeat: call begin_operation with the recorded action, "
    "target, args and payload (check_operation with detail args and payload).",
    (
        "begin",
        "repeat_keyed",
    ): "Unknown, but the provider's key is alive: call begin_operation with the recorded action, target, "
    "args and payload (check_operation with detail args and payload), and send that body under the same "
    "idempotency_key.",
    ("skip", "already_succeeded"): "Done: do not perform it. Its receipts are the proof.",
    ("skip", "timed_out"): "Given up without evidence: do not perform it. A late success is recorded with "
    "record_receipt.",
    ("skip", "cancelled"): "Cancelled: do not perform it.",
    ("skip", "compensated"): "It happened and was undone: do not perform it.",
    ("wait", "lease_held"): "A live attempt may be performing it: do not perform it. Ask again at retry_at; "
    "if the attempt is your own, record its receipt or failure first.",
    (
        "wait",
        "lease_held_by_you",
    ): "You hold this attempt already: no second grant is given. If you have not sent it, "
    "go on with it; if you have, record_receipt or record_failure; if you cannot tell, look it up and "
    "reconcile.",
    (
        "wait",
        "settling",
    ): "Too early for an empty look to count: it is kept. At retry_at call check_operation, look "
    "again, and call reconcile_operation with the as_of of that check.",
    ("wait", "dependency"): "Another step goes first (see waits_for): do not perform this one yet; begin it "
    "once that has succeeded.",
    ("wait", "backoff"): "The last failure asked for a pause: begin again at retry_at.",
    ("wait", "run_held"): "Another live session works on this run: leave its steps to it, and ask again at "
    "retry_at. If that session is gone, a person can end its hold (counterfoil release).",
    (
        "reconcile",
        "in_doubt",
    ): "It may have happened: do not perform it. Look for it in the performing system (see lookup, since, "
    "idempotency_key), then call reconcile_operation with this answer's as_of: performed with its reference "
    "if you found it. If you did not, not_performed counts where a lookup is declared; where none is, it "
    "settles nothing and a person decides (counterfoil reconcile).",
    (
        "reconcile",
        "disputed",
    ): "Evidence contradicts the recorded state: do not perform it. Look it up, then call "
    "reconcile_operation with what is true.",
    (
        "reconcile",
        "receipt_too_weak",
    ): "Kept, but it does not prove the effect: do not perform it again. Bring the performing system's own "
    "reference as external_id (message id, commit hash, transaction id), or look it up and reconcile. If "
    "that is what you brought, this action needs stronger evidence than an agent's word: tell a person.",
    (
        "reconcile",
        "foreign_receipt",
    ): "Kept, but it proves nothing here: it is older than this operation or belongs "
    "to another one. Do not perform it again; look for this operation's own effect and reconcile.",
    (
        "ask",
        "authority_required",
    ): "A person must permit this first: do not perform it, and never grant it yourself. Tell them, once, by "
    "request_authority where that tool is offered; a request that waits or was declined (request_state) is "
    "not made again: they permit it with `counterfoil grant`.",
    (
        "ask",
        "authority_expired",
    ): "The permission no longer holds (see grants and drift): do not perform it. A person "
    "must renew it: tell them, once, by request_authority where that tool is offered; `counterfoil grant` "
    "gives.",
    (
        "ask",
        "drift",
    ): "What this rests on has changed in a part that blocks (see drift): do not perform it. A "
    "person must decide: tell them, once, by request_authority where that tool is offered; `counterfoil "
    "grant` permits it.",
    (
        "ask",
        "attempts_exhausted",
    ): "No attempt is left, or the failure was final: do not perform it. If a person said no to it, leave it "
    "at that; else they may permit one more: tell them, once, by request_authority where that tool is "
    "offered; `counterfoil grant` permits it, `counterfoil close` gives it up.",
    (
        "ask",
        "history_gap",
    ): "The journal may have missed this: it was put back from a backup, or an import or copy into it has "
    "not ended. Do not perform it. A person must see which it is (counterfoil check) and end what has not "
    "ended, or look whether this was done and decide (counterfoil reconcile, or restore --accept-gap).",
    (
        "ask",
        "disputed",
    ): "Two effects, or findings that contradict each other, are on file: do not perform it; "
    "a person must decide (counterfoil reconcile). If one of them is a mistake of yours, tell them which: "
    "nothing on file is taken back.",
    (
        "ask",
        "unresolved",
    ): "Looking has not settled whether it happened: do not perform it; a person must decide "
    "(counterfoil reconcile).",
    ("ask", "dependency_unmet"): "A step that this one needs can no longer succeed (see waits_for): do not "
    "perform it; a person must decide.",
    (
        "stop",
        "identity_conflict",
    ): "This key is already another effect in this run: do not perform it. Compare "
    "conflict; repeat the recorded call exactly, or choose another key for another effect.",
    (
        "stop",
        "possible_duplicate",
    ): "This looks like an effect that is already on file under another key: do not "
    "perform it. Use that key; or, if it really is another effect, begin with distinct_from naming its id.",
    ("stop", "superseded"): "This attempt or call is no longer the current one: do not perform it. Call "
    "check_operation; to try again begin with a new call_id.",
    (
        "stop",
        "run_finished",
    ): "The run is finished: nothing new is begun in it, so do not perform it. One that "
    "finished as failed is taken up again by begin_run, where that tool is offered; otherwise tell the "
    "person.",
    ("stop", "unmet"): "What this call presupposes does not hold: nothing was changed, and do not perform "
    "what it was for. warnings, unmet and unmet_criteria say what is missing, or what to do instead: settle "
    "that before you call again.",
    ("continue", "recorded"): "Recorded. Go on according to state.",
    ("continue", "duplicate"): "Already on file: nothing changed. Go on.",
    ("continue", "claimed"): "Kept as a claim beside what is on record; the state is unchanged.",
    (
        "continue",
        "started",
    ): "Started: follow each step's next; only a begin that answers perform lets you act.",
    (
        "continue",
        "resumed",
    ): "Resumed: follow each step's next; only a begin that answers perform lets you act.",
    (
        "continue",
        "finished",
    ): "Finished. What warnings name is still open: receipts and findings stay welcome.",
    (
        "continue",
        "listed",
    ): "Follow each step's next; only a begin_operation that answers perform lets you act.",
    (
        "continue",
        "no_history",
    ): "The journal has nothing of this on record. That proves nothing about the world: if "
    "work may have been done elsewhere or under another name, look before you act.",
}


def guidance_for(next_: str, reason: str, state: State | None = None) -> str:
    """Give the one or two sentences for a verb and its reason, and for the state that followed."""
    told = RECORDED.get(state) if reason == "recorded" and state is not None else None
    return told or GUIDANCE[next_, reason]
