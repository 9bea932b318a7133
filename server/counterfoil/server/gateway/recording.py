"""Carries one effectful call out: intent on record before it is passed on, receipt before it is answered.

The same call again is not passed on: it is answered from the journal, or told why it cannot be answered.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import anyio

from counterfoil.server.clock import read_clock
from counterfoil.server.gateway.captured import captured_receipt
from counterfoil.server.gateway.looking import Ask, declared_lookup, look
from counterfoil.server.gateway.outcomes import Expected, Outcome, outcome_of_error, outcome_of_result
from counterfoil.server.gateway.replies import (
    fault_reply,
    journal_reply,
    marked,
    replayed_reply,
    told_of,
)
from counterfoil.server.gateway.wish import NO_WISH, Wish
from counterfoil.server.logs import logger
from counterfoil.server.rules.call import DescribedCall, describe_call
from counterfoil.server.rules.matching import matching_attempt
from counterfoil.server.rules.tool_rule import ToolRule
from counterfoil.store.attending import Attendance, LiveAttempt, Mark, Recorded
from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    CheckOperation,
    Json,
    OperationRef,
    ReceiptGiven,
    ReconcileOperation,
    RecordFailure,
    RecordProgress,
    RecordReceipt,
)
from counterfoil.store.domain.identity import idempotency_key, operation_id
from counterfoil.store.domain.instants import parse_rfc3339, rfc3339
from counterfoil.store.domain.model import State
from counterfoil.store.domain.names import normalize_name
from counterfoil.store.errors import Fault, InvalidArgument, JournalUnavailable
from counterfoil.store.limits import Limits
from counterfoil.store.probing import ProbeSubject
from counterfoil.store.redact import Redactor
from counterfoil.tools.protocol import Journal

__all__ = ["CONNECTION_PREFIX", "GatewayJournal", "Recording", "ToolCall"]

CONNECTION_PREFIX = "gateway-"
"""How the connection of a gateway begins: what one began itself is never taken for an agent's own attempt."""

_MARK = "counterfoil:gateway"
_LEASE_PARTS = 3
"""The lease is prolonged after a third of it, so that a late turn does not lose it."""
_SHORTEST_BEAT_SECONDS = 1.0
_RECORDING_TRIES = 3
_RECORDING_PAUSE_SECONDS = 0.2

