"""From rows to facts: reads a run, or an operation with all that belongs to it, and notices damage."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import fields

from counterfoil.store.damaged_rows import stand_in
from counterfoil.store.domain.events import terms_from_data
from counterfoil.store.domain.identity import is_operation_id
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
from counterfoil.store.domain.states import state_of
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import RunDamaged
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.stored_json import from_json

__all__ = ["TRUTHS", "load_operation", "load_operations", "run_from_row", "truths_of"]

_ENDS = (None, "completed", "failed", "cancelled")

TRUTHS = {0: False, 1: True}
"""What a column that tells true from false may hold; nothing else stands for either."""


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
        return stand_in(row)
    return operation


async def load_operations(connection: Connection, rows: Iterable[Row]) -> tuple[Operation, ...]:
    """Rebuild several operations."""
    loaded = [await load_operation(connection, row) for row in rows]
    return tuple(operation for operation in loaded if operation is not None)


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


async def _check_compensation(connection: Connection, operation: Operation) -> None:
    """Hold what an operation undoes against the table in which that is looked for.

    Raises:
        ValueError: they differ.
    """
    place = {"namespace": operation.namespace, "operation": operation.id, "original": operation.compensates}
    if await connection.fetch_one("read_compensation", place) is None:
        raise ValueError("the operation undoes what it was not begun to undo")


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


def _with_truths(row: Row, kind: type[Struct]) -> dict[str, Any]:
    """Give a row in which the 0 and 1 that stand for false and true are these."""
    return {**row, **{name: TRUTHS[row[name]] for name in truths_of(kind)}}


@cache
def truths_of(kind: type[Struct]) -> tuple[str, ...]:
    """Name the fields of a kind of fact that are true or false, which a column holds as 1 or 0."""
    return tuple(field.name for field in fields(kind) if field.type is bool)
