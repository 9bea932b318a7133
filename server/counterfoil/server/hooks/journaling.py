"""Keeps the journal of a call: intent before it runs, receipt or failure after it.

The two are told by two processes. They find each other by the client's id of the call, and the second is the
holder of what the first began because both are of the same conversation.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.server.hooks.call import (
    Call,
    former_identities_of,
    identity_of,
    likeness_marks,
    once_marks,
    payload_of,
    wide_mark,
)
from counterfoil.server.hooks.effects import Effect
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.matching import fitting_attempt
from counterfoil.server.hooks.pushes import Remotes, may_be
from counterfoil.server.hooks.saying import BLOCKED, blocked, blocked_by_step, not_of_a_call
from counterfoil.store.attending_calls import HeldAttempt
from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    CheckOperation,
    Lookup,
    OperationRef,
    ReceiptGiven,
    RecordFailure,
    RecordReceipt,
    ResumePlan,
)
from counterfoil.store.domain.model import State

if TYPE_CHECKING:
    from counterfoil.server.settings import Settings
    from counterfoil.store.journal import Journal

__all__ = ["CONNECTION", "SYSTEM", "HookJournal"]

CONNECTION = "hook-"
"""How the connection of a hook begins: what one began is never taken for an agent's own attempt."""

SYSTEM = "counterfoil:hook"
"""The system of the marks by which a call is known again at an agent's own operation."""

SHORTEST_CALL_ID = 16

_OPEN_OR_DONE = frozenset(State) - {State.PLANNED, State.FAILED}
_UNSETTLED = frozenset((State.IN_PROGRESS, State.IN_DOUBT, State.DISPUTED))
_UNRESOLVED = ("reconcile", "wait", "ask")


_MOST_LOST = 20
"""So often a remote may lose one and the same push before it counts as done for good."""


def _named(parts: Sequence[Call]) -> str:
    return "; ".join(f"{part.action} {part.target or ''}".strip() for part in parts)


class _Identity(Struct, frozen=True, kw_only=True):
    """What a call is known by in a run; `former` are pairs of key and mark as they once were made."""

    run: str
    key: str
    mark: str
    args: Mapping[str, Any]
    former: tuple[tuple[str, str], ...] = ()


