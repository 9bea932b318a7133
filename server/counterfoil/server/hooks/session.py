"""What reaches a model when it begins, resumes, is compacted or stops: what is open, short."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from counterfoil.server.hooks.journaling import CONNECTION, HookJournal
from counterfoil.server.hooks.marks import SYSTEM
from counterfoil.server.logs import logger
from counterfoil.store.domain.commands import OperationRef, RecordFailure, ResumePlan
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import Fault

if TYPE_CHECKING:
    from counterfoil.store.attending_calls import HeldAttempt

__all__ = ["at_compaction", "at_start", "at_stop"]

_MOST_STEPS = 8
_MOST_RUNS = 5
_SHOWN = 160
_INTERRUPTED = "the session was interrupted before the result of the call came"

_SETTLE = (
    "Settle each before you act on it: look in the system that performs it, then reconcile_operation with "
    "operation, finding, checked_with and as_of: performed with its reference if you found it. If you did "
    "not, not_performed counts where a lookup is on record; where none is, it settles nothing and a person "
    "decides (`counterfoil reconcile`)."
)
_DOING: Mapping[str, str] = {
    "reconcile": "may have happened, look it up first",
    "ask": "a person must decide",
    "begin": "not done",
    "wait": "wait",
}


async def at_start(hooks: HookJournal) -> str | None:
    """Give the plan of the run that the session works on, and name the other open runs.

    What this conversation had under way when it was interrupted is in doubt from now on: nobody is left who
    could hear its result. Not every client told of a compaction beforehand.
    """
    if hooks.event.source == "resume":
        await _end_interrupted(hooks)
    if hooks.event.source == "compact":
        await _note_compaction(hooks)
    run = await hooks.run()
    plan = await hooks.journal.resume_plan(ResumePlan(run=run), hooks.caller)
    others = await hooks.journal.resume_plan(ResumePlan(), hooks.caller)
    parts = [_steps_told(plan, run)]
    open_runs = [
        f"{_shown(other['run'])} ({_counted(other.get('counts', {}))})"
        for other in others.get("runs", ())
        if other["run"] != run and _is_unsettled(other.get("counts", {}))
    ]
    if open_runs:
        more = f" and {len(open_runs) - _MOST_RUNS} more" if len(open_runs) > _MOST_RUNS else ""
        parts.append(f"Other runs with open operations: {', '.join(open_runs[:_MOST_RUNS])}{more}.")
    told = " ".join(part for part in parts if part)
    if not told:
        return None
    return (
        f"Counterfoil, the journal of effects outside: {told} resume_plan of the counterfoil tools shows all."
    )


async def at_compaction(hooks: HookJournal) -> str | None:
    """Give what a summary must not lose: the run, and what is open in it.

    The journal is told before: where the client ends as soon as the summary stands, nobody tells of it any
    more. If the compaction comes to nothing, the model is only asked once more than necessary.
    """
    await _note_compaction(hooks)
    run = await hooks.run()
    plan = await hooks.journal.resume_plan(ResumePlan(run=run), hooks.caller)
    told = _steps_told(plan, run)
    if not told:
        return None
    return (
        f"Keep in the summary, word by word: the work belongs to the Counterfoil run {_shown(run)}. "
        f"{told} After "
        "the compaction call resume_plan with this run before any effect outside."
    )


async def at_stop(hooks: HookJournal) -> str | None:
    """Give what this conversation leaves open; None where nothing is, or where it was told already.

    When the turn ends its calls are over, so that one whose result never came is named as well. What goes on
    in the background is not, since its own end tells of it.
    """
    if hooks.event.is_reminding:
        return None
    held = await hooks.journal.calls.held(hooks.caller, system=SYSTEM)
    without_outcome = [one for one in held if not (one.is_live and _is_hooked(one) and one.goes_on)]
    runs = {await hooks.run(), hooks.own_run, *(one.run for one in held)}
    in_doubt = await hooks.journal.calls.in_doubt(hooks.caller, runs=sorted(runs), system=SYSTEM)
    parts = []
    if without_outcome:
        parts.append(
            f"{_number(without_outcome)} that you began without an outcome on record: "
            f"{_named(without_outcome)}. Record what came of each (record_receipt, or record_failure with "
            "effect unknown) before you stop."
        )
    if in_doubt:
        parts.append(
            f"{_number(in_doubt)} that you began in doubt, which may have happened: {_named(in_doubt)}. "
            f"Call check_operation for each. {_SETTLE}"
        )
    if not parts:
        return None
    return (
        f"Counterfoil, the journal of effects outside: {' '.join(parts)} If you cannot, say so to the person."
    )


def _number(found: "Sequence[HeldAttempt]") -> str:
    return "1 operation" if len(found) == 1 else f"{len(found)} operations"


def _named(found: "Sequence[HeldAttempt]") -> str:
    named = "; ".join(
        f"{one.operation} ({_shown(one.action)}, {_shown(one.key)}, attempt {one.attempt})"
        for one in found[:_MOST_STEPS]
    )
    rest = len(found) - _MOST_STEPS
    return f"{named}; and {rest} more, which resume_plan shows" if rest > 0 else named


async def _end_interrupted(hooks: HookJournal) -> None:
    for one in await hooks.journal.calls.held(hooks.caller, system=SYSTEM):
        if one.is_live and _is_hooked(one):
            try:
                await hooks.journal.record_failure(
                    RecordFailure(
                        ref=OperationRef(operation=one.operation),
                        attempt=one.attempt,
                        effect="unknown",
                        error=_INTERRUPTED,
                    ),
                    hooks.caller,
                )
            except Fault:
                # Its lease runs out by itself; the plan is worth more than this.
                continue


async def _note_compaction(hooks: HookJournal) -> None:
    try:
        await hooks.journal.note_compaction(hooks.caller)
    except Exception as error:
        # Whatever it is: the plan, by which the model finds what it forgot, is then needed all the more.
        code = error.code if isinstance(error, Fault) else type(error).__name__
        logger.warning("that the conversation was compacted could not be recorded (%s)", code)


def _is_hooked(one: "HeldAttempt") -> bool:
    """Tell whether a hook saw the call of this attempt begin."""
    return one.connection.startswith(CONNECTION) or bool(one.marks)


def _steps_told(plan: Mapping[str, Any], run: str) -> str:
    if plan.get("reason") == "no_history" or not plan.get("steps"):
        return ""
    lines = [_step_told(step) for step in plan["steps"][:_MOST_STEPS]]
    rest = len(plan["steps"]) - len(lines)
    more = " There is more." if rest > 0 or plan.get("cut") else ""
    has_doubt = any(step["next"] == "reconcile" for step in plan["steps"])
    as_of = f" as_of: {plan['as_of']}." if has_doubt else ""
    return (
        f"Run {_shown(run)}, open: {'; '.join(lines)}.{more}{as_of} {_SETTLE if has_doubt else ''}".rstrip()
    )


def _step_told(step: Mapping[str, Any]) -> str:
    doing = _DOING.get(step["next"], step["next"])
    lookup = step.get("lookup")
    how = lookup.get("instructions") if isinstance(lookup, Mapping) else None
    told = f"{step['operation']} [{_shown(step.get('action'))} {_shown(step.get('key'))}]: {doing}"
    return f"{told} (lookup: {_shown(how)})" if how and step["next"] == "reconcile" else told


def _counted(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{number} {state}" for state, number in counts.items() if number)


def _is_unsettled(counts: Mapping[str, Any]) -> bool:
    return any(counts.get(state) for state in ("planned", "in_progress", "in_doubt", "failed", "disputed"))


def _shown(text: Any) -> str:
    return escape_untrusted(str(text or ""), limit=_SHOWN)
