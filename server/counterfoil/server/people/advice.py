"""What a person can do: commands, where an answer or a fault tells an agent which tools to call.

The words of the store are made for agents, and stay as they are in what programs read (`--json`).
"""

import re
from collections.abc import Mapping
from typing import Any

from counterfoil.store.errors import Ambiguous, Fault, InvalidArgument, JournalUnavailable, NotFound

__all__ = ["ADVICE", "WORDS_FOR_AGENTS", "advice", "advice_on", "fix_for_person"]

_SAY = "`counterfoil reconcile {it} --finding {finding} --checked-with TEXT`"
_PERFORMED = _SAY.replace("{finding}", "performed").replace(" --checked", " --external-id ID --checked")
_NOT_PERFORMED = _SAY.replace("{finding}", "not_performed")
_WHAT_YOU_FOUND = (
    f"look in the performing system, then say what you found: {_PERFORMED}, or with `--finding not_performed`"
)
_GIVE_UP = "`counterfoil close {it} --outcome cancelled --reason TEXT` gives it up"
_PERMIT = "`counterfoil grant {it}`"
_HELD = (
    "A session holds the attempt and may be performing it now. When its lease is over it is in doubt. "
    "If that session is gone: "
    "`counterfoil reconcile {it} --end-lease --finding inconclusive --checked-with TEXT`."
)

ADVICE: Mapping[tuple[str, str], str] = {
    ("begin", "first_attempt"): "Not started, and nothing stands in the way: the agent that takes the run up "
    f"begins it. {_GIVE_UP}.",
    ("begin", "retry_after_failure"): f"It had no effect so far: an agent may try again. {_GIVE_UP}.",
    ("begin", "repeat_safe"): "It may have happened, and is safe to repeat: an agent may do it again. If you "
    f"know that it happened: {_PERFORMED}.",
    ("begin", "repeat_keyed"): "It may have happened, and the provider still knows its idempotency key: an "
    f"agent may send it again under that key. If you know that it happened: {_PERFORMED}.",
    ("skip", "already_succeeded"): "Done: its receipts are the proof.",
    ("skip", "timed_out"): "Given up without evidence: no agent performs it. If it happened after all: "
    f"{_PERFORMED}.",
    ("skip", "cancelled"): f"Given up: no agent performs it. {_NOT_PERFORMED} opens it again.",
    ("skip", "compensated"): "It happened and was undone: no agent performs it.",
    ("wait", "lease_held"): _HELD,
    ("wait", "lease_held_by_you"): _HELD,
    ("wait", "settling"): "It is too early for an agent that found nothing to be believed. A person's "
    f"finding counts at once: {_WHAT_YOU_FOUND}.",
    ("wait", "dependency"): 'Another step goes first: `counterfoil show` names it under "depends on".',
    ("wait", "backoff"): "The last failure asked for a pause: an agent may try again after it.",
    ("wait", "run_held"): "A live session works on this run. If it is gone: `counterfoil release RUN "
    "--reason TEXT`.",
    ("reconcile", "in_doubt"): f"It may have happened, and nobody knows: {_WHAT_YOU_FOUND}.",
    ("reconcile", "disputed"): "Evidence contradicts the recorded state: "
    f"{_WHAT_YOU_FOUND} or `--finding compensated`.",
    ("reconcile", "receipt_too_weak"): "What is on file does not prove that it happened: bring the "
    f"performing system's own reference: {_PERFORMED}.",
    ("reconcile", "foreign_receipt"): "The receipt on file is older than this operation or belongs to "
    f"another one, and proves nothing here: {_WHAT_YOU_FOUND}.",
    ("ask", "authority_required"): f"A person must permit this first: {_PERMIT}; `counterfoil requests` "
    "lists what agents asked for.",
    ("ask", "authority_expired"): f"The permission no longer holds: {_PERMIT} renews it. {_GIVE_UP}.",
    ("ask", "drift"): f"What this rests on has changed: {_PERMIT} lets it go on all the same. {_GIVE_UP}.",
    ("ask", "attempts_exhausted"): f"No attempt is left, or the failure was final: {_PERMIT} permits one "
    f"more. {_GIVE_UP}.",
    ("ask", "history_gap"): "The journal may have missed this: it was put back from a backup, or an import "
    "or copy into it has not ended and is to be ended first (`counterfoil check` says which). Else: "
    f"{_WHAT_YOU_FOUND}. Where the whole run was looked at: `counterfoil restore --accept-gap RUN`.",
    ("ask", "disputed"): "Two effects, or findings that contradict each other, are on file: "
    f"{_WHAT_YOU_FOUND} or `--finding compensated`.",
    ("ask", "unresolved"): f"Agents have looked and could not settle it: {_WHAT_YOU_FOUND}. Where nobody can "
    "tell: `counterfoil close {it} --outcome timed_out --reason TEXT`.",
    ("ask", "dependency_unmet"): "A step that this one depends on can no longer succeed (`counterfoil show` "
    f'names those steps under "depends on"). {_GIVE_UP}.',
    ("stop", "identity_conflict"): "Its key stands for another effect: `counterfoil show RUN KEY` says for "
    "which.",
    ("stop", "possible_duplicate"): "It looks like an effect that is on file under another key, and no agent "
    f"performs it before it has said that it is another one. If it is the same: {_GIVE_UP}.",
    ("stop", "superseded"): "There is a later attempt: `counterfoil show {it}` lists them.",
    ("stop", "run_finished"): "The run is finished: nothing new is begun in it. One that ended as failed "
    "goes on when an agent takes it up again.",
    ("stop", "unmet"): "Nothing was changed: what this presupposes does not hold.",
    ("continue", "recorded"): "Recorded.",
    ("continue", "duplicate"): "It was on file already: nothing was changed.",
    ("continue", "claimed"): "Kept as a claim beside what is on file; the state is unchanged. A reference of "
    "the performing system (--external-id) makes it evidence.",
    ("continue", "started"): "Started.",
    ("continue", "resumed"): "Resumed.",
    ("continue", "finished"): "Finished.",
    ("continue", "listed"): "`counterfoil show OPERATION` says more about each.",
    ("continue", "no_history"): "The journal has nothing of this on record. That proves nothing about the "
    "world.",
}
"""What a person may do, by the verb of an answer and its reason; {it} stands for the operation."""

