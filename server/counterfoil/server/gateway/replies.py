"""The gateway's own answers: a result out of the journal, or why a call was not passed on.

Each is made of the server's own words; what comes from outside stands in it as bounded, escaped data only.
"""

from collections.abc import Mapping
from typing import Any

from counterfoil.server.faults import fault_text
from counterfoil.server.gateway.captured import SUMMARY
from counterfoil.store.attending import Recorded
from counterfoil.store.errors import Fault
from counterfoil.store.redact import Redactor
from counterfoil.tools.text import bounded, written

__all__ = [
    "GATEWAY",
    "error_reply",
    "fault_reply",
    "journal_reply",
    "marked",
    "not_stored",
    "replayed_reply",
    "unknown_reply",
    "unmarked",
    "with_not_stored",
]

GATEWAY = "counterfoil/gateway"
"""The member of a result's `_meta` in which the gateway says what it did."""

_OWN = frozenset((GATEWAY, SUMMARY))

_IN_DOUBT = "Until it is, the call is in doubt for everybody else. Do not make it again."
_TRIED = "The gateway tries again for as long as it runs."
_NOT_TRIED = (
    "The gateway does not try again: settle the operation with reconcile_operation, or tell a person."
)

_DUTY = "The call was not passed on: nothing was done."

_SHOWN = (
    "operation",
    "run",
    "key",
    "state",
    "attempt",
    "as_of",
    "retry_at",
    "since",
    "settle_until",
    "repeat_until",
    "settled_at",
    "receipts",
    "lookup",
    "conflict",
    "duplicates",
    "grants",
    "drift",
    "warnings",
)

_LOOK = (
    "Look in the performing system, with a tool that only reads, and tell the journal: reconcile_operation "
    "of the counterfoil server, with this operation and as_of, finding performed with the reference if you "
    "found it. If you did not, not_performed counts where a lookup is declared (see lookup); where none is, "
    "it settles nothing and a person decides (`counterfoil reconcile`). After that make the call again."
)
_PASSED_ON = (
    "This call was passed on, and nobody knows whether it had its effect: see warnings, and answered where "
    "its server said something. "
)
_REPEATABLE = (
    "The call may be made again: it is passed on once more for as long as a repeat does no harm. Or: "
)

_HOW = {
    "begin_first": (
        "This effect is an operation that you began yourself. Call begin_operation for it; once "
        "that says perform, make the call again."
    ),
    "in_doubt": (
        "An earlier call may have had its effect, and nobody knows whether it did, so this one "
        f"was not passed on. {_LOOK}"
    ),
    "settling": (
        "The look found nothing yet, and it is too early for that to count. The call was not "
        "passed on: make it again at retry_at, and the gateway looks again."
    ),
    "lapsed": (
        "The server asked for input, and while it waited for it the attempt ended. The input was not "
        "passed on. Make the call again, from its beginning."
    ),
    "lease_held": "Another session is making this call now. It was not passed on a second time.",
    "lease_held_by_you": (
        "This very call is under way in this conversation. It was not passed on a second time; "
        "make it again later to get its result."
    ),
    "identity_conflict": (
        "Another effect stands in the journal under this key. The call was not passed on. Give "
        "_counterfoil.key another key if this is another effect."
    ),
    "possible_duplicate": (
        "This looks like an effect that is on record, see duplicates. The call was not passed on."
        " Only if it truly is another effect, make it again with _counterfoil.distinct_from "
        "naming these operations."
    ),
    "drift": "A person has to accept what changed since; the call was not passed on.",
    "unresolved": (
        "Looking has not settled whether an earlier call had its effect; a person has to decide. "
        "The call was not passed on."
    ),
}
_HOW_OTHERWISE = {
    "wait": "The call was not passed on: make it again at retry_at.",
    "reconcile": _HOW["in_doubt"],
    "ask": "A person has to decide before this may happen; the call was not passed on. Tell them.",
    "stop": "The call cannot be passed on as it was made.",
    "skip": "This is settled, and the call was not passed on.",
}


