"""Between rows and facts: reads an operation with all that belongs to it, and writes what changed."""

from collections.abc import Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import asdict, fields

from counterfoil.store.domain.events import terms_from_data, terms_to_data, to_data
from counterfoil.store.domain.grants import held_grants
from counterfoil.store.domain.identity import is_operation_id
from counterfoil.store.domain.instants import Instant, is_instant
from counterfoil.store.domain.model import (
    Assurance,
    Attempt,
    Description,
    Finding,
    Operation,
    Outcome,
    Receipt,
    Run,
)
from counterfoil.store.domain.states import deadline_at, state_of
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import JournalUnavailable, RunDamaged
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.stored_json import from_json, to_json

__all__ = [
    "RUN_FACTS",
    "TRUTHS",
    "load_operation",
    "load_operations",
    "misled",
    "plain_columns",
    "refuse_damaged",
    "refuse_lost",
    "rows_are_gone",
    "run_from_row",
    "save_operation",
    "save_run",
    "stand_in_for_lost",
]

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


_ENDS = (None, "completed", "failed", "cancelled")


def run_from_row(row: Row) -> Run:
    """Rebuild a run.

    Raises:
        RunDamaged: the row holds what no event could have written.
    """
    try:
        run = convert({**row, "holder": _party(row["holder"])}, Run)
        if run.last_seq < 0 or run.operations < 0 or run.finished_as not in _ENDS:
            raise ValueError("a value that no command can have written")
        return run
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RunDamaged(escape_untrusted(str(row["run"]), limit=200)) from error


async def save_run(connection: Connection, run: Run) -> None:
    """Write what is known of a run beside its place in the log."""
    row = {name: getattr(run, name) for name in _RUN_COLUMNS}
    row["holder"] = None if run.holder is None else to_json(to_data(run.holder))
    await connection.execute("save_run", row)


async def load_operation(connection: Connection, row: Row | None) -> Operation | None:
    """Read what belongs to an operation's row and rebuild the facts; None where there is no row.

    Rows that hold something that no event could have made are not guessed at: what comes then is damaged
    (`Operation.is_damaged`), in doubt for whoever reads it, and refused by `refuse_damaged` to who writes.
    """
    if row is None:
        return None
    of = {"namespace": row["namespace"], "run": row["run"], "operation": row["id"]}
    try:
        attempts = await connection.fetch_all("read_attempts", of) if row["attempts"] else ()
        receipts = await connection.fetch_all("read_receipts", of) if row["receipts"] else ()
        findings = await connection.fetch_all("read_findings", of) if row["findings"] else ()
        operation = _rebuild(row, attempts, receipts, findings)
        _check_against(row, operation)
        if operation.compensates is not None:
            await _check_compensation(connection, operation)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return _stand_in(row)
    return operation


async def load_operations(connection: Connection, rows: Iterable[Row]) -> tuple[Operation, ...]:
    """Rebuild several operations."""
    loaded = [await load_operation(connection, row) for row in rows]
    return tuple(operation for operation in loaded if operation is not None)


async def refuse_lost(
    connection: Connection, *, namespace: str, run: str, operation: str | None = None
) -> None:
    """Make sure that a run, or an operation, without a row is in no log: absence of a row is no evidence.

    Raises:
        JournalUnavailable: its events are there.
    """
    place = {"namespace": namespace, "run": run}
    statement, what = "first_event_of_run", "this run"
    if operation is not None:
        place, statement, what = {**place, "operation": operation}, "first_event", f"operation {operation}"
    if await connection.fetch_one(statement, place) is not None:
        raise rows_are_gone(what, is_mendable=operation is not None)


def rows_are_gone(what: str, *, is_mendable: bool = True) -> JournalUnavailable:
    """Give the fault of rows that the log, or another table, knows and that are not there."""
    return JournalUnavailable(
        f"{what} is in the log and its row is gone: the journal is corrupt; nothing was recorded, do not "
        "perform the effect",
        fix="keep what you have (receipt, finding); a person "
        + (
            "runs `counterfoil verify`, whose `--repair` makes the row anew where the log is whole, or "
            "restores a backup"
            if is_mendable
            else "restores a backup"
        ),
        recorded=False,
    )


