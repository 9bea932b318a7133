"""Builds a large journal in minutes: every operation is a copy of one that the journal itself has written.

    uv run python bench/large_journal.py FILE [--operations N]

A small journal is written through the journal's own commands: a run for each way in which a run may stand, an
operation for each way in which an operation may. Their rows and events are copied under other names, with the
ids, digests and times that these names have, and the log of each run is chained anew. `counterfoil verify`
holds on the result, and every command answers on it as it would have.
"""

import argparse
import json
import re
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from counterfoil.store.chain import event_hash, genesis
from counterfoil.store.domain.canonical import canonical_json, digest, fingerprint, plain_json
from counterfoil.store.domain.commands import (
    BeginOperation,
    BeginRun,
    Caller,
    CloseOperation,
    FinishRun,
    Lookup,
    OperationRef,
    PlanStep,
    ReceiptGiven,
    ReconcileOperation,
    RecordFailure,
    RecordReceipt,
)
from counterfoil.store.domain.identity import operation_id
from counterfoil.store.domain.instants import Reading
from counterfoil.store.domain.names import fold_target
from counterfoil.store.domain.states import Policy
from counterfoil.store.journal import Journal
from counterfoil.store.opening import Fresh, open_journal
from counterfoil.store.redact import Redactor

__all__ = ["NAMESPACE", "BuiltRun", "Effect", "build", "effect_of", "run_sizes"]

NAMESPACE = "default"
SETTLED = (*("succeeded",) * 97, "late_success", "cancelled", "compensated")
"""How settled operations came to be so, in a hundred."""
OPEN = ("in_doubt", "planned", "failed", "disputed")
"""The states of the open ones of a run in turn."""
MOST_OPEN = 20
"""At most so many operations of an open run are open, and at most a fifth of them."""
OPEN_RUNS = 10
"""One run in so many is open, and the largest."""
SPAN_SECONDS = 90 * 86_400
"""Over how long the operations are spread; the last is a day old."""

