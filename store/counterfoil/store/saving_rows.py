"""From facts to rows: writes what changed of an operation, and what is known of a run."""

from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from counterfoil.store.damaged_rows import refuse_damaged
from counterfoil.store.domain.events import terms_to_data, to_data
from counterfoil.store.domain.grants import held_grants
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Assurance, Attempt, Finding, Operation, Receipt, Run
from counterfoil.store.domain.states import deadline_at, state_of
from counterfoil.store.protocol import Connection
from counterfoil.store.rows import truths_of
from counterfoil.store.stored_json import to_json

__all__ = ["RUN_FACTS", "plain_columns", "save_operation", "save_run"]

RUN_FACTS = (
    "finished_as",
    "begun_at",
    "goal",
    "spec_uri",
    "spec_digest",
    "parent",
    "schedule_name",
    "schedule_occurrence",
    "context",
    "offered",
    "criteria",
    "holder",
    "holder_name",
    "held_until",
    "finished_at",
    "finish_reason",
    "progress_message",
    "progress_fraction",
    "checkpoint",
)
"""What a run's own events say of it; its workflow may also be named by begin_operation."""

_RUN_COLUMNS = ("namespace", "run", "workflow", "workflow_version", *RUN_FACTS)

_LINKS = ("depends_on", "satisfies", "distinct_from")
_CLOCK = {"boot": "clock_boot", "offset": "clock_offset", "at": "clock_at"}
_PROGRESS = ("progress_message", "progress_fraction", "checkpoint", "progressed_at", "asked_context")
_progress = attrgetter(*_PROGRESS)
_told = attrgetter("terms", "began", *_LINKS, *_CLOCK.values(), *_PROGRESS)


async def save_run(connection: Connection, run: Run) -> None:
    """Write what is known of a run beside its place in the log."""
    row = {name: getattr(run, name) for name in _RUN_COLUMNS}
    row["holder"] = None if run.holder is None else to_json(to_data(run.holder))
    await connection.execute("save_run", row)


async def save_operation(
    connection: Connection, before: Operation | None, after: Operation, now: Instant
) -> None:
    """Write the rows of an operation that differ from what they were before."""
    refuse_damaged(before)
    place = {"namespace": after.namespace, "run": after.run, "operation": after.id}
    if before is None or before.description != after.description or before.compensates != after.compensates:
        row = {**_described_row(after), **_told_row(after), **_standing_row(after, now)}
        await connection.execute("save_operation", row)
    else:
        name = {"namespace": after.namespace, "run": after.run, "key": after.key}
        await connection.execute("update_operation", {**name, **_standing_row(after, now)})
        if _told(before) != _told(after):
            await connection.execute("retell_operation", {**name, **_told_row(after)})
    if before is None or before.description.fingerprint != after.description.fingerprint:
        await connection.execute("save_fingerprint", {**place, "fingerprint": after.description.fingerprint})
    if after.compensates is not None and (before is None or before.compensates is None):
        await connection.execute("save_compensation", {**place, "original": after.compensates})
    old_attempts = {} if before is None else {attempt.number: attempt for attempt in before.attempts}
    for attempt in after.attempts:
        if old_attempts.get(attempt.number) != attempt:
            await connection.execute("save_attempt", {**place, **_attempt_row(attempt)})
    old_receipts = {} if before is None else {receipt.number: receipt for receipt in before.receipts}
    for receipt in after.receipts:
        if old_receipts.get(receipt.number) != receipt:
            await _save_receipt(connection, place, receipt)
    for finding in after.findings[0 if before is None else len(before.findings) :]:
        await connection.execute("save_finding", {**place, **_finding_row(finding)})
    old_uses = {} if before is None else held_grants(before)
    for grant, is_held in held_grants(after).items():
        if old_uses.get(grant) != is_held:
            await connection.execute("save_grant_use", {**place, "grant_id": grant, "is_held": int(is_held)})


async def _save_receipt(connection: Connection, place: dict[str, str], receipt: Receipt) -> None:
    row = _plain(receipt)
    await connection.execute("save_receipt", {**place, **row, "assurance": int(receipt.assurance)})
    if receipt.external_id is not None and receipt.assurance > Assurance.CLAIMED:
        await connection.execute(
            "save_external_id",
            {
                **place,
                "external_id": receipt.external_id,
                "kind": receipt.kind,
                "system": receipt.system,
                "stands": int(not (receipt.is_foreign or receipt.is_set_aside)),
            },
        )


def _plain(fact: Struct) -> dict[str, Any]:
    """Give the columns of a fact that has one for each of its fields."""
    row = asdict(fact)
    for name in truths_of(fact.__class__):
        row[name] = int(row[name])
    return row


def _attempt_row(attempt: Attempt) -> dict[str, Any]:
    row, holder = _plain(attempt), attempt.holder
    del row["holder"]
    row["outcome"] = attempt.outcome.value
    return {
        **row,
        "principal": None if holder is None else holder.principal,
        "conversation": None if holder is None else holder.conversation,
        "connection": None if holder is None else holder.connection,
    }


def _finding_row(finding: Finding) -> dict[str, Any]:
    row = _plain(finding)
    row["found_by"] = row.pop("by")
    return row


def _described_row(operation: Operation) -> dict[str, Any]:
    """What the operation is: fixed with its creation, except while nothing was granted."""
    description = operation.description
    return {
        "namespace": operation.namespace,
        "run": operation.run,
        "key": operation.key,
        "id": operation.id,
        "position": operation.position,
        "created_at": operation.created_at,
        "since_floor": operation.since_floor,
        "action": description.action,
        "target_folded": description.target_folded,
        "args_digest": description.args_digest,
        "fingerprint": description.fingerprint,
        "compensates": operation.compensates,
        "description": to_json(to_data(description)),
    }


def plain_columns(operation: Operation) -> dict[str, Any]:
    """Give the columns that are no JSON, as a row written at the operation's last event has them."""
    row = {**_described_row(operation), **_standing_row(operation, operation.updated_at)}
    del row["description"]
    return row


def _told_row(operation: Operation) -> dict[str, Any]:
    """What calls said beside the description; most commands leave it as it is."""
    links = {name: part for name in _LINKS if (part := getattr(operation, name))}
    clock = {name: part for name, of in _CLOCK.items() if (part := getattr(operation, of)) is not None}
    return {
        "terms": to_json(terms_to_data(operation.terms)),
        "links": to_json(links) if links else "{}",
        "began": None if operation.began is None else to_json(to_data(operation.began)),
        "clock": to_json(clock),
        **dict(zip(_PROGRESS, _progress(operation), strict=True)),
    }


def _standing_row(operation: Operation, now: Instant) -> dict[str, Any]:
    """How it stands: what every command may change."""
    decision, dispute, newest = operation.decision, operation.dispute, operation.newest
    return {
        "updated_at": operation.updated_at,
        "state": state_of(operation, now).value,
        "attempts": len(operation.attempts),
        "receipts": len(operation.receipts),
        "findings": len(operation.findings),
        "standing_receipts": len(operation.standing),
        "dispute": None if dispute is None else dispute.kind.value,
        "disputed_at": None if dispute is None else dispute.at,
        "decision": None if decision is None else decision.outcome.value,
        "decided_at": None if decision is None else decision.at,
        "decided_by": None if decision is None else decision.by,
        "decision_reason": None if decision is None else decision.reason,
        "lease_until": None if newest is None else newest.lease_until,
        "deadline_at": deadline_at(operation),
        "acknowledged_at": operation.acknowledged_at,
        "settle_restart_at": operation.settle_restart_at,
        "set_back": operation.set_back,
    }
