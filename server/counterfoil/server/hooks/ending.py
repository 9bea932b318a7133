"""The end of a call: finds the attempt that was begun for it, and has it recorded there what came of it."""

import json
from collections.abc import Sequence

from counterfoil.server.hooks.call import Call
from counterfoil.server.hooks.journaling import HookJournal
from counterfoil.server.hooks.marks import OPEN_OR_DONE, SYSTEM, UNSETTLED, Identity
from counterfoil.server.hooks.recording import record
from counterfoil.server.hooks.saying import BLOCKED, not_of_a_call
from counterfoil.store.attending_calls import HeldAttempt
from counterfoil.store.domain.commands import OperationRef, RecordFailure

__all__ = ["after_call", "denied_call"]


async def after_call(hooks: HookJournal, call: Call) -> str | None:
    """Record what came of a call; give what the model has to be told of it.

    Raises:
        Fault: the journal could not take it.
    """
    held = await hooks.journal.calls.held(hooks.caller, system=SYSTEM)
    known = next((one for one in held if _is_of_call(hooks, one)), None)
    identity = hooks.marks.identity(call, await hooks.run())
    if known is None and hooks.caller.call_id is None:
        if _is_told_as_blocked(hooks):
            return None
        known = await _nameless(hooks, identity, held)
    elif known is None:
        on_file = await hooks.marks.on_file(identity)
        known = next((one for one in on_file if _is_of_call(hooks, one)), None)
        earlier = None if known is not None else _earlier(hooks, (*held, *on_file))
        if earlier is not None:
            ref, attempt = earlier
            return await record(
                hooks.journal,
                hooks.caller,
                call,
                hooks.event,
                ref=ref,
                attempt=attempt,
                args=identity.args,
                is_over=True,
            )
        if known is None:
            other = await _of_another_call(hooks, call, identity, on_file)
            if other is not None:
                return None if _is_told_as_blocked(hooks) else not_of_a_call(other, hooks.event)
    ref = OperationRef(run=identity.run, key=identity.key)
    return await record(
        hooks.journal,
        hooks.caller,
        call,
        hooks.event,
        ref=ref if known is None else OperationRef(operation=known.operation),
        attempt=None if known is None or not known.attempt else known.attempt,
        args=identity.args,
    )


async def denied_call(hooks: HookJournal) -> None:
    """Note that the client did not let a call run after it was begun: it was never sent.

    Only of a call with an id of its own, and only by who holds its attempt.

    Raises:
        Fault: the journal could not take it.
    """
    if hooks.caller.call_id is None:
        return
    held = await hooks.journal.calls.held(hooks.caller, system=SYSTEM)
    known = next((one for one in held if _is_of_call(hooks, one)), None)
    if known is None:
        return
    reason = str(hooks.journal.hidden(hooks.event.reason or ""))[:500]
    await hooks.journal.record_failure(
        RecordFailure(
            ref=OperationRef(operation=known.operation),
            attempt=known.attempt,
            effect="none",
            error="the client did not permit the call, and it never ran",
            evidence={"denied": reason or "no reason given", "call": hooks.event.call_id or ""},
        ),
        hooks.caller,
    )


async def _nameless(
    hooks: HookJournal, identity: Identity, held: Sequence[HeldAttempt]
) -> HeldAttempt | None:
    """Give the attempt that a call without an id began: the one of this conversation with the same input.

    None where several are open: a receipt at the wrong one is worse than none.
    """
    found: dict[str, HeldAttempt] = {}
    own = {one.operation for one in held}
    for run in dict.fromkeys((identity.run, hooks.own_run)):
        for known in await hooks.journal.calls.on_file(
            run=run, key=identity.key, system=None, mark=hooks.marks.pair()
        ):
            is_own = known.connection == hooks.caller.connection or known.operation in own
            if known.state in UNSETTLED and is_own:
                found[known.operation] = known
    paired = [known for known in found.values() if known.is_live] or [*found.values()]
    same = [known for known in paired if known.key == identity.key]
    candidates = same or paired
    return candidates[0] if len(candidates) == 1 else None


async def _of_another_call(
    hooks: HookJournal, call: Call, identity: Identity, on_file: Sequence[HeldAttempt]
) -> HeldAttempt | None:
    """Give what is on record of a call that nothing began: it was blocked, or ran unheard beside that."""
    standing = [known for known in on_file if known.state in OPEN_OR_DONE]
    if not standing:
        standing = [known for known, _ in await hooks.marks.parts_on_file(call, identity)]
    return next((known for known in standing if known.attempt), None)


def _earlier(hooks: HookJournal, found: Sequence[HeldAttempt]) -> tuple[OperationRef, int] | None:
    """Give the attempt that this call began, where it is not the newest one any more."""
    for known in found:
        attempt = known.earlier.get(hooks.caller.call_id or "")
        if attempt is not None:
            return OperationRef(operation=known.operation), attempt
    return None


def _is_of_call(hooks: HookJournal, known: HeldAttempt) -> bool:
    return hooks.caller.call_id in known.calls


def _is_told_as_blocked(hooks: HookJournal) -> bool:
    """Tell whether a client tells of the end of a call that a hook did not let run."""
    response = hooks.event.response
    text = response if isinstance(response, str) else json.dumps(response, default=str)
    return any(BLOCKED in told for told in (text, hooks.event.error or ""))
