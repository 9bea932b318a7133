"""verify_operation: lets a probe read the performing system, and records what it saw as a finding."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from counterfoil.store.damaged_rows import refuse_damaged
from counterfoil.store.domain.commands import (
    Caller,
    OperationRef,
    ReceiptGiven,
    ReconcileOperation,
    VerifyOperation,
)
from counterfoil.store.domain.identity import idempotency_key
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Finding, Operation
from counterfoil.store.errors import NotFound
from counterfoil.store.presenting import answer_head
from counterfoil.store.probing import Prober, ProbeSubject
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import operation_or_fault, read_body
from counterfoil.store.viewing import Viewer

__all__ = ["Verifier"]

_PREFIX = "probe "

Reconcile = Callable[[ReconcileOperation, Caller], Awaitable[dict[str, Any]]]


class Verifier:
    """Verifies operations with the operator's probes. `reconcile` is the journal's own command."""

    def __init__(self, view: Viewer, *, prober: Prober | None, reconcile: Reconcile) -> None:
        self._view = view
        self._prober = prober
        self._reconcile = reconcile

    async def verify(self, command: VerifyOperation, caller: Caller) -> dict[str, Any]:
        """Look with the probe that serves the operation, and reconcile by what it saw.

        The probe runs outside any transaction. What it did not find is dated by the clock before it looked,
        so that it counts only by the ordinary rules. The same call delivered again does not look again.

        Raises:
            InvalidArgument, NotFound: which operation is meant, or no probe serves it; nothing was recorded.
            Ambiguous, Forbidden: more than one probe serves it, or the named one may not.
            JournalUnavailable: what was found is NOT stored.
        """
        ref = self._view.prepare.reference(command.ref)

        async def facts(connection: Connection) -> tuple[Operation, ProbeSubject, Instant]:
            operation = await operation_or_fault(connection, self._view.namespace, ref, must_exist=True)
            if operation is None:
                raise LookupError("operation_or_fault gave nothing")
            refuse_damaged(operation)
            return operation, await _subject(connection, operation), self._view.now(connection).at

        operation, subject, looked_after = await self._view.database.read(facts)
        known = _of_call(operation, caller.call_id)
        if known is not None:
            return self._said_before(operation, known, looked_after)
        if self._prober is None:
            raise NotFound(
                "no probe is configured; nothing was looked for or recorded",
                fix="an operator adds a [probes.NAME] table to counterfoil.toml; until then look with the "
                "recorded lookup and call reconcile_operation",
            )
        seen = await self._prober.look(subject)
        finding = "inconclusive" if seen.found is None else "performed" if seen.found else "not_performed"
        evidence = {"probe": seen.probe, **({"why": seen.why} if seen.why else {}), **seen.evidence}
        receipt = ReceiptGiven(source="lookup", evidence=evidence)
        if seen.found:
            receipt = ReceiptGiven(
                kind=seen.kind,
                external_id=seen.external_id,
                system=seen.system,
                performed_at=seen.performed_at,
                evidence=evidence,
                source="lookup",
                assurance="verified",
            )
        answer = await self._reconcile(
            ReconcileOperation(
                ref=OperationRef(operation=operation.id),
                finding=finding,
                checked_with=f"{_PREFIX}{seen.probe}",
                as_of=rfc3339(looked_after),
                by="lookup",
                receipt=receipt,
            ),
            caller,
        )
        shown: dict[str, Any] = {"name": seen.probe, "found": seen.found}
        return {**answer, "probe": {**shown, "why": seen.why} if seen.why else shown}

    def _said_before(self, operation: Operation, known: Finding, now: Instant) -> dict[str, Any]:
        found = {"performed": True, "not_performed": False}.get(known.finding)
        return {
            **answer_head("continue", "duplicate", now),
            **self._view.present.place(operation, now),
            "probe": {"name": known.checked_with.removeprefix(_PREFIX), "found": found},
        }


def _of_call(operation: Operation, call_id: str | None) -> Finding | None:
    """Give the finding that this very call recorded, if it was delivered before."""
    if call_id is None:
        return None
    return next(
        (
            finding
            for finding in operation.findings
            if finding.call_id == call_id and finding.checked_with.startswith(_PREFIX)
        ),
        None,
    )


async def _subject(connection: Connection, operation: Operation) -> ProbeSubject:
    args = None
    if operation.description.args_digest is not None:
        text = await read_body(connection, operation, operation.description.args_digest)
        args = None if text is None else json.loads(text)
    newest, lookup = operation.newest, operation.terms.lookup
    receipt = next(
        (
            receipt
            for receipt in reversed(operation.receipts)
            if receipt.external_id is not None
            and not (receipt.is_foreign or receipt.is_set_aside or receipt.is_undo)
        ),
        None,
    )
    return ProbeSubject(
        operation=operation.id,
        run=operation.run,
        key=operation.key,
        action=operation.description.action,
        target=operation.description.target,
        args=args,
        idempotency_key=None if newest is None else idempotency_key(operation.id, newest.generation),
        external_id=None if receipt is None else receipt.external_id,
        kind=None if receipt is None else receipt.kind,
        system=None if receipt is None else receipt.system,
        probe=None if lookup is None else lookup.probe,
    )
