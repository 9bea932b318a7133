"""Finds what a command speaks of, and what lies around it; nothing is guessed and nothing created here."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from counterfoil.store.damaged_rows import misled, refuse_lost, rows_are_gone, stand_in_for_lost
from counterfoil.store.domain.canonical import digest
from counterfoil.store.domain.commands import Criterion
from counterfoil.store.domain.criteria import criteria_from_text, misnamed
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.identity import operation_id
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.lookalikes import is_of_conversation
from counterfoil.store.domain.model import Operation, Party, Run
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import Ambiguous, BodyDamaged, InvalidArgument, NotFound
from counterfoil.store.preparing import Reference
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.replaying import events_by_operation, replay
from counterfoil.store.rows import load_operation, load_operations
from counterfoil.store.stored_json import to_json

if TYPE_CHECKING:
    from counterfoil.store.domain.begin import BeginGiven
    from counterfoil.store.domain.failures import FailureFacts

__all__ = [
    "as_recorded",
    "criteria_of",
    "dependencies_of",
    "has_claimed",
    "has_decided",
    "last_compaction",
    "look_alike_terms",
    "lost_of_key",
    "misnamed_in",
    "no_such_run",
    "of_key",
    "operation_or_fault",
    "operation_to_look_at",
    "original_of",
    "read_body",
    "runs_named_alike",
    "satisfying_in",
    "was_called",
    "warnings_of_others",
]

_NEW_OR_DONE = (
    "an effect still to come is announced by begin_operation, one that was performed already is kept by "
    "record_receipt with run, key and action"
)
"""Whoever holds a receipt must not read that there is something to begin."""
_ALIKE = 0.6
"""From which likeness on (twice the characters in common by those of both) a name may be meant by another."""
_SHORTEST_PART = 3
_MOST_CANDIDATES = 8
_MOST_ALIKE = 3
_MOST_DEPENDENCIES = 1_000
_MOST_OPEN = 5
_MOST_ELSEWHERE = 3
_MOST_NEAR = 100
"""So many keys on either side are compared with one that is not there; a run may have many more."""


async def operation_or_fault(
    connection: Connection, namespace: str, ref: Reference, *, must_exist: bool
) -> Operation | None:
    """Read the operation that is meant.

    Raises:
        Ambiguous: a run is named and not the key: which of its operations is meant is never guessed.
        NotFound: it does not exist though it must; the nearest ones are listed.
        JournalUnavailable: its row is gone, and the log knows it.
    """
    row = await _row_of(connection, namespace, ref)
    if row is None and ref.run is not None:
        await refuse_lost(connection, namespace=namespace, run=ref.run, operation=ref.id)
    if row is None and must_exist:
        if ref.run is None and await _run_of_log(connection, namespace, ref) is not None:
            raise rows_are_gone(f"operation {ref.id}")
        raise await _no_such_operation(connection, namespace, ref)
    return await load_operation(connection, row)


async def operation_to_look_at(connection: Connection, namespace: str, ref: Reference) -> Operation:
    """Read the operation that is meant, for whoever changes nothing.

    One whose row is gone while the log knows it comes as one that is damaged: it may have happened.

    Raises:
        Ambiguous, NotFound: as `operation_or_fault`.
    """
    row = await _row_of(connection, namespace, ref)
    operation = await load_operation(connection, row)
    if operation is not None:
        return operation
    lost = await _lost(connection, namespace, ref)
    if lost is None:
        raise await _no_such_operation(connection, namespace, ref)
    return lost


async def of_key(connection: Connection, namespace: str, run: str, key: str) -> Operation | None:
    """Read the operation of a key that another names.

    One whose row is gone while the log knows it comes as one that is damaged; None where no log does.
    """
    row = await connection.fetch_one("read_operation", {"namespace": namespace, "run": run, "key": key})
    if row is not None:
        return await load_operation(connection, row)
    return await lost_of_key(connection, namespace, run, key)


async def lost_of_key(connection: Connection, namespace: str, run: str, key: str) -> Operation | None:
    """Give what stands for the operation of a key that has no row; None where no log knows one."""
    ref = Reference(id=operation_id(namespace, run, key), run=run, key=key)
    lost = await _lost(connection, namespace, ref)
    # A log that cannot be replayed has no key to give.
    return None if lost is None else replace(lost, key=key)


async def original_of(connection: Connection, namespace: str, operation: str) -> Operation | None:
    """Read what an undoing is to undo; one whose row is gone comes as `of_key` gives it."""
    ref = Reference(id=operation)
    row = await _row_of(connection, namespace, ref)
    return await load_operation(connection, row) or await _lost(connection, namespace, ref)


async def _lost(connection: Connection, namespace: str, ref: Reference) -> Operation | None:
    """Give what stands for an operation whose row is gone; None where no log knows it."""
    run = await _run_of_log(connection, namespace, ref)
    if run is None:
        return None
    place = {"namespace": namespace, "run": run, "operation": ref.id}
    events, _ = events_by_operation(await connection.fetch_all("audit_operation_events", place))
    replayed = replay(events.get(ref.id, ()))
    return stand_in_for_lost(namespace=namespace, run=run, operation=ref.id, replayed=replayed)


async def _row_of(connection: Connection, namespace: str, ref: Reference) -> Row | None:
    """Read the row of the operation that is meant.

    Raises:
        Ambiguous, NotFound: a run is named and not the key.
    """
    if ref.run is None:
        return await connection.fetch_one("read_operation_by_id", {"namespace": namespace, "id": ref.id})
    if ref.key is None:
        raise await _which_of_run(connection, namespace, ref.run)
    place = {"namespace": namespace, "run": ref.run, "key": ref.key}
    return await connection.fetch_one("read_operation", place)


async def _run_of_log(connection: Connection, namespace: str, ref: Reference) -> str | None:
    """Give the run whose log knows an operation; None where no log does."""
    place = {"namespace": namespace, "operation": ref.id}
    if ref.run is not None:
        row = await connection.fetch_one("first_event", {**place, "run": ref.run})
        return None if row is None else ref.run
    row = await connection.fetch_one("run_of_log", place)
    return None if row is None else str(row["run"])


async def _no_such_operation(connection: Connection, namespace: str, ref: Reference) -> NotFound:
    if ref.run is None:
        rows = await connection.fetch_all(
            "latest_operations", {"namespace": namespace, "most": _MOST_CANDIDATES}
        )
        return NotFound(
            f"there is no operation {ref.id}; nothing was created",
            fix="use an id that begin_operation or resume_plan gave you, or name it by run and key",
            candidates=[_candidate(row) for row in rows],
            listed="changed last",
        )
    place = {"namespace": namespace, "run": ref.run}
    if await connection.fetch_one("read_run", place) is None:
        return await no_such_run(connection, namespace, ref.run)
    key = ref.key or ""
    rows = await connection.fetch_all("near_keys", {**place, "key": key, "most": _MOST_NEAR})
    near = _nearest(key, [row["key"] for row in rows])
    candidates = [row for row in rows if row["key"] in near]
    return NotFound(
        "this run has no operation of that key; nothing was created",
        fix=f"use a key that resume_plan lists; {_NEW_OR_DONE}",
        candidates=[_candidate(row) for row in candidates or rows[:_MOST_CANDIDATES]],
        listed="near" if candidates else "in this run",
    )


async def _which_of_run(connection: Connection, namespace: str, run: str) -> NotFound:
    """Make the fault for a run named without a key, with the operations that may be meant."""
    place = {"namespace": namespace, "run": run}
    if await connection.fetch_one("read_run", place) is None:
        return await no_such_run(connection, namespace, run)
    rows = await connection.fetch_all("open_operations", {**place, "most": _MOST_CANDIDATES})
    if not rows:
        rows = (await connection.fetch_all("read_operations", place))[-_MOST_CANDIDATES:]
    return Ambiguous(
        "a run has many operations: which one is meant is not guessed; nothing was recorded",
        fix="name the operation by its id, or by run and key",
        candidates=[_candidate(row) for row in rows],
        listed="in this run",
    )


async def no_such_run(connection: Connection, namespace: str, run: str) -> NotFound:
    """Make the fault for a run that is not there, with the nearest names, else those touched last.

    Raises:
        JournalUnavailable: only its row is not there.
    """
    await refuse_lost(connection, namespace=namespace, run=run)
    rows = await connection.fetch_all("near_runs", {"namespace": namespace, "most": 200})
    names = [row["run"] for row in rows]
    near = _nearest(run, names)
    return NotFound(
        "there is no run of that name; nothing was created",
        fix=f"use a run that resume_plan lists; {_NEW_OR_DONE}",
        candidates=[escape_untrusted(name, limit=200) for name in near or names[:_MOST_CANDIDATES]],
        listed="near" if near else "touched last",
    )


async def runs_named_alike(connection: Connection, namespace: str, run: str) -> list[str]:
    """Name the open runs that a new one may be meant for: a name remembered wrongly begins another run."""
    rows = await connection.fetch_all("near_open_runs", {"namespace": namespace, "most": 200})
    names = [row["run"] for row in rows if row["run"] != run]
    return [escape_untrusted(name, limit=200) for name in _nearest(run, names)[:_MOST_ALIKE]]


def _nearest(name: str, names: list[str]) -> list[str]:
    # Loaded where a name is not found; a hook, which is started for every call, never asks.
    from difflib import get_close_matches

    folded = name.casefold()
    spelled = {other: other.casefold() for other in names}
    close = get_close_matches(folded, spelled.values(), n=_MOST_CANDIDATES, cutoff=_ALIKE)
    # A part of a name is how it is remembered, and shares little with a long one.
    holding = [other for other in names if folded in spelled[other]] if len(folded) >= _SHORTEST_PART else []
    found = [other for alike in close for other in names if spelled[other] == alike]
    return list(dict.fromkeys((*found, *holding)))[:_MOST_CANDIDATES]


def _candidate(row: Row) -> str:
    key, run = (escape_untrusted(row[name], limit=200) for name in ("key", "run"))
    return f"{row['id']} ({row['state']}): key {key} in run {run}"


async def dependencies_of(
    connection: Connection, namespace: str, run: str, keys: tuple[str, ...], *, key: str
) -> Mapping[str, Operation]:
    """Read the operations that `key` waits for, and the ones that they wait for, by key.

    One that waits for what is not there, and one whose row is gone, comes as one that is damaged.

    Raises:
        InvalidArgument: one of `keys` that the run does not have, or a circle.
    """
    found: dict[str, Operation] = {}
    waiting: list[tuple[str, str | None]] = [(name, None) for name in dict.fromkeys(keys)]
    while waiting and len(found) < _MOST_DEPENDENCIES:
        name, asker = waiting.pop()
        if name == key:
            raise InvalidArgument(
                "depends_on", "is a circle: a step would wait for itself", accepted="steps that go first"
            )
        if name in found:
            continue
        operation = await of_key(connection, namespace, run, name)
        if operation is None and asker is not None:
            found[asker] = misled(found[asker])
            continue
        if operation is None:
            raise InvalidArgument(
                "depends_on",
                f"names a key that this run does not have: {escape_untrusted(name, limit=200)}",
                accepted="keys of operations of the same run",
            )
        found[name] = operation
        waiting += [(other, name) for other in operation.depends_on]
    return found


async def has_decided(connection: Connection, operation: Operation, call_id: str | None) -> bool:
    """Tell whether the call of that id has taken a decision on an operation: the log keeps who took it."""
    if call_id is None:
        return False
    rows = await connection.fetch_all(
        "read_operation_events",
        {"namespace": operation.namespace, "run": operation.run, "operation": operation.id},
    )
    return any(
        row["kind"] == EventKind.DECIDED.value and json.loads(row["caller"]).get("call_id") == call_id
        for row in rows
    )


async def has_claimed(connection: Connection, operation: Operation, given: "FailureFacts") -> bool:
    """Tell whether this very failure was claimed before: again, it would only make the log longer."""
    rows = await connection.fetch_all(
        "read_operation_events",
        {"namespace": operation.namespace, "run": operation.run, "operation": operation.id},
    )
    claimed = (given.attempt, given.effect, given.error, given.evidence_digest)
    names = ("attempt", "effect", "error", "evidence_digest")
    return any(
        row["kind"] == EventKind.FAILURE_CLAIMED.value
        and tuple(map(json.loads(row["data"]).get, names)) == claimed
        for row in rows
    )


async def was_called(
    connection: Connection, *, namespace: str, run: str, operation: str, kind: EventKind, call_id: str | None
) -> bool:
    """Tell whether the call of that id was carried out before; `operation` is empty for the run itself."""
    if call_id is None:
        return False
    row = await connection.fetch_one(
        "called_before",
        {
            "namespace": namespace,
            "run": run,
            "operation": operation,
            "kind": kind.value,
            "call_id": to_json({"call_id": call_id})[1:-1],
        },
    )
    return row is not None


async def read_body(connection: Connection, owner: Operation | Run, name: str) -> str | None:
    """Read the JSON text of a body by its digest; None where it was removed.

    Raises:
        BodyDamaged: it is not the text that was recorded.
    """
    row = await connection.fetch_one(
        "read_body", {"namespace": owner.namespace, "run": owner.run, "digest": name}
    )
    return None if row is None else as_recorded(row["body"], name, what="a body")


def as_recorded(text: object, name: str, *, what: str) -> str:
    """Give a text that was kept under its digest.

    Raises:
        BodyDamaged: it is another text, or none.
    """
    if not isinstance(text, str) or digest(text) != name:
        raise BodyDamaged(what)
    return text


async def criteria_of(connection: Connection, run: Run | None) -> tuple[Criterion, ...]:
    """Read the criteria that a run is held against."""
    if run is None or run.criteria is None:
        return ()
    return criteria_from_text(await read_body(connection, run, run.criteria))


async def misnamed_in(connection: Connection, run: Run | None, ids: Iterable[str]) -> tuple[str, ...]:
    """Warn of ids that are no criteria of `run`; where its criteria cannot be read nobody can know."""
    ids = tuple(ids)
    with suppress(BodyDamaged):
        return misnamed(ids, await criteria_of(connection, run)) if ids else ()
    return ()


async def satisfying_in(connection: Connection, place: Mapping[str, str]) -> tuple[Operation, ...]:
    """Read the operations of a run that criteria are judged by."""
    return await load_operations(connection, await connection.fetch_all("read_satisfying_operations", place))


def look_alike_terms(given: "BeginGiven | Operation") -> dict[str, str | None]:
    """Give what `look_alikes` compares the operations of a run with."""
    return {
        "namespace": given.namespace,
        "run": given.run,
        "id": given.id,
        "action": given.description.action,
        "fingerprint": given.description.fingerprint,
        "target_folded": given.description.target_folded,
        "args_digest": given.description.args_digest,
    }


async def last_compaction(
    connection: Connection, namespace: str, alike: Iterable[Operation], party: Party
) -> Instant | None:
    """Tell when a conversation was last compacted; None where it never was, or began none of `alike`.

    Only what it began itself is judged by that, so that nothing is read otherwise.
    """
    if party.conversation is None or not any(is_of_conversation(other, party) for other in alike):
        return None
    place = {"namespace": namespace, "conversation": party.conversation}
    row = await connection.fetch_one("read_compaction", place)
    return None if row is None else int(row["compacted_at"])


async def warnings_of_others(
    connection: Connection, operation: Operation, party: Party, *, is_new: bool
) -> list[str]:
    """Name the caller's other operations that are open without an outcome, and the same effect elsewhere."""
    place = {"namespace": operation.namespace, "run": operation.run}
    rows = await connection.fetch_all(
        "open_of_holder",
        {
            **place,
            "id": operation.id,
            "principal": party.principal,
            "conversation": party.conversation,
            "connection": party.connection,
        },
    )
    rows = sorted(rows, key=itemgetter("position"), reverse=True)
    warnings = [
        f"open without an outcome: {row['id']} ({escape_untrusted(row['key'], limit=200)}): "
        "record its receipt or failure"
        for row in rows[:_MOST_OPEN]
    ]
    if len(rows) > _MOST_OPEN:
        warnings.append("there are more: resume_plan shows them")
    if is_new:
        rows = await connection.fetch_all(
            "same_effect_elsewhere", {**place, "fingerprint": operation.description.fingerprint}
        )
        warnings += [
            f"the same effect was begun in another run: {row['operation']} "
            f"(in {escape_untrusted(row['run'], limit=200)}); if this run is that work under another name, "
            "do not perform it here"
            for row in rows[:_MOST_ELSEWHERE]
        ]
        if len(rows) > _MOST_ELSEWHERE:
            warnings.append("there are more: find_operations shows them")
    return warnings
