"""What a hook says: to the client in its JSON, to the model in words that are this program's own.

Stored text comes only as labelled, bounded, escaped data behind the words.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from counterfoil.server.hooks.event import HookEvent
from counterfoil.store.attending_calls import HeldAttempt
from counterfoil.store.domain.untrusted import escape_untrusted

__all__ = [
    "BLOCKED",
    "another_journal",
    "blocked",
    "blocked_by_step",
    "context_output",
    "deny_output",
    "gone",
    "journaled",
    "not_begun",
    "not_of_a_call",
    "not_stored",
    "still_open",
    "unavailable",
    "unknown_plan",
    "unread",
]

_SHOWN = 300

BLOCKED = "Counterfoil blocked this call"
"""How every reason for which a call does not run begins."""

_HOW = (
    "To settle it: look, then call reconcile_operation of the counterfoil tools with operation, finding, "
    "checked_with and as_of as given here: performed with its reference if you found it. If you did not, "
    "not_performed counts where a lookup is given here (answered with wait: look again at retry_at; once "
    "that has settled it, run the command again); where none is, it settles nothing and a person decides "
    "(`counterfoil reconcile OPERATION`). So does a person where these tools are not at hand."
)

_WORDS: Mapping[str, str] = {
    "already_succeeded": "This very effect is on record as done. Do not repeat it; its receipts are the "
    "proof.",
    "timed_out": "This effect was given up without evidence. Do not perform it.",
    "cancelled": "This effect was cancelled. Do not perform it.",
    "compensated": "This effect happened and was undone. Do not perform it again.",
    "in_doubt": "This very effect may already have happened: an earlier call of it ended without a "
    "result. Do not "
    "run it again before you have looked it up in the system that performs it. " + _HOW,
    "lease_held_by_you": "This very effect is under way in this conversation, or was interrupted there: "
    "no result of "
    "it has come. Do not run it a second time. If it is still running, wait for its result; if it was "
    "interrupted, look it up. " + _HOW,
    "lease_held": "Another session is performing this very effect. Do not perform it; ask again at retry_at.",
    "settling": "It is too early for an empty look to count: wait until retry_at, look again, and "
    "reconcile with "
    "the as_of of a new check_operation.",
    "disputed": "Evidence on this effect contradicts itself. Do not perform it. " + _HOW,
    "receipt_too_weak": "It may have happened, and what is on record does not prove it. Do not repeat it. "
    + _HOW,
    "foreign_receipt": "A receipt on record belongs to something else. Look for this effect itself. " + _HOW,
    "authority_required": "A person must permit this first: tell the person, who does it with "
    "`counterfoil grant OPERATION`.",
    "authority_expired": "The permission for this no longer holds: a person renews it with "
    "`counterfoil grant OPERATION`.",
    "drift": "What this rests on has changed: a person must decide (`counterfoil grant OPERATION`).",
    "attempts_exhausted": "No attempt is left: a person must decide (`counterfoil grant OPERATION`).",
    "history_gap": "The journal may have missed this: it was put back from a backup, or an import or copy "
    "into it has not ended (`counterfoil check` says which). A person must decide.",
    "unresolved": "Looking has not settled whether this happened. Do not perform it: a person must decide "
    "(`counterfoil reconcile OPERATION`).",
    "backoff": "The last failure asked for a pause: run it again after retry_at.",
    "dependency": "Another step goes first.",
    "identity_conflict": "The key that COUNTERFOIL_KEY names is another effect in this run. Choose "
    "another one.",
    "possible_duplicate": "This looks like an effect that is on file under another key, and is not settled. "
    "Settle that one first: `duplicates` is its operation. " + _HOW,
    "superseded": "This call was told of before and is over. Make the call anew.",
    "run_finished": "The run that this would belong to is finished.",
}
_PART = (
    "It has several effects, and none of them was run. One of them stands in the way; run the others without "
    "it, in a call of their own."
)
_ALL_PARTS = "It has several effects, and each of them is on record by itself. This is one of them."

_DONE_BEFORE = (
    "This very effect is on record as done, and a later one on the same target after it, so that it may no "
    "longer stand: that perhaps undid it, or put another version in its place."
)
_ANEW = (
    "Look at what stands now. If it is wanted anew (a rollback, or what was deleted), do it deliberately: "
    "put COUNTERFOIL_KEY=<a name for this time> in front of the command. If not, do not repeat it."
)

_OTHERWISE = "The journal does not permit this call now."

_AGAIN = (
    "If you mean another effect that merely looks the same, and know that a second one is wanted: put "
    "COUNTERFOIL_KEY=<a name for it> in front of the command."
)
_AGAIN_TOOL = (
    "If you mean another effect that merely looks the same, and know that a second one is wanted: begin "
    "it with "
    "begin_operation under its own key, with distinct_from naming this operation."
)


def blocked(
    answer: Mapping[str, Any],
    event: HookEvent,
    *,
    lookup: str | None = None,
    later: Mapping[str, Any] | None = None,
    holds_it: bool = False,
    part: str | None = None,
    others: str = "",
) -> str:
    """Say why a call does not run, from what the journal answered. `lookup` is the rule's.

    `later` is what was done to the same target after it: that it is done does not say that it stands.
    Of a call with several effects `part` is the one that stands in the way; `others` may run without it.
    """
    reason = "lease_held_by_you" if holds_it else str(answer.get("reason", ""))
    words = [_WORDS.get(reason, _OTHERWISE) if later is None else _DONE_BEFORE]
    if part is not None:
        words.insert(0, _PART if others else _ALL_PARTS)
    if later is not None:
        words.append(_ANEW)
    elif answer.get("next") == "skip":
        words.append(_AGAIN if event.is_shell else _AGAIN_TOOL)
    data = _data(answer)
    if answer.get("next") != "skip" and lookup is not None:
        data.setdefault("lookup", escape_untrusted(lookup, limit=2 * _SHOWN))
    if later is not None:
        names = ("operation", "action", "state", "changed_at")
        told = ", ".join(str(later[name]) for name in names if name in later)
        data["later on this target"] = escape_untrusted(told, limit=_SHOWN)
    if part is not None:
        data["stands in the way"] = escape_untrusted(part, limit=_SHOWN)
        data["not run"] = escape_untrusted(others, limit=_SHOWN)
    return _told("blocked this call.", words, data)


def blocked_by_step(step: Mapping[str, Any], *, run: str, as_of: str, event: HookEvent) -> str:
    """Say that an earlier effect on the same target has to be settled first."""
    words = ["An earlier effect on the same target is not settled, and may be this one.", _WORDS["in_doubt"]]
    return _told("blocked this call.", words, _data({**step, "run": run, "as_of": as_of}))


def unavailable(code: str) -> str:
    """Say that a call does not run because the journal cannot be asked, and the rule wants it so."""
    return (
        f"Counterfoil blocked this call: the journal cannot be used now ({code}), and the rule for this "
        f"effect says "
        "that it is then not performed. Nothing was recorded. A person can see the cause with "
        "`counterfoil doctor`."
    )


def unread(code: str) -> str:
    """Say that a call does not run because it cannot be put on record, and a rule wants it so."""
    return (
        f"Counterfoil blocked this call: it cannot be put on record before it runs ({code}), and a rule says "
        "that an effect is then not performed. Nothing was recorded. Make it in smaller calls."
    )


def unknown_plan(code: str) -> str:
    """Say that nobody can tell what is open: what was done before may be done a second time."""
    return (
        f"Counterfoil, the journal of effects outside, cannot be read now ({code}): what earlier sessions "
        "did, and what of it is in doubt, cannot be told. Look it up in the system that performs it before "
        "you repeat an effect, and tell the person, who can see the cause with `counterfoil doctor`."
    )


def journaled(answer: Mapping[str, Any], *, external_ids: Iterable[str]) -> str:
    """Say that a receipt was recorded."""
    if answer.get("next") in ("continue", "skip"):
        words = ["The result is on record; you need not record it yourself."]
    else:
        words = [
            "The result is on record, and something stands against it.",
            _WORDS.get(str(answer.get("reason")), ""),
        ]
    return _told(
        "kept the receipt of this call.", words, {**_data(answer), "reference": ", ".join(external_ids)}
    )


def still_open(answer: Mapping[str, Any], *, came: str) -> str:
    """Say that nobody knows yet what came of a call, or that nothing did."""
    words = {
        "under_way": "It goes on in the background: when it ends, record what came of it with "
        "record_receipt or "
        "record_failure.",
        "refused": "It had no effect. It may be run again.",
    }.get(
        came,
        "Whether it happened is not shown by this result. Do not run it again before you have looked. "
        + _HOW,
    )
    return _told("noted the end of this call.", [words], _data(answer))


def gone(journal: str, *, mark: str) -> str:
    """Say that the journal that was used here is no longer there, and that none is made in its place."""
    return (
        "Counterfoil: the journal that was used here is gone, and none is made in its place, since any "
        "effect may have been on record in it. Effects outside do not run until a person has decided: put "
        "the file back, or a backup of it (`counterfoil restore`); or, to begin a new journal that knows of "
        "nothing before, delete the mark of the old one. Tell the person. "
        f"[journal: {escape_untrusted(journal, limit=_SHOWN)}; mark: {escape_untrusted(mark, limit=_SHOWN)}]"
    )


def another_journal(journal: str, *, made_at: str) -> str:
    """Say that the journal at this place is not the one that was used here before."""
    return (
        "Counterfoil: the journal here is another one than was used before. What that one held is not on "
        "record in this one, so that an effect without a record may have happened all the same: look it up "
        "before you repeat anything of earlier sessions, and tell the person. "
        f"[journal: {escape_untrusted(journal, limit=_SHOWN)}; made at: {made_at}]"
    )


def not_begun(code: str) -> str:
    """Say that a call goes on though nothing of it is on record: whoever repeats it is not held back."""
    return (
        f"Counterfoil could NOT put this call on record before it runs ({code}): nothing guards it against "
        "being repeated. Keep what it answers, and record it with record_receipt; tell the person, who can "
        "see the cause with `counterfoil doctor`."
    )


def not_of_a_call(known: HeldAttempt, event: HookEvent) -> str | None:
    """Say that a result was not taken for that of another call; nothing where there is none."""
    if event.name == "PostToolUseFailure":
        return None
    data = {"operation": known.operation, "run": known.run, "key": known.key, "state": known.state.value}
    words = (
        "It was not begun here, and the same effect, or a part of it, is on record by another call. If it "
        "did run, that may have happened twice: look, and tell the person."
    )
    return _told("did NOT record the result of this call.", [words], _data(data))


def not_stored(code: str) -> str:
    """Say that a result could not be recorded."""
    return (
        f"Counterfoil could NOT record the result of this call ({code}). Keep its reference, and record "
        f"it with "
        "record_receipt as soon as the journal can be used."
    )


def _told(head: str, words: Iterable[str], data: Mapping[str, Any]) -> str:
    shown = "; ".join(f"{name}: {value}" for name, value in data.items() if value)
    return f"Counterfoil {head} {' '.join(word for word in words if word)} [{shown}]"


def _data(answer: Mapping[str, Any]) -> dict[str, str]:
    told: dict[str, Any] = {
        name: answer.get(name)
        for name in (
            "operation",
            "run",
            "key",
            "state",
            "attempt",
            "as_of",
            "since",
            "settle_until",
            "retry_at",
        )
    }
    lookup = answer.get("lookup")
    if isinstance(lookup, Mapping):
        told["lookup"] = lookup.get("instructions") or lookup.get("tool") or lookup.get("probe")
    receipts = answer.get("receipts")
    if isinstance(receipts, list):
        told["receipts"] = ", ".join(
            f"{receipt.get('kind')} {receipt.get('external_id')}"
            for receipt in receipts[:3]
            if receipt.get("final", True)
        )
    duplicates = answer.get("duplicates")
    if isinstance(duplicates, list):
        told["duplicates"] = ", ".join(str(other.get("operation")) for other in duplicates[:3])
    return {
        name: escape_untrusted(str(value), limit=_SHOWN) for name, value in told.items() if value is not None
    }


def deny_output(reason: str) -> str:
    """Give the JSON by which a client does not run a call, and tells the model why."""
    return _json(
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": reason,
            }
        }
    )


def context_output(event: str, text: str) -> str:
    """Give the JSON by which a client shows the model a text."""
    return _json({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)
