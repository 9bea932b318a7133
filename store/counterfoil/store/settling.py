"""What is told of an operation once it was begun: receipts, failures, findings, progress, the end of it.

Each is checked first, and then decided upon the operation as one transaction finds it.
"""

from typing import Any

from msgspec.structs import replace

from counterfoil.store.commanding import Commanding
from counterfoil.store.domain.closing import decide_close
from counterfoil.store.domain.commands import (
    Caller,
    CloseOperation,
    ReconcileOperation,
    RecordFailure,
    RecordProgress,
    RecordReceipt,
)
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.failures import decide_failure
from counterfoil.store.domain.receipts import decide_receipt
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.preparing import Bodies
from counterfoil.store.preparing_reports import prepare_close, prepare_failure, read_as_of
from counterfoil.store.protocol import Connection, Work
from counterfoil.store.receipt_reading import ReceiptReading, check_attempt
from counterfoil.store.resolving import has_claimed, has_decided, was_called
from counterfoil.store.viewing import Viewer

__all__ = ["Settling"]


class Settling:
    """Takes word of operations: each method checks it and gives what does it in a transaction.

    Each raises InvalidArgument or TooLarge where the call cannot be taken as made.
    """

    def __init__(self, view: Viewer) -> None:
        self._view = view
        self._prepare = view.prepare
        self._commands = Commanding(view)
        self._receipts = ReceiptReading(view)

    def receipt(self, command: RecordReceipt, caller: Caller) -> Work[dict[str, Any]]:
        """Keep evidence of the effect."""
        bodies = Bodies()
        caller = self._prepare.caller(caller)
        given = command.receipt
        described = self._commands.described(given, bodies)
        ref = self._prepare.reference(command.ref)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            may_create = described is not None and ref.key is not None
            operation, run = await self._commands.read(connection, ref, must_exist=not may_create)
            receipt = await self._receipts.facts(connection, given, bodies, operation, run, ref)
            verdict = decide_receipt(
                operation,
                receipt,
                situation,
                creation=self._commands.creation(ref, run, described, situation.now.at),
            )
            verdict = replace(verdict, warnings=(*verdict.warnings, *receipt.misnamed))
            return await self._commands.conclude(
                connection, verdict, operation, run, bodies, caller, situation
            )

        return work

    def failure(self, command: RecordFailure, caller: Caller) -> Work[dict[str, Any]]:
        """Take an agent's word about its own attempt."""
        bodies = Bodies()
        ref = self._prepare.reference(command.ref)
        given = prepare_failure(command, prepare=self._prepare, bodies=bodies)
        caller = self._prepare.caller(caller)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            operation, run = await self._commands.existing(connection, ref)
            check_attempt(operation, given.attempt)
            holder = None if operation.newest is None else operation.newest.holder
            is_holder = holder is not None and holder.is_holder(situation.party)
            is_on_file = not is_holder and await has_claimed(connection, operation, given)
            verdict = decide_failure(operation, replace(given, is_on_file=is_on_file), situation)
            return await self._commands.conclude(
                connection, verdict, operation, run, bodies, caller, situation
            )

        return work

    def finding(self, command: ReconcileOperation, caller: Caller) -> Work[dict[str, Any]]:
        """Take what looking at the performing system showed."""
        from counterfoil.store.domain.findings import ReconcileFacts
        from counterfoil.store.domain.reconciling import decide_reconcile

        bodies = Bodies()
        caller = self._prepare.caller(caller)
        ref = self._prepare.reference(command.ref)
        if command.finding not in ("performed", "not_performed", "inconclusive", "compensated"):
            raise InvalidArgument(
                "finding",
                "is unknown",
                accepted='"performed", "not_performed", "inconclusive" or "compensated"',
            )
        if command.by not in ("lookup", "human"):
            raise InvalidArgument("by", "is unknown", accepted='"lookup" or "human"')
        checked_with = self._prepare.text(command.checked_with, name="checked_with")
        if checked_with is None:
            raise InvalidArgument("checked_with", "is empty", accepted="what you looked with, in words")
        described = self._commands.described(command.receipt, bodies)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            may_create = described is not None and ref.key is not None and command.finding == "performed"
            operation, run = await self._commands.read(connection, ref, must_exist=not may_create)
            given = ReconcileFacts(
                finding=command.finding,
                checked_with=checked_with,
                by=command.by,
                as_of=read_as_of(command, situation.now.at),
                receipt=await self._receipts.facts(
                    connection,
                    command.receipt,
                    bodies,
                    operation,
                    run,
                    ref,
                    is_of_undoing=command.finding == "compensated",
                ),
                end_lease=command.end_lease,
            )
            verdict = decide_reconcile(
                operation,
                given,
                situation,
                creation=self._commands.creation(ref, run, described, situation.now.at),
            )
            verdict = replace(verdict, warnings=(*verdict.warnings, *given.receipt.misnamed))
            return await self._commands.conclude(
                connection, verdict, operation, run, bodies, caller, situation
            )

        return work

    def close(self, command: CloseOperation, caller: Caller) -> Work[dict[str, Any]]:
        """Take the explicit decision to stop waiting or to give up."""
        ref, given = self._prepare.reference(command.ref), prepare_close(command, prepare=self._prepare)
        caller = self._prepare.caller(caller)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            operation, run = await self._commands.existing(connection, ref)
            if command.attempt is not None:
                check_attempt(operation, command.attempt)
            is_redelivered = await has_decided(connection, operation, caller.call_id)
            verdict = decide_close(operation, replace(given, is_redelivered=is_redelivered), situation)
            return await self._commands.conclude(
                connection, verdict, operation, run, Bodies(), caller, situation
            )

        return work

    def progress(self, command: RecordProgress, caller: Caller) -> Work[dict[str, Any]]:
        """Take word of progress on an operation, and prolong the lease of its attempt."""
        from counterfoil.store.domain.progress import decide_progress
        from counterfoil.store.preparing_runs import prepare_progress

        bodies = Bodies()
        given = prepare_progress(command, prepare=self._prepare, bodies=bodies)
        caller = self._prepare.caller(caller)
        ref = self._prepare.reference(command.ref)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            operation, run = await self._commands.existing(connection, ref)
            if given.attempt is not None or not operation.granted:
                check_attempt(operation, given.attempt or 1)
            is_redelivered = await was_called(
                connection,
                namespace=operation.namespace,
                run=operation.run,
                operation=operation.id,
                kind=EventKind.PROGRESSED,
                call_id=caller.call_id,
            )
            verdict = decide_progress(operation, replace(given, is_redelivered=is_redelivered), situation)
            answer = await self._commands.conclude(
                connection, verdict, operation, run, bodies, caller, situation
            )
            attempt = verdict.fields.get("attempt")
            if attempt is not None and verdict.after is not None:
                answer.update(self._view.present.grant(attempt, verdict.after))
            return answer

        return work
