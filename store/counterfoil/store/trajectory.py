"""Who did it: leads from an operation's attempt and receipt to the callers behind them, by the log."""

import json
from collections.abc import Mapping
from typing import Any

from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.domain.model import Operation, Receipt
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.presenting import without_none
from counterfoil.store.protocol import Connection

__all__ = ["trajectory_of"]

_MOST_ACTS = 200
"""Attempts and receipts of one operation that are looked through; older ones stand in the full history."""

_LONGEST = 100
"""Characters of one text: a traceparent of 55 and a digest of 74 come whole."""

_SHOWN = (
    "tool",
    "client",
    "client_version",
    "principal",
    "agent",
    "model",
    "model_run",
    "tool_call",
    "conversation",
    "traceparent",
    "attempt_span",
    "context",
    "workflow_version",
)


async def trajectory_of(
    connection: Connection, operation: Operation, *, external_id: str | None = None
) -> list[dict[str, Any]] | None:
    """Show who was granted the attempts and who brought the receipt, in order; None where nobody did either.

    The receipt is the one that `external_id` names, else the newest that stands, else the newest. The
    attempts are the one that it belongs to, and the newest.
    """
    receipt = _receipt_meant(operation, external_id)
    attempts = {attempt.number for attempt in (operation.newest,) if attempt is not None}
    if receipt is not None:
        attempts.add(receipt.attempt)
    if not attempts:
        return None
    rows = await connection.fetch_all(
        "read_acts",
        {
            "namespace": operation.namespace,
            "run": operation.run,
            "operation": operation.id,
            "most": _MOST_ACTS,
        },
    )
    wanted = {
        EventKind.ATTEMPT_GRANTED.value: ("attempt", attempts),
        EventKind.RECEIPT_RECORDED.value: ("receipt", set() if receipt is None else {receipt.number}),
    }
    shown = []
    for row in reversed(rows):
        try:
            name, numbers = wanted[row["kind"]]
            number = json.loads(row["data"])["number"]
            if number in numbers:
                shown.append({name: number, "at": rfc3339(row["at"]), "by": _by(json.loads(row["caller"]))})
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            # An event that cannot be read shows nobody; the full history names it.
            continue
    return shown or None


def _receipt_meant(operation: Operation, external_id: str | None) -> Receipt | None:
    if external_id is not None:
        named = [receipt for receipt in operation.receipts if receipt.external_id == external_id.strip()]
        if named:
            return named[-1]
    return next(reversed(operation.standing or operation.receipts), None)


def _by(caller: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: caller.get(name) for name in _SHOWN}
    return without_none(
        {
            name: escape_untrusted(value, limit=_LONGEST) if isinstance(value, str) else None
            for name, value in told.items()
        }
        | {"person": True if caller.get("person") is True else None}
    )