_CALLER = Caller(connection="bench-connection", conversation="bench-conversation", client="bench")
_PERSON = Caller(connection="bench-terminal", client="counterfoil", is_person=True)
_WHEN = 1_234_567_890_123_456
"""When the copied operations were written: every number near it is a time."""
MODELS = {"model-finished": tuple(dict.fromkeys(SETTLED)), "model-open": tuple(dict.fromkeys(SETTLED + OPEN))}
"""The runs that are copied, and which operations each has."""
_TABLES = ("operations", "attempts", "receipts", "findings", "external_ids", "fingerprints", "events")
_PRAGMAS = ("synchronous=OFF", "journal_mode=OFF", "cache_size=-2000000", "foreign_keys=OFF")
"""The file is thrown away where the building fails, and only then."""
_ORDER = (
    "runs",
    "operations",
    "attempts",
    "receipts",
    "findings",
    "events",
    "bodies",
    "external_ids",
    "fingerprints",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What an operation of a built journal is; whoever begins it again gives exactly this."""

    run: str
    key: str
    action: str
    target: str
    args: dict[str, Any]
    payload: str
    reference: str


def effect_of(run: str, number: int) -> Effect:
    """Give the effect under the `number`th key of a run."""
    key = f"mail:customer-{number:06}"
    return Effect(
        run=run,
        key=key,
        action="mail.send",
        target=f"Customer-{number:06}.{run}@example.org",
        args={"subject": "Your invoice", "invoice": f"{run}/{number}"},
        payload=f"Dear customer {number}, please find enclosed the invoice of {run}.",
        reference=f"<{run}-{number}@mail.example.org>",
    )


def run_sizes(operations: int) -> Iterator[int]:
    """Give the sizes of the runs: one large, a fifth of all in runs of 1,000, the rest in small ones."""
    left = operations
    large = min(100_000, operations // 10)
    for size, share in ((large, large), (1_000, operations // 5), (100, operations * 2 // 5)):
        for _ in range(share // size if size else 0):
            left -= size
            yield size
    while left > 0:
        yield min(10, left)
        left -= 10


class _Clock:
    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self) -> Reading:
        return Reading(at=self.at)


async def _write_models(journal: Journal, clock: _Clock) -> None:
    """Write one run that is finished and one that is open, each with an operation in every wanted state."""

    async def begin(effect: Effect, **fields: Any) -> int:
        answer = await journal.begin_operation(
            BeginOperation(
                run=effect.run,
                key=effect.key,
                action=effect.action,
                target=effect.target,
                args=effect.args,
                payload=effect.payload,
                lookup=Lookup(tool="search_sent", instructions="look into the list of what was sent"),
                **fields,
            ),
            _CALLER,
        )
        return int(answer["attempt"])

    async def receipt(effect: Effect, reference: str | None = None) -> None:
        given = ReceiptGiven(
            kind="message", system="smtp", external_id=reference or effect.reference, evidence={"status": 250}
        )
        await journal.record_receipt(RecordReceipt(ref=_ref(effect), receipt=given), _CALLER)

    async def failure(effect: Effect, effect_seen: str) -> None:
        evidence = {"status": 400} if effect_seen == "none" else None
        await journal.record_failure(
            RecordFailure(
                ref=_ref(effect), attempt=1, effect=effect_seen, error="connection reset", evidence=evidence
            ),
            _CALLER,
        )

    async def write(state: str, effect: Effect) -> None:
        if state == "planned":
            step = PlanStep(
                key=effect.key,
                action=effect.action,
                target=effect.target,
                args=effect.args,
                payload=effect.payload,
            )
            await journal.begin_run(BeginRun(run=effect.run, plan=(step,), lease_seconds=1), _CALLER)
            return
        await begin(effect)
        clock.at += 2_000_000
        if state in ("succeeded", "compensated", "disputed"):
            await receipt(effect)
        if state in ("late_success", "in_doubt"):
            await failure(effect, "unknown")
        if state in ("failed", "cancelled"):
            await failure(effect, "none")
        if state == "disputed":
            await receipt(effect, "second-" + effect.reference)
        if state == "cancelled":
            await journal.close_operation(
                CloseOperation(ref=_ref(effect), outcome="cancelled", reason="given up"), _CALLER
            )
        if state in ("late_success", "compensated"):
            undone = ReceiptGiven(kind="message", system="smtp", external_id="undo-" + effect.reference)
            found = ReceiptGiven(kind="message", system="smtp", external_id=effect.reference)
            is_late = state == "late_success"
            await journal.reconcile_operation(
                ReconcileOperation(
                    ref=_ref(effect),
                    finding="performed" if is_late else "compensated",
                    checked_with="search_sent",
                    receipt=found if is_late else undone,
                ),
                _PERSON,
            )

    for run, states in MODELS.items():
        await journal.begin_run(
            BeginRun(
                run=run, workflow="invoicing", workflow_version="7", goal="all invoices", lease_seconds=1
            ),
            _CALLER,
        )
        clock.at += 2_000_000
        for number, state in enumerate(states):
            await write(state, effect_of(run, number))
            clock.at += 2_000_000
        if run == "model-finished":
            answer = await journal.finish_run(FinishRun(run=run, outcome="completed"), _CALLER)
            assert answer["next"] == "continue", answer


def _ref(effect: Effect) -> OperationRef:
    return OperationRef(run=effect.run, key=effect.key)


class _Form:
    """Rows of several tables as one JSON text, with gaps for what differs between copies."""

    _OWN = r'\b1234\d{12}\b|(?<=position\\":)\d+|(?<="position": )\d+'
    """Times, and the place of an operation in its run."""

    def __init__(self, rows: dict[str, list[dict[str, Any]]], named: dict[str, str]) -> None:
        """Cut the text at each of the values in `named`, at each time, and at the position."""
        quoted = {json.dumps(value)[1:-1]: name for name, value in named.items()}
        values = "|".join(re.escape(value) for value in sorted(quoted, key=len, reverse=True))
        self._parts: list[str] = re.split(f"({values}|{self._OWN})", json.dumps(rows))
        self._gaps: list[str | int] = [
            quoted.get(found) or (int(found) - _WHEN if len(found) == 16 else "position")
            for found in self._parts[1::2]
        ]

    def filled(self, values: dict[str, str], *, at: int) -> dict[str, list[dict[str, Any]]]:
        """Give the rows of a copy that was written at `at`."""
        parts = self._parts.copy()
        parts[1::2] = [str(at + gap) if isinstance(gap, int) else values[gap] for gap in self._gaps]
        rows: dict[str, list[dict[str, Any]]] = json.loads("".join(parts))
        return rows


def _values(effect: Effect, redactor: Redactor) -> dict[str, str]:
    """Give everything in an operation's rows that follows from what its effect is, ready to stand in JSON."""
    args, payload = canonical_json(effect.args), plain_json(effect.payload)
    return {
        "id": operation_id(NAMESPACE, effect.run, effect.key),
        "run": effect.run,
        "key": effect.key,
        "target": effect.target,
        "folded": fold_target(effect.target),
        "reference": effect.reference,
        "fingerprint": fingerprint(effect.action, effect.target, effect.args),
        "args": args,
        "args_digest": digest(args),
        "args_keyed": redactor.keyed_digest(args),
        "payload": payload,
        "payload_digest": digest(payload),
        "payload_keyed": redactor.keyed_digest(canonical_json(effect.payload)),
    }


class _Model:
    """A run that is copied: its own row and events, and a form for each state of an operation."""

    def __init__(self, raw: sqlite3.Connection, name: str, redactor: Redactor) -> None:
        """Read it."""

        def rows(table: str, where: str, *given: str) -> list[dict[str, Any]]:
            return [dict(row) for row in raw.execute(f"SELECT * FROM {table} WHERE {where}", given)]

        events = rows("events", "run = ? AND operation = '' ORDER BY seq", name)
        is_last = [event["kind"] == "run_finished" for event in events]
        named = {"run": name}
        self.run = _Form(
            {
                "runs": rows("runs", "run = ?", name),
                "first": [event for event, last in zip(events, is_last, strict=True) if not last],
                "last": [event for event, last in zip(events, is_last, strict=True) if last],
            },
            named,
        )
        self.operations: dict[str, _Form] = {}
        self.contexts = rows("contexts", "namespace = ?", NAMESPACE)
        bodies = rows("bodies", "run = ?", name)
        for number, state in enumerate(MODELS[name]):
            values = _values(effect_of(name, number), redactor)
            found = {
                table: rows(table, f"{'id' if table == 'operations' else 'operation'} = ?", values["id"])
                for table in _TABLES
            }
            text = json.dumps(found)
            found["bodies"] = [body for body in bodies if body["digest"] in text]
            self.operations[state] = _Form(found, values)


def _copy_run(
    model: _Model, name: str, states: Iterable[str], redactor: Redactor, *, at: int
) -> dict[str, list[dict[str, Any]]]:
    """Give all rows of a run whose operations are in `states`, the last of them written at `at`."""
    run = model.run.filled({"run": json.dumps(name)[1:-1]}, at=at)
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in (*_TABLES, "bodies")}
    rows["events"] += run["first"]
    states = list(states)
    for number, state in enumerate(states):
        values = {
            part: json.dumps(value)[1:-1]
            for part, value in _values(effect_of(name, number), redactor).items()
        }
        values["position"] = str(number + 1)
        copied = model.operations[state].filled(values, at=at - (len(states) - number) * 1_000)
        for table, found in copied.items():
            rows[table] += found
    rows["events"] += run["last"]
    head = genesis(NAMESPACE, name)
    for seq, event in enumerate(rows["events"], 1):
        event["seq"] = seq
        parts = {part: event[part] for part in ("operation", "kind", "at", "caller", "data")}
        event["hash"] = head = event_hash(head, seq=seq, **parts)
    (row,) = rows["runs"] = run["runs"]
    touched_at = max(event["at"] for event in rows["events"])
    row.update(touched_at=touched_at, last_seq=len(rows["events"]), head=head, operations=len(states))
    return rows