class HookJournal:
    """The journal as one event of one client uses it.

    `conversation`, where it is given, goes before what the environment and the event say.
    """

    def __init__(
        self, journal: "Journal", *, event: HookEvent, settings: "Settings", conversation: str | None = None
    ) -> None:
        self.journal = journal
        self.event = event
        self._settings = settings
        self._remotes = Remotes()
        # By who they are, which each entry holds on to.
        self._identities: dict[tuple[int, str | None], tuple[Call, _Identity]] = {}
        self._alike: dict[int, tuple[Effect, tuple[str, ...]]] = {}
        named = conversation or os.environ.get("COUNTERFOIL_CONVERSATION")
        self._named = named or event.session or settings.conversation
        place = self._named or hashlib.sha256((event.folder or "").encode()).hexdigest()[:16]
        is_unique = event.call_id is not None and len(event.call_id) >= SHORTEST_CALL_ID
        # Told apart by this, where a client gives its calls no ids that last.
        self._apart = event.call_id if is_unique else os.urandom(8).hex()
        self.caller = Caller(
            connection=f"{CONNECTION}{place}",
            conversation=self._named,
            client="counterfoil hook",
            tool=f"hook {event.name}",
            model=event.model,
            tool_call=event.call_id,
            traceparent=settings.traceparent,
            call_id=event.call_id if is_unique else None,
        )

    @property
    def own_run(self) -> str:
        """The run of a conversation that nobody has given one."""
        return f"conversation/{self._named or self.caller.connection.removeprefix(CONNECTION)}"

    @property
    def is_named(self) -> bool:
        """Tell whether anybody said which conversation, or which run, the call belongs to."""
        return self._named is not None or self.fixed_run() is not None

    def fixed_run(self) -> str | None:
        """Give the run that the environment or the configuration says, whatever an agent says."""
        if self._settings.run is not None:
            return self._settings.run
        folder = os.path.realpath(self.event.folder or "/")
        inside = [
            project
            for project in self._settings.projects
            if folder == project.path or folder.startswith(project.path.rstrip("/") + "/")
        ]
        return max(inside, key=lambda project: len(project.path)).run if inside else None

    async def run(self) -> str:
        """Give the run that the call belongs to."""
        fixed = self.fixed_run()
        return fixed or (await self.journal.attendance(self.caller)).run or self.own_run

    async def on_file(self, call: Call, *, run: str) -> tuple[HeldAttempt, ...]:
        """Give what is on record of a call in a run, whoever began it."""
        return await self._on_file(self._identity(call, run))

    async def elsewhere(self, call: Call, *, run: str) -> tuple[HeldAttempt, ...]:
        """Give what is on record of the same call in other runs."""
        known = self._identity(call, run)
        return await self.journal.calls.elsewhere(run=run, key=known.key, system=SYSTEM, mark=known.mark)

    async def before(self, call: Call) -> str | None:
        """Begin the operation of a call; give the reason where the call must not run, None where it may.

        Raises:
            Fault: the journal cannot tell.
        """
        attendance = await self.journal.attendance(self.caller)
        run = self.fixed_run() or attendance.run or self.own_run
        identity = self._identity(call, run)
        held = await self.journal.calls.held(self.caller, system=SYSTEM)
        if self._is_sent_again(held, identity):
            return None
        call, identity, on_file, parts = await self._as_it_stands(call, run)
        stopping = [known for known in on_file if known.state in _OPEN_OR_DONE]
        stopping += [known for known, _ in parts]
        free = [known for known in held if known.is_live and not known.marks and not self._is_own(known)]
        fit = fitting_attempt(call, attendance.live, free, args=identity.args)
        if fit is not None and all(self._is_told_apart(known, fit) for known in stopping):
            return await self._attach(fit, identity, call)
        attached = next((known for known in stopping if known.key != identity.key), None)
        if attached is not None:
            answer = await self.journal.check_operation(
                CheckOperation(ref=OperationRef(operation=attached.operation)), self.caller
            )
            stopped = [part for known, part in parts if known.operation == attached.operation]
            others = [part for part in call.parts if all(part != one for _, one in parts)]
            return blocked(
                answer,
                self.event,
                lookup=call.lookup,
                later=await self._later(call, answer),
                holds_it=attached.is_live,
                part=_named(stopped) if len(call.effects) > 1 or len(call.parts) > 1 else None,
                others=_named(others),
            )
        if call.may_be_another and not on_file:
            step, as_of = await self.unresolved(call, run=identity.run)
            if step is not None:
                return blocked_by_step(step, run=identity.run, as_of=as_of, event=self.event)
        return await self._begin(call, identity)

    async def _as_it_stands(
        self, call: Call, run: str
    ) -> tuple[Call, _Identity, tuple[HeldAttempt, ...], list[tuple[HeldAttempt, Call]]]:
        """Give a call with its identity and what is on file of it and of its parts.

        A push that is on record as done, and which the remote has lost since, is another one. A ref of
        several that is done, and stands there so, is left alone by git itself, and in nobody's way.
        """
        for _ in range(_MOST_LOST):
            identity = self._identity(call, run)
            on_file = await self._on_file(identity)
            parts = [] if call.own_key is not None else await self._parts_on_file(call, identity)
            again = self._remotes.lost_since(call, on_file, parts)
            if again is None:
                break
            call = again
        return call, identity, on_file, self._remotes.without_absorbed(call, parts)

    def _identity(self, call: Call, run: str) -> _Identity:
        # Secrets are looked for in all that is sent, which takes its time: once for the same.
        place = id(call.args), call.own_key
        if place not in self._identities:
            key, mark, args = identity_of(call, redact=self.journal.hidden, call_id=self._apart)
            former = former_identities_of(call, redact=self.journal.hidden, call_id=self._apart)
            self._identities[place] = call, _Identity(run=run, key=key, mark=mark, args=args, former=former)
        return replace(self._identities[place][1], run=run)

    def _likeness(self, part: Call) -> tuple[str, ...]:
        effect = part.effects[0]
        if id(effect) not in self._alike:
            self._alike[id(effect)] = effect, likeness_marks(part, redact=self.journal.hidden)
        return self._alike[id(effect)][1]

    async def _on_file(self, identity: _Identity, *, system: str | None = SYSTEM) -> tuple[HeldAttempt, ...]:
        names = ((identity.key, identity.mark), *identity.former)
        found: dict[str, HeldAttempt] = {}
        for key, mark in names:
            on_file = await self.journal.calls.on_file(run=identity.run, key=key, system=system, mark=mark)
            found = {**{known.operation: known for known in on_file}, **found}
        return tuple(found.values())

    def _is_own(self, known: HeldAttempt) -> bool:
        return known.connection.startswith((CONNECTION, "gateway-"))

    def _is_sent_again(self, held: Sequence[HeldAttempt], identity: _Identity) -> bool:
        """Tell whether the client tells of the very same call twice, as two hooks for one event do."""
        call_id = self.caller.call_id
        return call_id is not None and any(
            known.is_live and call_id in known.calls and identity.mark in known.marks for known in held
        )

    @staticmethod
    def _is_told_apart(known: HeldAttempt, fit: HeldAttempt) -> bool:
        return known.operation == fit.operation or known.operation in fit.distinct_from

    async def parts_on_file(self, call: Call, *, run: str) -> list[tuple[HeldAttempt, Call]]:
        """Give what stands in the way of a part of a call in a run, whoever began it."""
        return [] if call.own_key is not None else await self._parts_on_file(call, self._identity(call, run))

    async def _parts_on_file(self, call: Call, identity: _Identity) -> list[tuple[HeldAttempt, Call]]:
        """Give what stands in the way of a part of a call: the same effect alone, or composed otherwise.

        Nothing stands in the way of what is safe to repeat. What was marked as alike does while it is not
        settled; what was done to a target that is acted on once, with the same state or as a version of a
        package, does for good.
        """
        found: list[tuple[HeldAttempt, Call]] = []
        for part in call.parts:
            if part.repeat == "safe":
                continue
            own = self._identity(part, identity.run)
            standing: dict[str, HeldAttempt] = {}
            if part.is_known and part.is_readable:
                on_file = await self._on_file(own, system=None)
                standing |= {known.operation: known for known in on_file if known.state in _OPEN_OR_DONE}
            once = once_marks(part, redact=self.journal.hidden)
            wide = wide_mark(part, redact=self.journal.hidden)
            alike_by = (*once[:1], *self._likeness(part), *(() if wide is None else (wide,)))
            for mark in alike_by:
                alike = await self._marked(own, mark)
                standing |= {known.operation: known for known in alike if known.state in _UNSETTLED}
            for mark in once[1:]:
                same = await self._marked(own, mark)
                standing |= {known.operation: known for known in same if known.state in _OPEN_OR_DONE}
            found += [(known, part) for known in standing.values() if known.key != identity.key]
        return found

    async def _marked(self, own: _Identity, mark: str) -> tuple[HeldAttempt, ...]:
        """Give the operation of a part alone, and those that are marked by it under whatever system."""
        return await self.journal.calls.on_file(run=own.run, key=own.key, system=None, mark=mark)

    async def _mark_parts(self, call: Call, *, operation: str, attempt: int) -> Mapping[str, Any] | None:
        """Note at an operation by what each part of its call is met alone; give a refusal, if any."""
        marks: list[str] = []
        parts = call.parts
        is_composed = len(call.effects) > 1 or len(parts) > 1
        for part in parts:
            words, action = self._likeness(part)
            marks += once_marks(part, redact=self.journal.hidden)
            wide = wide_mark(part, redact=self.journal.hidden) if part.is_wide else None
            marks += [] if wide is None else [wide]
            if part.is_known and part.is_readable:
                marks += [self._identity(part, "").mark] if is_composed else []
            else:
                is_told = part.target is not None and not part.effects[0].is_vague
                marks += [words] if is_told else [words, action]
        for mark in dict.fromkeys(marks):
            # One mark may be met at many operations: under one system it would be one reference of two.
            answer = await self._acknowledge(
                mark, operation=operation, attempt=attempt, system=f"{SYSTEM}:{operation}"
            )
            if answer["next"] != "continue":
                return answer
        return None

    async def _acknowledge(
        self, mark: str, *, operation: str, attempt: int, system: str = SYSTEM
    ) -> Mapping[str, Any]:
        return await self.journal.record_receipt(
            RecordReceipt(
                ref=OperationRef(operation=operation),
                receipt=ReceiptGiven(
                    attempt=attempt,
                    external_id=mark,
                    system=system,
                    final=False,
                    assurance="captured",
                    evidence={"tool": self.event.tool, "call": self.event.call_id or ""},
                ),
            ),
            self.caller,
        )

    async def _attach(self, fit: HeldAttempt, identity: _Identity, call: Call) -> str | None:
        """Mark the agent's own attempt as the one that this call carries out."""
        answer = await self._acknowledge(identity.mark, operation=fit.operation, attempt=fit.attempt)
        if answer["next"] == "continue":
            refusal = await self._mark_parts(call, operation=fit.operation, attempt=fit.attempt)
            if refusal is None and self.caller.call_id is None:
                refusal = await self._mark_pair(operation=fit.operation, attempt=fit.attempt)
            return None if refusal is None else blocked(refusal, self.event)
        return blocked(answer, self.event)

    async def unresolved(self, call: Call, *, run: str) -> tuple[Mapping[str, Any] | None, str]:
        """Give the unsettled step that a call has to wait for, and as of when.

        A part that makes what it sends, or cannot be read, waits for the one before it on the same target,
        and so does one that reaches more of it than can be told. Where its target cannot be read either, any
        earlier one of the same action may be it.
        """
        unsure = [part for part in call.parts if part.may_be_another]
        plan = await self.journal.resume_plan(ResumePlan(run=run), self.caller)
        for step in plan.get("steps", ()):
            if step["next"] in _UNRESOLVED and any(may_be(step, part) for part in unsure):
                return step, plan["as_of"]
        return None, plan["as_of"]

    async def _begin(self, call: Call, identity: _Identity) -> str | None:
        command = BeginOperation(
            run=identity.run,
            key=identity.key,
            action=call.action,
            target=call.target,
            args=identity.args,
            payload=payload_of(call, redact=self.journal.hidden),
            repeat=call.repeat,
            lookup=None
            if call.lookup is None
            else Lookup(instructions=call.lookup, settle_seconds=call.settle_seconds),
            lease_seconds=call.lease_seconds,
            distinct_from=("*",) if call.own_key is not None else (),
        )
        answer = await self.journal.begin_operation(command, self.caller)
        if answer["reason"] == "run_finished" and identity.run != self.own_run:
            # The agent's run is over; what it still does belongs to the conversation.
            own = _Identity(run=self.own_run, key=identity.key, mark=identity.mark, args=identity.args)
            return await self._begin(call, own)
        if answer["next"] != "perform":
            later = await self._later(call, answer)
            return blocked(answer, self.event, lookup=call.lookup, later=later)
        refusal = await self._mark_parts(call, operation=answer["operation"], attempt=answer["attempt"])
        if refusal is None and self.caller.call_id is None:
            refusal = await self._mark_pair(operation=answer["operation"], attempt=answer["attempt"])
        return None if refusal is None else blocked(refusal, self.event, lookup=call.lookup)

    async def _later(self, call: Call, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Give what was done to the target after a deployment that is done, and may have undone it."""
        is_deployed = any(effect.rule.kind == "deployment" for effect in call.effects)
        if answer.get("reason") != "already_succeeded" or not is_deployed:
            return None
        from counterfoil.server.hooks.later import later_effect

        return await later_effect(self.journal, answer, self.caller)

    async def _mark_pair(self, *, operation: str, attempt: int) -> Mapping[str, Any] | None:
        """Note by what the end of a call without an id finds its beginning; give a refusal, if any."""
        system = f"{SYSTEM}:{operation}"
        answer = await self._acknowledge(self._pair(), operation=operation, attempt=attempt, system=system)
        return None if answer["next"] == "continue" else answer

    def _pair(self) -> str:
        """Give what both ends of a call without an id tell alike: conversation, tool and input."""
        told = [self.caller.connection, self.event.tool, self.event.input]
        text = json.dumps(told, sort_keys=True, ensure_ascii=True, default=str)
        return f"pair:{hashlib.sha256(text.encode()).hexdigest()}"

    async def denied(self, call: Call) -> None:
        """Note that the client did not let a call run after it was begun: it was never sent.

        Only of a call with an id of its own, and only by who holds its attempt.

        Raises:
            Fault: the journal could not take it.
        """
        if self.caller.call_id is None:
            return
        held = await self.journal.calls.held(self.caller, system=SYSTEM)
        known = next((one for one in held if self._is_of_call(one)), None)
        if known is None:
            return
        reason = str(self.journal.hidden(self.event.reason or ""))[:500]
        await self.journal.record_failure(
            RecordFailure(
                ref=OperationRef(operation=known.operation),
                attempt=known.attempt,
                effect="none",
                error="the client did not permit the call, and it never ran",
                evidence={"denied": reason or "no reason given", "call": self.event.call_id or ""},
            ),
            self.caller,
        )

    def _is_told_as_blocked(self) -> bool:
        """Tell whether a client tells of the end of a call that a hook did not let run."""
        response = self.event.response
        text = response if isinstance(response, str) else json.dumps(response, default=str)
        return any(BLOCKED in told for told in (text, self.event.error or ""))

    def _is_of_call(self, known: HeldAttempt) -> bool:
        return self.caller.call_id in known.calls

    async def _nameless(self, identity: _Identity, held: Sequence[HeldAttempt]) -> HeldAttempt | None:
        """Give the attempt that a call without an id began: the one of this conversation with the same input.

        None where several are open: a receipt at the wrong one is worse than none.
        """
        found: dict[str, HeldAttempt] = {}
        own = {one.operation for one in held}
        for run in dict.fromkeys((identity.run, self.own_run)):
            for known in await self.journal.calls.on_file(
                run=run, key=identity.key, system=None, mark=self._pair()
            ):
                is_own = known.connection == self.caller.connection or known.operation in own
                if known.state in _UNSETTLED and is_own:
                    found[known.operation] = known
        paired = [known for known in found.values() if known.is_live] or [*found.values()]
        same = [known for known in paired if known.key == identity.key]
        candidates = same or paired
        return candidates[0] if len(candidates) == 1 else None

    async def after(self, call: Call) -> str | None:
        """Record what came of a call; give what the model has to be told of it.

        Raises:
            Fault: the journal could not take it.
        """
        from counterfoil.server.hooks.recording import record

        held = await self.journal.calls.held(self.caller, system=SYSTEM)
        known = next((one for one in held if self._is_of_call(one)), None)
        identity = self._identity(call, await self.run())
        if known is None and self.caller.call_id is None:
            if self._is_told_as_blocked():
                return None
            known = await self._nameless(identity, held)
        elif known is None:
            on_file = await self._on_file(identity)
            known = next((one for one in on_file if self._is_of_call(one)), None)
            earlier = None if known is not None else self._earlier((*held, *on_file))
            if earlier is not None:
                ref, attempt = earlier
                return await record(
                    self.journal,
                    self.caller,
                    call,
                    self.event,
                    ref=ref,
                    attempt=attempt,
                    args=identity.args,
                    is_over=True,
                )
            if known is None:
                other = await self._of_another_call(call, identity, on_file)
                if other is not None:
                    return None if self._is_told_as_blocked() else not_of_a_call(other, self.event)
        ref = OperationRef(run=identity.run, key=identity.key)
        return await record(
            self.journal,
            self.caller,
            call,
            self.event,
            ref=ref if known is None else OperationRef(operation=known.operation),
            attempt=None if known is None or not known.attempt else known.attempt,
            args=identity.args,
        )

    def _earlier(self, found: Sequence[HeldAttempt]) -> tuple[OperationRef, int] | None:
        """Give the attempt that this call began, where it is not the newest one any more."""
        for known in found:
            attempt = known.earlier.get(self.caller.call_id or "")
            if attempt is not None:
                return OperationRef(operation=known.operation), attempt
        return None

    async def _of_another_call(
        self, call: Call, identity: _Identity, on_file: Sequence[HeldAttempt]
    ) -> HeldAttempt | None:
        """Give what is on record of a call that nothing began: it was blocked, or ran unheard beside that."""
        standing = [known for known in on_file if known.state in _OPEN_OR_DONE]
        if not standing and call.own_key is None:
            standing = [known for known, _ in await self._parts_on_file(call, identity)]
        return next((known for known in standing if known.attempt), None)
