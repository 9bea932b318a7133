"""Whether a call may run: its operation is begun before it, or the reason is told why it must not."""

from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.server.hooks.call import Call
from counterfoil.server.hooks.identities import payload_of
from counterfoil.server.hooks.journaling import CONNECTION, HookJournal
from counterfoil.server.hooks.marks import OPEN_OR_DONE, SYSTEM, Identity
from counterfoil.server.hooks.matching import fitting_attempt
from counterfoil.server.hooks.pushes import Remotes, may_be
from counterfoil.server.hooks.saying import blocked, blocked_by_step
from counterfoil.store.attending_calls import HeldAttempt
from counterfoil.store.domain.commands import BeginOperation, CheckOperation, Lookup, OperationRef, ResumePlan

__all__ = ["before_call", "unresolved"]

_UNRESOLVED = ("reconcile", "wait", "ask")
_MOST_LOST = 20
"""So often a remote may lose one and the same push before it counts as done for good."""


async def before_call(hooks: HookJournal, call: Call) -> str | None:
    """Begin the operation of a call; give the reason where the call must not run, None where it may.

    Raises:
        Fault: the journal cannot tell.
    """
    attendance = await hooks.journal.attendance(hooks.caller)
    run = hooks.fixed_run() or attendance.run or hooks.own_run
    identity = hooks.marks.identity(call, run)
    held = await hooks.journal.calls.held(hooks.caller, system=SYSTEM)
    if _is_sent_again(hooks, held, identity):
        return None
    call, identity, on_file, parts = await _as_it_stands(hooks, call, run)
    stopping = [known for known in on_file if known.state in OPEN_OR_DONE]
    stopping += [known for known, _ in parts]
    free = [known for known in held if known.is_live and not known.marks and not _is_own(known)]
    fit = fitting_attempt(call, attendance.live, free, args=identity.args)
    if fit is not None and all(_is_told_apart(known, fit) for known in stopping):
        return await _attach(hooks, fit, identity, call)
    attached = next((known for known in stopping if known.key != identity.key), None)
    if attached is not None:
        answer = await hooks.journal.check_operation(
            CheckOperation(ref=OperationRef(operation=attached.operation)), hooks.caller
        )
        stopped = [part for known, part in parts if known.operation == attached.operation]
        others = [part for part in call.parts if all(part != one for _, one in parts)]
        return blocked(
            answer,
            hooks.event,
            lookup=call.lookup,
            later=await _later(hooks, call, answer),
            holds_it=attached.is_live,
            part=_named(stopped) if len(call.effects) > 1 or len(call.parts) > 1 else None,
            others=_named(others),
        )
    if call.may_be_another and not on_file:
        step, as_of = await unresolved(hooks, call, run=identity.run)
        if step is not None:
            return blocked_by_step(step, run=identity.run, as_of=as_of, event=hooks.event)
    return await _begin(hooks, call, identity)


def _named(parts: Sequence[Call]) -> str:
    return "; ".join(f"{part.action} {part.target or ''}".strip() for part in parts)


async def _as_it_stands(
    hooks: HookJournal, call: Call, run: str
) -> tuple[Call, Identity, tuple[HeldAttempt, ...], list[tuple[HeldAttempt, Call]]]:
    """Give a call with its identity and what is on file of it and of its parts.

    A push that is on record as done, and which the remote has lost since, is another one. A ref of
    several that is done, and stands there so, is left alone by git itself, and in nobody's way.
    """
    remotes = Remotes()
    for _ in range(_MOST_LOST):
        identity = hooks.marks.identity(call, run)
        on_file = await hooks.marks.on_file(identity)
        parts = await hooks.marks.parts_on_file(call, identity)
        again = remotes.lost_since(call, on_file, parts)
        if again is None:
            break
        call = again
    return call, identity, on_file, remotes.without_absorbed(call, parts)


def _is_own(known: HeldAttempt) -> bool:
    return known.connection.startswith((CONNECTION, "gateway-"))


def _is_sent_again(hooks: HookJournal, held: Sequence[HeldAttempt], identity: Identity) -> bool:
    """Tell whether the client tells of the very same call twice, as two hooks for one event do."""
    call_id = hooks.caller.call_id
    return call_id is not None and any(
        known.is_live and call_id in known.calls and identity.mark in known.marks for known in held
    )


def _is_told_apart(known: HeldAttempt, fit: HeldAttempt) -> bool:
    return known.operation == fit.operation or known.operation in fit.distinct_from


async def _attach(hooks: HookJournal, fit: HeldAttempt, identity: Identity, call: Call) -> str | None:
    """Mark the agent's own attempt as the one that this call carries out."""
    answer = await hooks.marks.acknowledge(identity.mark, operation=fit.operation, attempt=fit.attempt)
    if answer["next"] == "continue":
        refusal = await hooks.marks.note(call, operation=fit.operation, attempt=fit.attempt)
        return None if refusal is None else blocked(refusal, hooks.event)
    return blocked(answer, hooks.event)


async def unresolved(hooks: HookJournal, call: Call, *, run: str) -> tuple[Mapping[str, Any] | None, str]:
    """Give the unsettled step that a call has to wait for, and as of when.

    A part that makes what it sends, or cannot be read, waits for the one before it on the same target,
    and so does one that reaches more of it than can be told. Where its target cannot be read either, any
    earlier one of the same action may be it.
    """
    unsure = [part for part in call.parts if part.may_be_another]
    plan = await hooks.journal.resume_plan(ResumePlan(run=run), hooks.caller)
    for step in plan.get("steps", ()):
        if step["next"] in _UNRESOLVED and any(may_be(step, part) for part in unsure):
            return step, plan["as_of"]
    return None, plan["as_of"]


async def _begin(hooks: HookJournal, call: Call, identity: Identity) -> str | None:
    command = BeginOperation(
        run=identity.run,
        key=identity.key,
        action=call.action,
        target=call.target,
        args=identity.args,
        payload=payload_of(call, redact=hooks.journal.hidden),
        repeat=call.repeat,
        lookup=None
        if call.lookup is None
        else Lookup(instructions=call.lookup, settle_seconds=call.settle_seconds),
        lease_seconds=call.lease_seconds,
        distinct_from=("*",) if call.own_key is not None else (),
    )
    answer = await hooks.journal.begin_operation(command, hooks.caller)
    if answer["reason"] == "run_finished" and identity.run != hooks.own_run:
        # The agent's run is over; what it still does belongs to the conversation.
        own = Identity(run=hooks.own_run, key=identity.key, mark=identity.mark, args=identity.args)
        return await _begin(hooks, call, own)
    if answer["next"] != "perform":
        later = await _later(hooks, call, answer)
        return blocked(answer, hooks.event, lookup=call.lookup, later=later)
    refusal = await hooks.marks.note(call, operation=answer["operation"], attempt=answer["attempt"])
    return None if refusal is None else blocked(refusal, hooks.event, lookup=call.lookup)


async def _later(hooks: HookJournal, call: Call, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give what was done to the target after a deployment that is done, and may have undone it."""
    is_deployed = any(effect.rule.kind == "deployment" for effect in call.effects)
    if answer.get("reason") != "already_succeeded" or not is_deployed:
        return None
    from counterfoil.server.hooks.later import later_effect

    return await later_effect(hooks.journal, answer, hooks.caller)