def refuse_damaged(operation: Operation | None) -> None:
    """Make sure that an operation may be written: what its rows hold is still evidence, and nothing is lost.

    Raises:
        JournalUnavailable: its rows cannot be read.
    """
    if operation is not None and operation.is_damaged:
        raise JournalUnavailable(
            f"operation {operation.id} cannot be read: its rows are damaged; NOT stored, do not perform its "
            "effect",
            fix="keep what you have (receipt, finding) and send it again after a person has run `counterfoil "
            "verify`, which tells whether the log is whole and `--repair` can make the rows anew; the other "
            "operations of this journal can still be used",
            recorded=False,
        )


def _check_against(row: Row, operation: Operation) -> None:
    """Hold what was rebuilt against what else the row says, so that a row that is gone is noticed.

    Raises:
        ValueError: they differ.
    """
    described = operation.description
    for name in ("action", "target_folded", "args_digest", "fingerprint"):
        if getattr(described, name) != row[name]:
            raise ValueError(f"the description has another {name}")
    terms = operation.terms
    durations = (
        terms.key_ttl_seconds,
        terms.settle_seconds,
        terms.deadline_seconds,
        terms.max_attempts,
        terms.deadline_over_seconds,
    )
    if not (
        all(value is None or type(value) in (int, float) for value in durations)
        and (described.target is None or type(described.target) is str)
    ):
        raise ValueError("a value is of another type")
    for facts in (operation.attempts, operation.receipts, operation.findings):
        # The first attempt has number 0 where nobody announced it.
        numbers = [fact.number for fact in facts]
        if numbers and numbers not in _counted_from(len(numbers)):
            raise ValueError("rows are numbered otherwise")
    if not (all(map(_is_attempt, operation.attempts)) and all(map(_is_receipt, operation.receipts))):
        raise ValueError("a value that the schema forbids")
    if not all(map(is_operation_id, operation.distinct_from)):
        raise ValueError("a link is no operation's id")
    counted = (len(operation.attempts), len(operation.receipts), len(operation.findings))
    if counted != (row["attempts"], row["receipts"], row["findings"]):
        raise ValueError("rows are missing")
    if row["state"] != state_of(operation, operation.updated_at).value:
        raise ValueError("the facts lead to another state")


def _is_attempt(attempt: Attempt) -> bool:
    """Tell whether an attempt is one that the schema allows, whatever was done to its row since."""
    is_unannounced = attempt.number == 0
    return (
        attempt.generation >= 0
        and is_unannounced == (attempt.generation == 0)
        and is_unannounced == (attempt.holder is None)
        and (attempt.outcome is not Outcome.OPEN or attempt.ended_at is None)
        and attempt.granted_at <= attempt.lease_until
    )


def _is_receipt(receipt: Receipt) -> bool:
    """Tell the same of a receipt."""
    is_evidence = receipt.assurance > Assurance.CLAIMED
    return (
        (not is_evidence or receipt.external_id is not None)
        and (not receipt.is_accepted or (is_evidence and receipt.final and not receipt.is_foreign))
        and (receipt.satisfies is None or type(from_json(receipt.satisfies)) is dict)
    )


def _counted_from(most: int) -> tuple[list[int], list[int]]:
    return list(range(1, most + 1)), list(range(most))


def misled(operation: Operation) -> Operation:
    """Give what stands for an operation that refers to what was never there: its links are damaged."""
    return _stand_in({**dict.fromkeys(_STOOD_FOR), **plain_columns(operation)})


async def _check_compensation(connection: Connection, operation: Operation) -> None:
    """Hold what an operation undoes against the table in which that is looked for.

    Raises:
        ValueError: they differ.
    """
    place = {"namespace": operation.namespace, "operation": operation.id, "original": operation.compensates}
    if await connection.fetch_one("read_compensation", place) is None:
        raise ValueError("the operation undoes what it was not begun to undo")


def stand_in_for_lost(*, namespace: str, run: str, operation: str, replayed: Operation | None) -> Operation:
    """Give what stands for an operation whose row is gone, with what its log tells of it, if it is read."""
    told: dict[str, Any] = dict.fromkeys(_STOOD_FOR) if replayed is None else plain_columns(replayed)
    return _stand_in({**told, "namespace": namespace, "run": run, "id": operation})