def _states(size: int, *, is_open: bool) -> list[str]:
    """Give the states of a run's operations; the open ones come last, as those that came last."""
    still_open = min(MOST_OPEN, size // 5) if is_open else 0
    settled = [SETTLED[number % len(SETTLED)] for number in range(size - still_open)]
    return settled + [OPEN[number % len(OPEN)] for number in range(still_open)]


async def _write_journal(path: Path, *, secret: str, clock: _Clock, has_models: bool) -> None:
    fresh = Fresh(journal_id=secrets.token_hex(8), secret=secret)
    async with open_journal(path, fresh=fresh, namespace=NAMESPACE, policy=Policy(), clock=clock) as journal:
        if has_models:
            await _write_models(journal, clock)


def _read_models(secret: str) -> dict[str, _Model]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "models.db"

        async def write() -> None:
            await _write_journal(file, secret=secret, clock=_Clock(_WHEN), has_models=True)

        anyio.run(write)
        with closing(sqlite3.connect(file)) as raw:
            raw.row_factory = sqlite3.Row
            return {name: _Model(raw, name, Redactor(bytes.fromhex(secret))) for name in MODELS}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltRun:
    """A run of a built journal."""

    name: str
    operations: int
    is_open: bool


def build(path: Path, operations: int) -> list[BuiltRun]:
    """Make a journal of so many operations at `path`, where nothing may lie yet; give its runs."""
    secret = secrets.token_hex(32)
    redactor, models = Redactor(bytes.fromhex(secret)), _read_models(secret)
    last = time.time_ns() // 1_000 - 86_400 * 1_000_000
    first = last - SPAN_SECONDS * 1_000_000

    async def make() -> None:
        await _write_journal(path, secret=secret, clock=_Clock(first), has_models=False)

    anyio.run(make)
    built: list[BuiltRun] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for pragma in _PRAGMAS:
            raw.execute(f"PRAGMA {pragma}")
        raw.execute("BEGIN")
        _insert(raw, "contexts", models["model-open"].contexts)
        done = 0
        for number, size in enumerate(run_sizes(operations)):
            is_open = number % OPEN_RUNS in (0, 3) if number < 10 else number % OPEN_RUNS == 3
            run = BuiltRun(name=f"invoices/{number:06}", operations=size, is_open=is_open)
            done += size
            model = models["model-open" if is_open else "model-finished"]
            at = first + (last - first) * done // operations
            copied = _copy_run(model, run.name, _states(size, is_open=is_open), redactor, at=at)
            for table in _ORDER:
                _insert(raw, table, copied[table])
            built.append(run)
        raw.execute("COMMIT")
    return built


def _insert(raw: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        columns = ", ".join(rows[0])
        marks = ", ".join("?" * len(rows[0]))
        raw.executemany(
            f"INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"
            if table == "bodies"
            else f"INSERT INTO {table} ({columns}) VALUES ({marks})",
            [tuple(row.values()) for row in rows],
        )


def main() -> None:
    """Build the journal that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help="where the journal is made; nothing may lie there")
    parser.add_argument("--operations", type=int, default=1_000_000)
    given = parser.parse_args()
    if given.file.exists():
        parser.error(f"something lies at {given.file}")
    began = time.perf_counter()
    runs = build(given.file, given.operations)
    took = time.perf_counter() - began
    size = given.file.stat().st_size
    print(
        f"{given.operations} operations in {len(runs)} runs in {took:.0f} s;"
        f" {size / 1e6:.0f} MB, {size / given.operations:.0f} bytes an operation"
    )


if __name__ == "__main__":
    main()