_RECORDED = {
    "planned": "Recorded. It was not attempted: an agent may begin it.",
    "in_progress": "Recorded. The attempt goes on.",
    "in_doubt": "Recorded. Whether it happened is still open.",
    "failed": "Recorded: it had no effect, and an agent may try again. "
    "`counterfoil close {it} --outcome cancelled --reason TEXT` gives it up.",
    "succeeded": "Recorded: it is done.",
}

WORDS_FOR_AGENTS = (
    "begin_operation",
    "begin_run",
    "call_id",
    "check_operation",
    "close_operation",
    "find_operations",
    "finish_run",
    "reconcile_operation",
    "record_failure",
    "record_progress",
    "record_receipt",
    "request_authority",
    "resume_plan",
    "verify_operation",
)
"""The tools, and what only a call of a tool has."""

_FOR_AGENTS = re.compile(rf"\b(?:{'|'.join(WORDS_FOR_AGENTS)})\b")


def advice(next_: str, reason: str, *, state: str | None = None, it: str = "OPERATION") -> str:
    """Say what a person can do about an operation for which an agent is told this verb.

    `it` is what names the operation in a command, and `state` the one that a command led to.
    """
    told = _RECORDED.get(state or "") if reason == "recorded" else None
    return (told or ADVICE[next_, reason]).replace("{it}", it)


def advice_on(answer: Mapping[str, Any]) -> str:
    """Say what a person can do about the operation of an answer."""
    if answer["reason"] == "duplicate" and "finding" in answer:
        return "The reference is on file already; your finding is kept beside it, and the state is unchanged."
    return advice(
        answer["next"], answer["reason"], state=answer.get("state"), it=answer.get("operation", "OPERATION")
    )


def fix_for_person(fault: Fault) -> str:
    """Say what a person can do about a fault: its own words, unless they speak of tools."""
    if not _FOR_AGENTS.search(fault.fix):
        return fault.fix
    match fault:
        case Ambiguous():
            return "name one of them: by its id, or by its run and its key"
        case NotFound():
            return (
                "`counterfoil runs --all` lists the runs, `counterfoil plan RUN --all` their operations, and "
                "`counterfoil find` searches"
            )
        case InvalidArgument():
            return (
                "name an operation by its id (op_ and 20 characters), or by its run and its key; "
                "`counterfoil plan RUN --all` lists them"
            )
        case JournalUnavailable(recorded=None):
            rest = fault.fix.partition("; ")[2]
            return (
                "look whether it was recorded (`counterfoil show`, `counterfoil tail`), and run the command "
                "again if it was not" + (f"; {rest}" if rest else "")
            )
        case _:
            return "see the command's --help; `counterfoil check` looks at the journal"