Send = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Passes a call on with these arguments, and gives its result as it came."""


class GatewayJournal(Journal, Protocol):
    """What recording calls needs of the journal beside the tools' commands."""

    def hidden(self, value: Json) -> Json:
        """Give a value with its secrets replaced."""
        ...

    async def attendance(self, caller: Caller, *, mark: Mark | None = None) -> Attendance:
        """Tell where the caller's conversation stands."""
        ...

    async def recorded(self, ref: OperationRef) -> Recorded:
        """Give what is on record of an operation, whole."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call as it came: `tool` is the server's own name, `shown` the one that the client knows.

    `arguments` are without the gateway's own. `is_continued`: it brings the input that the server asked for.
    `misfit` says why the server should refuse it, where that can be seen.
    """

    server: str
    tool: str
    shown: str
    rule: ToolRule
    arguments: Mapping[str, Any]
    wish: Wish = NO_WISH
    has_output_schema: bool = False
    is_idempotent_by_hint: bool = False
    is_continued: bool = False
    shown_lookup: str | None = None
    misfit: str | None = None

    @property
    def expected(self) -> Expected:
        """What its server is expected to make of it."""
        return Expected(rule=self.rule, misfit=self.misfit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a call stands: its run, what it is, and the agent's own attempt that it carries out, if one."""

    run: str
    key: str
    operation: str
    described: DescribedCall
    attached: LiveAttempt | None
    marked: str | None
    mark: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """The permission that a call is passed on under. `told` is what `_meta` will say of it."""

    place: str
    operation: str
    attempt: int
    arguments: dict[str, Any]
    lease_seconds: float
    told: Mapping[str, Any]


class Recording:
    """Records the calls of one client. `run` is the run of all of them, where the operator names one."""

    def __init__(
        self,
        journals: Callable[[], Awaitable[Journal]],
        *,
        namespace: str,
        run: str | None,
        limits: Limits,
        redactor: Redactor,
        lease_seconds: float,
    ) -> None:
        self._journals = journals
        self._namespace = namespace
        self._run = run
        self._limits = limits
        self._redactor = redactor
        self._lease_seconds = lease_seconds
        self._waiting: dict[str, _Grant] = {}

    async def carry_out(self, call: ToolCall, caller: Caller, send: Send, ask: Ask) -> dict[str, Any]:
        """Carry a call out, or answer it from the journal; `ask` calls the same server's reading tools.

        Raises:
            MCPError: the server refused the request, in its own words.
        """
        try:
            journal: GatewayJournal = await self._journals()  # type: ignore[assignment]
            granted = await self._granted(journal, call, caller, ask)
        except Fault as fault:
            if isinstance(fault, JournalUnavailable) and call.rule.fail_open:
                logger.warning("a call of %s is passed on without a record: %s", call.server, fault.code)
                return marked(await send(dict(call.arguments)), {"recorded": False, "why": fault.code})
            return fault_reply(fault, self._redactor)
        if not isinstance(granted, _Grant):
            return granted
        return await self._sent(journal, call, granted, caller, send)

    async def _granted(
        self, journal: GatewayJournal, call: ToolCall, caller: Caller, ask: Ask
    ) -> _Grant | dict[str, Any]:
        place = await self._place(journal, call, caller)
        waiting = self._waiting.pop(place.operation, None) if call.is_continued else None
        if waiting is not None:
            return replace(waiting, arguments={**waiting.arguments, **call.arguments})
        if place.attached is not None:
            return await self._attached(journal, call, place, place.attached, caller)
        if place.marked is not None:
            return await self._once_attached(journal, call, place.marked, caller)
        for is_first in (True, False):
            answer = await journal.begin_operation(self._begin(call, place), caller)
            if answer["next"] == "perform":
                return await self._performing(journal, call, place, answer, caller)
            if answer["next"] == "skip" and answer["reason"] == "already_succeeded":
                recorded = await journal.recorded(OperationRef(operation=answer["operation"]))
                return replayed_reply(answer, recorded, has_output_schema=call.has_output_schema)
            is_open = answer["next"] == "reconcile" and answer["reason"] in ("in_doubt", "receipt_too_weak")
            if not (is_first and is_open and call.rule.lookup is not None):
                break
            reply = await self._looked_up(journal, call, place, answer, caller, ask)
            if reply is not None:
                return reply
        return journal_reply(answer)

    async def _place(self, journal: GatewayJournal, call: ToolCall, caller: Caller) -> _Place:
        described = describe_call(
            call.rule,
            server=call.server,
            tool=call.tool,
            arguments=call.arguments,
            hide=journal.hidden,
            limits=self._limits,
        )
        key = call.wish.key or _after(described.key, call.wish.distinct_from)
        fixed = call.wish.run or self._run

        def mark(held: str | None) -> tuple[str, str]:
            named = json.dumps([fixed or held or _conversation_run(caller), key])
            return _MARK, f"call:{hashlib.sha256(named.encode()).hexdigest()}"

        attendance = await journal.attendance(caller, mark=mark)
        live = [one for one in attendance.live if not one.connection.startswith(CONNECTION_PREFIX)]
        if call.wish != NO_WISH:
            named = (call.wish.run or self._run or attendance.run, call.wish.key)
            attached = next((one for one in live if (one.run, one.key) == named), None)
        else:
            arguments = journal.hidden(dict(call.arguments))
            attached = matching_attempt(live, described, tool=call.tool, arguments=arguments)
        run = normalize_name(fixed or attendance.run or _conversation_run(caller), field="run")
        key = normalize_name(key, field="key")
        return _Place(
            run=run,
            key=key,
            operation=operation_id(self._namespace, run, key),
            described=described,
            attached=attached,
            marked=attendance.marked,
            mark=mark(attendance.run),
        )

    def _begin(self, call: ToolCall, place: _Place) -> BeginOperation:
        rule, described = call.rule, place.described
        repeat = rule.repeat
        if repeat is None and rule.trust_idempotent_hint and call.is_idempotent_by_hint:
            repeat = "safe"
        lookup = None
        if rule.lookup is not None and call.shown_lookup is not None:
            lookup = declared_lookup(rule.lookup, _subject(place, None), tool=call.shown_lookup)
        return BeginOperation(
            run=place.run,
            key=place.key,
            action=described.action,
            target=described.target,
            args=described.args,
            payload=described.payload,
            repeat=repeat,
            key_ttl_seconds=rule.key_ttl_seconds,
            lookup=lookup,
            lease_seconds=rule.lease_seconds,
            deadline_seconds=rule.deadline_seconds,
            max_attempts=rule.max_attempts,
            distinct_from=call.wish.distinct_from,
        )

    async def _performing(
        self,
        journal: GatewayJournal,
        call: ToolCall,
        place: _Place,
        answer: Mapping[str, Any],
        caller: Caller,
    ) -> _Grant | dict[str, Any]:
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
        return _Grant(
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
        self, journal: GatewayJournal, call: ToolCall, place: _Place, attempt: LiveAttempt, caller: Caller
    ) -> _Grant | dict[str, Any]:
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
        return _Grant(
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
            return replayed_reply(checked, recorded, has_output_schema=call.has_output_schema)
        if checked.get("next") == "begin":
            checked = {**checked, "next": "stop", "reason": "begin_first"}
        return journal_reply(checked, recorded=recorded)

    async def _looked_up(
        self,
        journal: GatewayJournal,
        call: ToolCall,
        place: _Place,
        answer: Mapping[str, Any],
        caller: Caller,
        ask: Ask,
    ) -> dict[str, Any] | None:
        """Look whether an earlier call had its effect, and record it. None: it is settled, begin again."""
        rule = call.rule.lookup
        if rule is None:
            raise LookupError("a look without a lookup")
        found = await look(rule, _subject(place, answer.get("idempotency_key")), ask)
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

    async def _sent(
        self, journal: GatewayJournal, call: ToolCall, grant: _Grant, caller: Caller, send: Send
    ) -> dict[str, Any]:
        started = anyio.current_time()
        result: dict[str, Any] | None = None
        failed: Exception | None = None
        async with anyio.create_task_group() as beats:
            beats.start_soon(self._keep_lease, journal, grant, caller)
            try:
                result = await send(grant.arguments)
            except anyio.get_cancelled_exc_class():
                told_off = Outcome(kind="unknown", error="the caller gave the call up, or went")
                with anyio.CancelScope(shield=True):
                    await self._record_failure(journal, call, grant, caller, told_off)
                raise
            except Exception as error:
                failed = error
            beats.cancel_scope.cancel()
        if result is None:
            outcome = outcome_of_error(failed, call.expected)
            after = await self._record_failure(journal, call, grant, caller, outcome)
            if outcome.kind == "refused" and failed is not None:
                raise failed
            return journal_reply(
                {
                    **grant.told,
                    **after,
                    "next": "reconcile",
                    "reason": "in_doubt",
                    "warnings": [outcome.error],
                }
            )
        outcome = outcome_of_result(result, call.expected)
        if outcome.kind == "waiting":
            self._waiting[grant.place] = grant
            return result
        if outcome.kind == "performed":
            duration_ms = round((anyio.current_time() - started) * 1_000)
            after = await self._record_receipt(journal, call, grant, caller, result, duration_ms)
        else:
            after = await self._record_failure(journal, call, grant, caller, outcome)
        return marked(result, {**grant.told, **told_of(after, replayed=False)})

    async def _keep_lease(self, journal: GatewayJournal, grant: _Grant, caller: Caller) -> None:
        """Prolong the lease for as long as the call takes; a beat that fails is made up for by the next."""
        pause = max(_SHORTEST_BEAT_SECONDS, grant.lease_seconds / _LEASE_PARTS)
        ref = OperationRef(operation=grant.operation)
        while True:
            await anyio.sleep(pause)
            try:
                await journal.record_progress(RecordProgress(ref=ref, attempt=grant.attempt), caller)
            except Fault as fault:
                logger.warning("a lease was not prolonged: %s", fault.code)
            except Exception:
                logger.exception("a lease was not prolonged")

    async def _record_receipt(
        self,
        journal: GatewayJournal,
        call: ToolCall,
        grant: _Grant,
        caller: Caller,
        result: Mapping[str, Any],
        duration_ms: int,
    ) -> dict[str, Any]:
        receipt = captured_receipt(
            result,
            call.rule.receipt,
            server=call.server,
            tool=call.tool,
            attempt=grant.attempt,
            now=_now(),
            duration_ms=duration_ms,
            hide=journal.hidden,
            limits=self._limits,
        )
        command = RecordReceipt(ref=OperationRef(operation=grant.operation), receipt=receipt)
        return await _recorded(lambda: journal.record_receipt(command, caller))

    async def _record_failure(
        self, journal: GatewayJournal, call: ToolCall, grant: _Grant, caller: Caller, outcome: Outcome
    ) -> dict[str, Any]:
        command = RecordFailure(
            ref=OperationRef(operation=grant.operation),
            attempt=grant.attempt,
            effect="none" if outcome.kind == "refused" else "unknown",
            error=outcome.error,
            evidence={"server": call.server[:200], "tool": call.tool[:200], **outcome.evidence},
        )
        return await _recorded(lambda: journal.record_failure(command, caller))


async def _recorded(command: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Record what has happened, whoever gives up meanwhile; where that fails, the operation is in doubt."""
    with anyio.CancelScope(shield=True):
        for left in reversed(range(_RECORDING_TRIES)):
            try:
                return await command()
            except JournalUnavailable as fault:
                if not fault.retryable or left == 0:
                    logger.error("the end of a call was NOT recorded: %s", fault.code)
                    break
                await anyio.sleep(_RECORDING_PAUSE_SECONDS)
            except Fault as fault:
                logger.error("the end of a call was NOT recorded: %s", fault.code)
                break
    return {"state": "in_progress", "reason": "journal_unavailable"}


def _subject(place: _Place, key: str | None) -> ProbeSubject:
    """Give what a lookup looks for; before the first begin only the names of the operation are known."""
    described = place.described
    return ProbeSubject(
        operation=place.operation,
        run=place.run,
        key=place.key,
        action=described.action,
        target=described.target,
        args=described.args,
        idempotency_key=key or idempotency_key(place.operation, 1),
    )


def _after(key: str, distinct_from: tuple[str, ...]) -> str:
    """Give the key of a deliberate repeat: the same repeat sent again is the same operation."""
    if not distinct_from:
        return key
    return f"{key[:150]}~{hashlib.sha256(json.dumps(distinct_from).encode()).hexdigest()[:12]}"


def _conversation_run(caller: Caller) -> str:
    """Give the run of a caller who named none: its conversation, or the connection where none is known."""
    name = f"conversation/{caller.conversation}" if caller.conversation else f"connection/{caller.connection}"
    try:
        return normalize_name(name, field="run")
    except InvalidArgument:
        return f"conversation/{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _is_stand_in(payload: Mapping[str, Any]) -> bool:
    return any(
        isinstance(part, Mapping) and part.keys() == {"sha256", "characters"} for part in payload.values()
    )


def _instant(text: str) -> int:
    return parse_rfc3339(text, field="time")


def _now() -> str:
    return rfc3339(read_clock().at)
