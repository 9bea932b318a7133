"""Gets the permission to pass a call on, or the answer to a call that is not passed on.

The agent's own attempt goes before one under the gateway's key, and what is in doubt is looked up where a
rule says how.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from counterfoil.server.clock import read_clock
from counterfoil.server.gateway.calls import CONNECTION_PREFIX, GatewayJournal, Grant, ToolCall
from counterfoil.server.gateway.holding import still_holds
from counterfoil.server.gateway.looking import Ask, look
from counterfoil.server.gateway.placing import (
    Place,
    Search,
    begin_of,
    found_place,
    search_for,
    subject_of,
)
from counterfoil.server.gateway.replies import journal_reply, replayed_reply, told_of
from counterfoil.store.attending import LiveAttempt
from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    CheckOperation,
    OperationRef,
    ReceiptGiven,
    ReconcileOperation,
    RecordFailure,
    RecordReceipt,
)
from counterfoil.store.domain.instants import parse_rfc3339, rfc3339
from counterfoil.store.domain.model import State
from counterfoil.store.limits import Limits

__all__ = ["Granting"]

_MOST_WAITING = 1_000
"""Calls whose servers asked for input that nobody brought; the oldest are left to run out."""


class Granting:
    """Grants the calls of one client. `run` is the run of all of them, where the operator names one."""

    def __init__(self, *, namespace: str, run: str | None, limits: Limits, lease_seconds: float) -> None:
        self._namespace = namespace
        self._run = run
        self._limits = limits
        self._lease_seconds = lease_seconds
        self._waiting: dict[str, Grant] = {}

    def wait_for_input(self, grant: Grant) -> None:
        """Keep a permission whose server asked for input first: the same call comes again with it."""
        if len(self._waiting) >= _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[grant.place] = grant

    async def granted(
        self, journal: GatewayJournal, call: ToolCall, caller: Caller, ask: Ask
    ) -> Grant | dict[str, Any]:
        """Give the permission, or the answer instead.

        Raises:
            Fault: the journal could not take the call; it must not be passed on.
        """
        search = search_for(
            journal, call, caller, namespace=self._namespace, run=self._run, limits=self._limits
        )
        answer, place = await self._begun(journal, call, search, caller)
        if answer is None:
            known = await self._known_before(journal, call, place, caller)
            if known is not None:
                return known
            answer = await journal.begin_operation(begin_of(call, place), caller)
        is_open = answer["next"] == "reconcile" and answer["reason"] in ("in_doubt", "receipt_too_weak")
        if is_open and call.rule.lookup is not None:
            reply = await self._looked_up(journal, call, place, answer, caller, ask)
            if reply is not None:
                return reply
            answer = await journal.begin_operation(begin_of(call, place), caller)
        if answer["next"] == "perform":
            return await self._performing(journal, call, place, answer, caller)
        if answer["next"] == "skip" and answer["reason"] == "already_succeeded":
            recorded = await journal.recorded(OperationRef(operation=answer["operation"]))
            return replayed_reply(answer, recorded)
        return journal_reply(answer)

    async def _begun(
        self, journal: GatewayJournal, call: ToolCall, search: Search, caller: Caller
    ) -> tuple[dict[str, Any] | None, Place]:
        """Begin a call under its own key; no answer where the agent or an earlier call may have done so."""
        if call.is_continued:
            attendance = await journal.attendance(caller, mark=search.mark, run=search.fixed)
            return None, found_place(journal, call, search, attendance)
        place = search.place(None)

        def begin(held: str | None) -> BeginOperation:
            nonlocal place
            place = search.place(held)
            return begin_of(call, place)

        found = await journal.begin_unattended(
            begin, caller, mark=search.mark, run=search.fixed, apart_from=CONNECTION_PREFIX
        )
        return (
            (found, place) if isinstance(found, dict) else (None, found_place(journal, call, search, found))
        )

    async def _known_before(
        self, journal: GatewayJournal, call: ToolCall, place: Place, caller: Caller
    ) -> Grant | dict[str, Any] | None:
        """Go on with a call that waited for input, or under the agent's own attempt; None: it is new."""
        waiting = self._waiting.get(place.operation) if call.is_continued else None
        if waiting is not None:
            if not await still_holds(journal, waiting, caller):
                self._waiting.pop(place.operation, None)
                return await self.lapsed(journal, call, waiting, caller)
            if self._waiting.pop(place.operation, None) is not waiting:
                # The same input came twice, and the other one goes on with the permission.
                return journal_reply({**waiting.told, "next": "wait", "reason": "lease_held_by_you"})
            return replace(waiting, arguments={**waiting.arguments, **call.arguments})
        if place.attached is not None:
            return await self._attached(journal, call, place, place.attached, caller)
        if place.marked is not None:
            return await self._once_attached(journal, call, place.marked, caller)
        return None

    async def lapsed(
        self, journal: GatewayJournal, call: ToolCall, grant: Grant, caller: Caller
    ) -> dict[str, Any]:
        """Answer a call whose permission ended while it waited for input: what stands now.

        Raises:
            Fault: the journal cannot tell.
        """
        ref = OperationRef(operation=grant.operation)
        checked = await journal.check_operation(CheckOperation(ref=ref), caller)
        recorded = await journal.recorded(ref)
        if recorded.state is State.SUCCEEDED:
            return replayed_reply(checked, recorded)
        if checked.get("next") == "begin":
            checked = {**checked, "reason": "begin_first" if "attached" in grant.told else "lapsed"}
        return journal_reply(checked, recorded=recorded)

    async def _performing(
        self,
        journal: GatewayJournal,
        call: ToolCall,
        place: Place,
        answer: Mapping[str, Any],
        caller: Caller,
    ) -> Grant | dict[str, Any]:
        """Make the arguments of a granted attempt: the recorded payload, and the idempotency key."""
        arguments, described = dict(call.arguments), place.described
        if "payload" in answer.get("recorded", {}):
            recorded = await journal.recorded(OperationRef(operation=answer["operation"]))
            payload = recorded.payload
            if not recorded.is_payload_hidden and payload != described.payload:
                if not described.is_payload_whole or not isinstance(payload, dict) or _is_stand_in(payload):
                    return await self._never_sent(journal, answer, caller)
                rest = {name: arguments[name] for name in arguments if name not in described.payload_names}
                arguments = {**rest, **payload}
        if call.rule.idempotency_argument is not None:
            arguments[call.rule.idempotency_argument] = answer["idempotency_key"]
        return Grant(
            place=place.operation,
            operation=answer["operation"],
            attempt=answer["attempt"],
            arguments=arguments,
            lease_seconds=call.rule.lease_seconds or self._lease_seconds,
            told=told_of(answer, replayed=False),
        )

    async def _never_sent(
        self, journal: GatewayJournal, answer: Mapping[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """Give a permission back that cannot be used: the bytes to be repeated are not on record."""
        failure = RecordFailure(
            ref=OperationRef(operation=answer["operation"]),
            attempt=answer["attempt"],
            effect="none",
            error="the recorded payload is not kept whole and the one given is another",
            evidence={"never_sent": "the payload to be repeated is not on record"},
        )
        after = await journal.record_failure(failure, caller)
        return journal_reply({**answer, **after, "next": "stop", "reason": "identity_conflict"})

    async def _attached(
        self, journal: GatewayJournal, call: ToolCall, place: Place, attempt: LiveAttempt, caller: Caller
    ) -> Grant | dict[str, Any]:
        """Take the call for the agent's own attempt, and leave a mark by which the call is known again."""
        system, external_id = place.mark
        mark = ReceiptGiven(
            attempt=attempt.attempt,
            kind="other",
            external_id=external_id,
            system=system,
            performed_at=_now(),
            final=False,
            evidence={"passed_on_by": "gateway", "server": call.server, "tool": call.tool},
            assurance="captured",
        )
        ref = OperationRef(operation=attempt.operation)
        answer = await journal.record_receipt(RecordReceipt(ref=ref, receipt=mark), caller)
        if answer.get("reason") != "recorded":
            # The same call was passed on under this attempt before, or somebody settled it meanwhile.
            return await self._once_attached(journal, call, attempt.operation, caller)
        arguments = dict(call.arguments)
        if call.rule.idempotency_argument is not None:
            checked = await journal.check_operation(CheckOperation(ref=ref), caller)
            newest = (checked.get("attempts") or [{}])[-1]
            if isinstance(newest.get("idempotency_key"), str):
                arguments[call.rule.idempotency_argument] = newest["idempotency_key"]
        return Grant(
            place=place.operation,
            operation=attempt.operation,
            attempt=attempt.attempt,
            arguments=arguments,
            lease_seconds=self._lease_seconds,
            told={**told_of(answer, replayed=False), "attached": True, "attempt": attempt.attempt},
        )

    async def _once_attached(
        self, journal: GatewayJournal, call: ToolCall, operation: str, caller: Caller
    ) -> dict[str, Any]:
        """Answer a call that was passed on under an agent's own attempt before."""
        ref = OperationRef(operation=operation)
        checked = await journal.check_operation(CheckOperation(ref=ref), caller)
        recorded = await journal.recorded(ref)
        if recorded.state is State.SUCCEEDED:
            return replayed_reply(checked, recorded)
        if checked.get("next") == "begin":
            checked = {**checked, "next": "stop", "reason": "begin_first"}
        return journal_reply(checked, recorded=recorded)

    async def _looked_up(
        self,
        journal: GatewayJournal,
        call: ToolCall,
        place: Place,
        answer: Mapping[str, Any],
        caller: Caller,
        ask: Ask,
    ) -> dict[str, Any] | None:
        """Look whether an earlier call had its effect, and record it. None: it is settled, begin again."""
        rule = call.rule.lookup
        if rule is None:
            raise LookupError("a look without a lookup")
        found = await look(rule, subject_of(place, answer.get("idempotency_key")), ask)
        seen = found.seen
        if seen is None:
            return journal_reply({**answer, "warnings": [found.why, *answer.get("warnings", ())]})
        until = answer.get("settle_until")
        is_early = until is not None and _instant(until) > _instant(answer["as_of"])
        if not seen.found and is_early:
            return journal_reply({**answer, "next": "wait", "reason": "settling", "retry_at": until})
        receipt = ReceiptGiven(evidence=dict(seen.evidence))
        if seen.found:
            receipt = ReceiptGiven(
                kind=call.rule.receipt.kind if seen.external_id else "other",
                external_id=seen.external_id or f"found:{answer['operation']}",
                system=call.rule.receipt.system if seen.external_id else f"mcp:{call.server}"[:200],
                performed_at=seen.performed_at,
                evidence=dict(seen.evidence),
                source="lookup",
                assurance="captured",
            )
        command = ReconcileOperation(
            ref=OperationRef(operation=answer["operation"]),
            finding="performed" if seen.found else "not_performed",
            checked_with=f"the gateway, with {call.shown_lookup or rule.tool}"[:1_000],
            as_of=answer["as_of"],
            receipt=receipt,
        )
        after = await journal.reconcile_operation(command, caller)
        if after["next"] == "continue":
            return None
        return journal_reply({**answer, **after})


def _is_stand_in(payload: Mapping[str, Any]) -> bool:
    return any(
        isinstance(part, Mapping) and part.keys() == {"sha256", "characters"} for part in payload.values()
    )


def _instant(text: str) -> int:
    return parse_rfc3339(text, field="time")


def _now() -> str:
    return rfc3339(read_clock().at)