def marked(result: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Give a result with what the gateway says of it in `_meta`."""
    meta = result.get("_meta")
    return {**result, "_meta": {**(meta if isinstance(meta, Mapping) else {}), GATEWAY: dict(told)}}


def not_stored(after: Mapping[str, Any], *, is_performed: bool = False) -> str:
    """Say of a call that its end is not on record, by what recording it came to."""
    what = (
        "The effect HAPPENED, and its receipt is NOT stored: the journal could not be written."
        if is_performed
        else "What became of this call is NOT stored: the journal could not be written."
    )
    return f"{what} {_IN_DOUBT} {_TRIED if after.get('is_tried_again') else _NOT_TRIED}"


def with_not_stored(
    result: Mapping[str, Any], told: Mapping[str, Any], after: Mapping[str, Any], *, is_performed: bool
) -> dict[str, Any]:
    """Give a result whose record could not be written, with a line that says so: models see no `_meta`."""
    parts = result.get("content")
    what = not_stored(after, is_performed=is_performed)
    text = f"The call was passed on, and this is the tool's own answer. {what}"
    line = {"type": "text", "text": f"[counterfoil: {text} Operation: {told.get('operation')}.]"}
    said = {**result, "content": [*(parts if isinstance(parts, list) else ()), line]}
    known = {name: value for name, value in told.items() if name not in ("next", "reason")}
    return marked(said, {**known, **after})


def unmarked(result: dict[str, Any]) -> dict[str, Any]:
    """Give a server's result without what only the gateway says."""
    meta = result.get("_meta")
    if not isinstance(meta, Mapping) or meta.keys().isdisjoint(_OWN):
        return result
    return {**result, "_meta": {name: value for name, value in meta.items() if name not in _OWN}}


def error_reply(told: Mapping[str, Any]) -> dict[str, Any]:
    """Give a tool's error that says `told` as one JSON object."""
    text = written(bounded(dict(told), way="check_operation with the operation's id tells the rest"))
    return {"content": [{"type": "text", "text": text}], "isError": True}


def fault_reply(fault: Fault, redactor: Redactor) -> dict[str, Any]:
    """Give a tool's error for a call that the journal could not take."""
    text = fault_text(fault, duty=_DUTY, redactor=redactor)
    return {"content": [{"type": "text", "text": text}], "isError": True}


def journal_reply(answer: Mapping[str, Any], *, recorded: Recorded | None = None) -> dict[str, Any]:
    """Say why a call was not passed on, and what to do, from the answer of begin_operation."""
    reason = str(answer.get("reason"))
    told: dict[str, Any] = {
        "next": answer.get("next"),
        "reason": reason,
        "guidance": _HOW.get(reason) or _HOW_OTHERWISE.get(str(answer.get("next")), _HOW_OTHERWISE["stop"]),
    }
    told.update({name: answer[name] for name in _SHOWN if name in answer})
    if recorded is not None:
        told.update(
            operation=recorded.operation, run=recorded.run, key=recorded.key, state=recorded.state.value
        )
    return marked(error_reply(told), told_of(told, replayed=False))


def unknown_reply(
    answer: Mapping[str, Any], *, answered: Mapping[str, Any], is_repeatable: bool
) -> dict[str, Any]:
    """Say of a call that was passed on that its end is not known; `answered` is data of its server's."""
    told: dict[str, Any] = {
        "next": "reconcile",
        "reason": "in_doubt",
        "guidance": f"{_PASSED_ON}{_REPEATABLE if is_repeatable else ''}{_LOOK}",
        **({"answered": dict(answered)} if answered else {}),
    }
    told.update({name: answer[name] for name in _SHOWN if name in answer})
    return marked(error_reply(told), told_of(told, replayed=False))


def told_of(answer: Mapping[str, Any], *, replayed: bool) -> dict[str, Any]:
    """Give what `_meta` says of an operation."""
    names = ("operation", "run", "key", "state", "attempt", "next", "reason")
    return {"replayed": replayed, **{name: answer[name] for name in names if answer.get(name) is not None}}


def replayed_reply(answer: Mapping[str, Any], recorded: Recorded) -> dict[str, Any]:
    """Answer a call that was carried out before with the result that is on record.

    Where none is, the answer says that it was done, and is no error: acting tools are listed without an
    output schema, so that no client holds it against one.
    """
    told = told_of({**answer, "state": recorded.state.value}, replayed=True)
    if isinstance(recorded.result, dict):
        meta = recorded.result.get("_meta")
        is_summary = isinstance(meta, Mapping) and SUMMARY in meta
        return marked(recorded.result, {**told, "summary": True} if is_summary else told)
    why = "was removed from the journal since" if recorded.was_result else "is not in the journal"
    said = {
        "next": "skip",
        "reason": "already_succeeded",
        "guidance": f"This was done before, and is not done again. Its result {why}; the receipts are "
        "evidence of it. Do not make the call again.",
        **{name: answer[name] for name in _SHOWN if name in answer},
    }
    return marked({**error_reply(said), "isError": False}, told)
