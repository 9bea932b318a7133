"""Carries one effectful call out: intent on record before it is passed on, receipt before it is answered.

The same call again is not passed on: it is answered from the journal, or told why it cannot be answered.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from msgspec.structs import replace

from counterfoil.server.clock import read_clock
from counterfoil.server.gateway.calls import GatewayJournal, Grant, Send, ToolCall
from counterfoil.server.gateway.captured import captured_receipt
from counterfoil.server.gateway.granting import Granting
from counterfoil.server.gateway.holding import Lapsed, Leases, still_holds
from counterfoil.server.gateway.looking import Ask
from counterfoil.server.gateway.outcomes import Outcome, outcome_of_error, outcome_of_result
from counterfoil.server.gateway.replies import (
    fault_reply,
    marked,
    not_stored,
    told_of,
    unknown_reply,
    with_not_stored,
)
from counterfoil.server.gateway.unrecorded import Unrecorded, is_stored
from counterfoil.server.logs import logger
from counterfoil.store.domain.commands import (
    Caller,
    OperationRef,
    RecordFailure,
    RecordReceipt,
)
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.domain.model import State
from counterfoil.store.domain.untrusted import safe_value
from counterfoil.store.errors import Fault, JournalUnavailable
from counterfoil.store.limits import Limits
from counterfoil.store.redact import Redactor
from counterfoil.tools.protocol import Journal

__all__ = ["Recording"]

_SHOWN_OF_ERROR = 1_000
"""Cut after secrets are replaced: half of one would not be known for one."""


class Recording:
    """Records the calls of one client."""

    def __init__(
        self,
        journals: Callable[[], Awaitable[Journal]],
        granting: Granting,
        *,
        limits: Limits,
        redactor: Redactor,
    ) -> None:
        self._journals = journals
        self._granting = granting
        self._limits = limits
        self._redactor = redactor
        self._unrecorded = Unrecorded()
        self._leases = Leases()

    async def keep_up(self) -> None:
        """Prolong leases, and record what could not be recorded when it happened; ends when cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._leases.keep)
            tasks.start_soon(self._unrecorded.keep_trying)

    async def close(self) -> None:
        """Try a last time to record what is left."""
        await self._unrecorded.close()

    async def carry_out(self, call: ToolCall, caller: Caller, send: Send, ask: Ask) -> dict[str, Any]:
        """Carry a call out, or answer it from the journal; `ask` calls the same server's reading tools.

        Raises:
            MCPError: the server refused the request, in its own words.
        """
        try:
            journal: GatewayJournal = await self._journals()  # type: ignore[assignment]
            await self._unrecorded.catch_up()
            granted = await self._granting.granted(journal, call, caller, ask)
        except Fault as fault:
            if isinstance(fault, JournalUnavailable) and call.rule.fail_open:
                logger.warning("a call of %s is passed on without a record: %s", call.server, fault.code)
                return marked(await send(dict(call.arguments)), {"recorded": False, "why": fault.code})
            return fault_reply(fault, self._redactor)
        if not isinstance(granted, Grant):
            return granted
        return await self._sent(journal, call, granted, caller, send)

    async def _sent(
        self, journal: GatewayJournal, call: ToolCall, grant: Grant, caller: Caller, send: Send
    ) -> dict[str, Any]:
        started = anyio.current_time()
        result: dict[str, Any] | None = None
        failed: Exception | None = None
        has_lapsed = False

        async def holds() -> bool:
            nonlocal has_lapsed
            try:
                has_lapsed = not await still_holds(journal, grant, caller)
            except Fault as fault:
                logger.warning("a call that waited for input does not go on: %s", fault.code)
                has_lapsed = True
            return not has_lapsed

        with self._leases.held(journal, grant, caller):
            try:
                result = await send(grant.arguments, holds=holds)
                outcome = outcome_of_result(result, call.expected)
            except anyio.get_cancelled_exc_class():
                gone = Outcome(kind="unknown", error="the caller gave the call up, or went")
                await self._record(journal, call, grant, caller, gone)
                raise
            except Lapsed:
                outcome = Outcome(kind="lapsed")
            except Exception as error:
                failed, outcome = error, outcome_of_error(error, call.expected)
            # Nothing is waited for between the end of the call and its record, and the record is shielded.
            duration_ms = round((anyio.current_time() - started) * 1_000)
            after = await self._record(journal, call, grant, caller, outcome, result, duration_ms)
        if failed is not None and outcome.kind == "refused":
            raise failed
        if result is None and has_lapsed:
            return await self._lapsed(journal, call, grant, caller)
        if result is None:
            warnings = [outcome.error, *(() if is_stored(after) else (not_stored(after),))]
            return unknown_reply(
                {**grant.told, **after, "warnings": warnings},
                answered=_as_data(journal, outcome),
                is_repeatable=call.repeat in ("safe", "keyed"),
            )
        if outcome.kind == "waiting":
            return result
        if not is_stored(after):
            is_performed = outcome.kind == "performed"
            return with_not_stored(result, grant.told, after, is_performed=is_performed)
        return marked(result, {**grant.told, **told_of(after, replayed=False)})

    async def _lapsed(
        self, journal: GatewayJournal, call: ToolCall, grant: Grant, caller: Caller
    ) -> dict[str, Any]:
        try:
            return await self._granting.lapsed(journal, call, grant, caller)
        except Fault as fault:
            return fault_reply(fault, self._redactor)

    async def _record(
        self,
        journal: GatewayJournal,
        call: ToolCall,
        grant: Grant,
        caller: Caller,
        outcome: Outcome,
        result: Mapping[str, Any] | None = None,
        duration_ms: int = 0,
    ) -> dict[str, Any]:
        """Record how a call ended: one that waits for input has not, and one that lapsed says nothing new."""
        if outcome.kind == "lapsed":
            return {}
        if outcome.kind == "waiting":
            self._granting.wait_for_input(grant)
            return {}
        ref = OperationRef(operation=grant.operation)
        if outcome.kind == "performed" and result is not None:
            receipt = captured_receipt(
                result,
                call.rule.receipt,
                server=call.server,
                tool=call.tool,
                attempt=grant.attempt,
                now=rfc3339(read_clock().at),
                duration_ms=duration_ms,
                hide=journal.hidden,
                limits=self._limits,
            )
            bare = replace(receipt, result=None)
            after = await self._unrecorded.record(
                lambda: journal.record_receipt(RecordReceipt(ref=ref, receipt=receipt), caller),
                lambda: journal.record_receipt(RecordReceipt(ref=ref, receipt=bare), caller),
            )
            if after.get("next") != "reconcile" or after.get("state") != State.IN_PROGRESS.value:
                return after
            # The receipt is kept and settles nothing; the call is over all the same, and its lease with it.
            outcome = Outcome(kind="unknown", error="the call ended with a receipt that does not settle it")
            ended = await self._record(journal, call, grant, caller, outcome)
            return {**after, "state": ended.get("state", after["state"])}
        failure = RecordFailure(
            ref=ref,
            attempt=grant.attempt,
            effect="none" if outcome.kind == "refused" else "unknown",
            error=outcome.error,
            evidence={
                "server": call.server[:200],
                "tool": call.tool[:200],
                **_as_data(journal, outcome),
            },
        )
        return await self._unrecorded.record(lambda: journal.record_failure(failure, caller))


def _as_data(journal: GatewayJournal, outcome: Outcome) -> dict[str, Any]:
    """Give what was received in the place of a result as bounded, escaped data without secrets."""
    return dict(safe_value(journal.hidden(dict(outcome.evidence)), limit=_SHOWN_OF_ERROR))