_STOOD_FOR = (
    "key",
    "position",
    "created_at",
    "updated_at",
    "since_floor",
    "attempts",
    "action",
    "target_folded",
    "args_digest",
    "fingerprint",
    "compensates",
)
"""What a stand-in keeps of an operation's row."""


def _stand_in(row: Row) -> Operation:
    """Give what stands for an operation whose rows are damaged: an effect that may have happened.

    What it is, as far as its columns tell, is kept, so that the same effect is not granted under another key.
    """

    def text(name: str) -> str:
        value = row[name]
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")

    def number(name: str) -> int:
        return row[name] if is_instant(row[name]) else 0

    at = number("updated_at")
    attempt = Attempt(
        number=max(1, number("attempts")),
        generation=1,
        reason="damaged",
        granted_at=at,
        lease_until=at,
        ended_at=at,
        outcome=Outcome.UNKNOWN,
    )
    return Operation(
        namespace=text("namespace"),
        run=text("run"),
        key=text("key"),
        id=text("id"),
        position=number("position"),
        created_at=number("created_at"),
        updated_at=at,
        since_floor=number("since_floor"),
        description=Description(
            action=text("action"),
            target_folded=text("target_folded"),
            args_digest=text("args_digest") or None,
            fingerprint=text("fingerprint"),
        ),
        compensates=text("compensates") or None,
        attempts=(attempt,),
        is_damaged=True,
    )


def _rebuild(
    row: Row, attempts: Sequence[Row], receipts: Sequence[Row], findings: Sequence[Row]
) -> Operation:
    """Make the facts of rows; each value has to be of its field's type, or no event can have written it."""
    types = set(map(type, row.values()))
    if bytes in types or (float in types and type(row["progress_fraction"]) is not float):
        raise ValueError("a value is garbled, or of another type than its column")
    links, clock = from_json(row["links"]), from_json(row["clock"])
    if not all(type(part) is list for part in links.values()):
        raise ValueError("links are lists")
    facts = {
        **row,
        **links,
        "description": Description(**from_json(row["description"])),
        "began": _party(row["began"]),
        "terms": terms_from_data(from_json(row["terms"])),
        "attempts": [_attempt(attempt) for attempt in attempts],
        "receipts": [_with_truths(receipt, Receipt) for receipt in receipts],
        "findings": [{**_with_truths(finding, Finding), "by": finding["found_by"]} for finding in findings],
        "decision": None
        if row["decision"] is None
        else {
            "outcome": row["decision"],
            "at": row["decided_at"],
            "by": row["decided_by"],
            "reason": row["decision_reason"],
        },
        "dispute": None if row["dispute"] is None else {"kind": row["dispute"], "at": row["disputed_at"]},
        "clock_boot": clock.get("boot"),
        "clock_offset": clock.get("offset"),
        "clock_at": clock.get("at"),
    }
    return convert(facts, Operation)


def _party(text: str | None) -> dict[str, Any] | None:
    """Read a party as it is stored, without what is None."""
    return None if text is None else {"conversation": None, **from_json(text)}


def _attempt(row: Row) -> dict[str, Any]:
    holder = None if row["principal"] is None else row
    return {**_with_truths(row, Attempt), "holder": holder}


TRUTHS = {0: False, 1: True}
"""What a column that tells true from false may hold; nothing else stands for either."""


def _with_truths(row: Row, kind: type[Struct]) -> dict[str, Any]:
    """Give a row in which the 0 and 1 that stand for false and true are these."""
    return {**row, **{name: TRUTHS[row[name]] for name in _truths_of(kind)}}


@cache
def _truths_of(kind: type[Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.type is bool)


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
    for name in _truths_of(fact.__class__):
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


_LINKS = ("depends_on", "satisfies", "distinct_from")
_CLOCK = {"boot": "clock_boot", "offset": "clock_offset", "at": "clock_at"}
_PROGRESS = ("progress_message", "progress_fraction", "checkpoint", "progressed_at", "asked_context")
_progress = attrgetter(*_PROGRESS)
_told = attrgetter("terms", "began", *_LINKS, *_CLOCK.values(), *_PROGRESS)


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
