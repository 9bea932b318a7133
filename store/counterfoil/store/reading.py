"""What is read and never changed: a check, a plan, the list of runs, and what only people look at."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from counterfoil.store.chain import first_fault
from counterfoil.store.domain.answers import guidance_for
from counterfoil.store.domain.commands import Caller, CheckOperation, ResumePlan
from counterfoil.store.domain.events import Event, EventKind, evolve_all
from counterfoil.store.domain.instants import Instant, Reading, rfc3339
from counterfoil.store.domain.model import Operation, Run, State
from counterfoil.store.domain.plan import Step, make_steps
from counterfoil.store.domain.states import is_unresolved, state_of
from counterfoil.store.domain.untrusted import escape_untrusted, safe_value
from counterfoil.store.errors import Ambiguous, Fault, InvalidArgument, NotFound
from counterfoil.store.preparing import Preparer, Reference
from counterfoil.store.presenting import Presenter, escaped_json, without_none
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.resolving import no_such_run, operation_or_fault, read_body
from counterfoil.store.rows import load_operation, load_operations, run_from_row

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["Reader", "Verification"]

_CHUNK = 3_500
"""Characters of a body in one check: doubled by JSON's escapes it still fits an answer."""

_ANSWER_ROOM = 7_000
"""Characters of JSON that the steps of one page may take."""

_MOST_STEPS = 50
_MOST_RUNS = 20
_NEW_FOR = 3_600 * 1_000_000
_POLL_SECONDS = 0.2
_DETAILS = ("summary", "full", "args", "payload", "checkpoint", "lookup", "undo", "evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What replaying the whole log showed."""

    runs: int
    events: int
    operations: int
    faults: tuple[str, ...]


class Reader:
    """The reading side of a journal."""

    def __init__(
        self,
        journal: "Journal",
        *,
        clock: Callable[[], Reading],
        prepare: Preparer,
        present: Presenter,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._prepare = prepare
        self._present = present

    # check_operation

    async def check(self, command: CheckOperation, caller: Caller) -> dict[str, Any]:
        """Tell what is known of one operation: state, attempts, receipts, findings, and what may be done.

        With `wait_seconds` the answer comes as soon as nothing is in progress, or when the time is over.

        Raises:
            InvalidArgument, NotFound, Ambiguous: which operation is meant cannot be told.
            JournalUnavailable: nothing can be told; absence is not proven.
        """
        if command.detail not in _DETAILS:
            raise InvalidArgument("detail", "is unknown", accepted="one of " + ", ".join(_DETAILS))
        if command.offset < 0:
            raise InvalidArgument("offset", "is below 0", accepted="characters from the beginning, from 0")
        if not 0 <= command.wait_seconds <= 50:
            raise InvalidArgument("wait_seconds", "is out of range", accepted="0 to 50 seconds")

        async def work(connection: Connection) -> tuple[dict[str, Any], bool]:
            now = self._clock().at
            operation = await self._meant(connection, command)
            answer = await self._checked(connection, operation, command, now)
            return answer, state_of(operation, now) is State.IN_PROGRESS

        answer, is_moving = await self._journal.database.read(work)
        with anyio.move_on_after(command.wait_seconds):
            while is_moving and command.wait_seconds > 0:
                await anyio.sleep(_POLL_SECONDS)
                answer, is_moving = await self._journal.database.read(work)
        return answer

    async def _meant(self, connection: Connection, command: CheckOperation) -> Operation:
        ref = command.ref
        if command.external_id is not None and ref.operation is None and ref.key is None:
            return await self._owner(connection, command)
        found = await operation_or_fault(
            connection, self._journal.namespace, self._prepare.reference(ref), must_exist=True
        )
        if found is None:
            raise LookupError("operation_or_fault gave nothing")
        return found

    async def _owner(self, connection: Connection, command: CheckOperation) -> Operation:
        external_id = self._prepare.text(command.external_id, name="external_id")
        rows = await connection.fetch_all(
            "owners",
            {
                "namespace": self._journal.namespace,
                "external_id": "" if external_id is None else external_id.strip(),
                "system": self._prepare.text(command.system, name="system"),
            },
        )
        if not rows:
            raise NotFound(
                "no receipt with this external_id is on file; that does not prove that nothing was done",
                fix="check its spelling, or name the operation by its id, or by run and key",
            )
        if len(rows) > 1:
            raise Ambiguous(
                "more than one operation has a receipt with this external_id",
                fix="check one of the candidates by its id",
                candidates=[f"{row['operation']} in run {row['run']}" for row in rows],
            )
        found = await operation_or_fault(
            connection, self._journal.namespace, Reference(id=rows[0]["operation"]), must_exist=True
        )
        if found is None:
            raise LookupError("operation_or_fault gave nothing")
        return found

    async def _checked(
        self, connection: Connection, operation: Operation, command: CheckOperation, now: Instant
    ) -> dict[str, Any]:
        step = await self._step(connection, operation, now)
        answer = {
            "as_of": rfc3339(now),
            "next": step.outlook.next,
            "reason": step.outlook.reason,
            "guidance": guidance_for(step.outlook.next, step.outlook.reason),
            **self._present.place(operation, now),
        }
        if command.detail not in ("summary", "full"):
            return {**answer, **await self._body(connection, operation, command)}
        answer.update(await self._summary(connection, operation, step, now))
        if command.detail == "full":
            answer.update(await self._full(connection, operation, command, now, room=answer))
        return answer

    async def _step(self, connection: Connection, operation: Operation, now: Instant) -> Step:
        """Look at an operation among the others of its run that it waits for."""
        place = {"namespace": operation.namespace, "run": operation.run}
        row = await connection.fetch_one("read_run", place)
        around = [operation]
        if operation.depends_on:
            rows = await connection.fetch_all("read_operations", place)
            around = list(await load_operations(connection, rows))
        steps = make_steps(
            around,
            run=None if row is None else run_from_row(row),
            now=now,
            policy=self._journal.policy,
        )
        return next(step for step in steps if step.operation.id == operation.id)

    async def _summary(
        self, connection: Connection, operation: Operation, step: Step, now: Instant
    ) -> dict[str, Any]:
        lookup = operation.terms.lookup
        args = None
        if lookup is not None and lookup.args_digest is not None:
            args = await read_body(connection, operation, lookup.args_digest)
        terms = operation.terms
        return without_none(
            {
                "action": _safe(operation.description.action),
                "target": _safe(operation.description.target),
                "repeat": None if terms.repeat is None else terms.repeat.value,
                "retry_at": None if step.outlook.retry_at is None else rfc3339(step.outlook.retry_at),
                **self._present.doubt(operation, now, args),
                "settled_at": self._present.settled_at(operation, now),
                "decision": None
                if operation.decision is None
                else {
                    "outcome": operation.decision.outcome.value,
                    "at": rfc3339(operation.decision.at),
                    "by": operation.decision.by,
                    "reason": _safe(operation.decision.reason),
                },
                "dispute": None if operation.dispute is None else operation.dispute.kind.value,
                "unresolved": True if is_unresolved(operation) else None,
                "attempts": [
                    self._present.attempt(attempt, operation, now) for attempt in operation.attempts[-3:]
                ],
                "attempts_in_all": len(operation.attempts),
                "findings": [self._present.finding(finding) for finding in operation.findings[-2:]] or None,
                "findings_in_all": len(operation.findings) or None,
                "depends_on": [_safe(key) for key in operation.depends_on[:20]] or None,
                "compensates": operation.compensates,
            }
        )

    async def _full(
        self,
        connection: Connection,
        operation: Operation,
        command: CheckOperation,
        now: Instant,
        *,
        room: dict[str, Any],
    ) -> dict[str, Any]:
        """Page through the operation's history; `offset` counts its entries here."""
        rows = await connection.fetch_all(
            "read_operation_events",
            {"namespace": operation.namespace, "run": operation.run, "operation": operation.id},
        )
        left = _ANSWER_ROOM - len(json.dumps(room, ensure_ascii=False))
        history: list[dict[str, Any]] = []
        for row in rows[command.offset :]:
            entry = _history_entry(row)
            left -= len(json.dumps(entry, ensure_ascii=False)) + 2
            if left < 0 and history:
                break
            history.append(entry)
        shown = command.offset + len(history)
        return without_none(
            {
                "history": history,
                "history_in_all": len(rows),
                "next_offset": shown if shown < len(rows) else None,
            }
        )

    async def _body(
        self, connection: Connection, operation: Operation, command: CheckOperation
    ) -> dict[str, Any]:
        """Give a stretch of a recorded body; what is put together from all of them is the body, unchanged."""
        text = await self._text_of(connection, operation, command.detail)
        if text is None:
            return {"detail": command.detail, "recorded": False}
        value = json.loads(text)
        is_text = isinstance(value, str) and safe_value(value, limit=len(value) + 1) == value
        whole = value if is_text else escaped_json(value)
        end = command.offset + _CHUNK
        return without_none(
            {
                "detail": command.detail,
                "recorded": True,
                "format": "text" if is_text else "json",
                "offset": command.offset,
                "characters": len(whole),
                "content": whole[command.offset : end],
                "next_offset": end if end < len(whole) else None,
            }
        )

    async def _text_of(self, connection: Connection, operation: Operation, detail: str) -> str | None:
        description, terms = operation.description, operation.terms
        match detail:
            case "args":
                digest = description.args_digest
            case "payload":
                digest = description.payload_digest
            case "lookup" | "undo":
                part = terms.lookup if detail == "lookup" else terms.undo
                if part is None:
                    return None
                args = None
                if part.args_digest is not None:
                    args = await read_body(connection, operation, part.args_digest)
                shown = {"tool": part.tool, "instructions": part.instructions}
                return json.dumps(
                    without_none({**shown, "args": None if args is None else json.loads(args)}),
                    ensure_ascii=False,
                )
            case "evidence":
                return await self._evidence(connection, operation)
            case _:
                digest = None
        return None if digest is None else await read_body(connection, operation, digest)

    async def _evidence(self, connection: Connection, operation: Operation) -> str | None:
        found = []
        for receipt in operation.receipts:
            if receipt.evidence_digest is not None:
                text = await read_body(connection, operation, receipt.evidence_digest)
                found.append(
                    {"receipt": receipt.number, "evidence": None if text is None else json.loads(text)}
                )
        for finding in operation.findings:
            if finding.evidence_digest is not None:
                text = await read_body(connection, operation, finding.evidence_digest)
                found.append(
                    {"finding": finding.number, "evidence": None if text is None else json.loads(text)}
                )
        return json.dumps(found, ensure_ascii=False) if found else None

    # resume_plan

    async def plan(self, command: ResumePlan, caller: Caller) -> dict[str, Any]:
        """Tell what is done, in doubt and allowed in a run, or which runs are open where none is named.

        Raises:
            InvalidArgument: a cursor, limit or include that is not ours.
            JournalUnavailable: nothing can be told; absence is not proven.
        """
        if command.include not in ("open", "all"):
            raise InvalidArgument("include", "is unknown", accepted='"open" or "all"')
        if command.limit is not None and not 1 <= command.limit <= 1_000:
            raise InvalidArgument("limit", "is out of range", accepted="1 to 1000")
        if command.run is None:
            return await self._journal.database.read(lambda connection: self._runs(connection, command))
        name = self._prepare.name(command.run, name="run")
        return await self._journal.database.read(lambda connection: self._run_plan(connection, command, name))

    async def _head(self, now: Instant, next_: str, reason: str) -> dict[str, Any]:
        return {
            "as_of": rfc3339(now),
            "next": next_,
            "reason": reason,
            "guidance": guidance_for(next_, reason),
        }

    async def _journal_shown(self, connection: Connection, now: Instant) -> dict[str, Any]:
        identity = self._journal.identity
        is_new = now - identity.created_at < _NEW_FOR
        if not is_new:
            rows = await connection.fetch_all("near_runs", {"namespace": self._journal.namespace, "most": 1})
            is_new = not rows
        return {"id": identity.id, "created_at": rfc3339(identity.created_at), "is_new": is_new}

    async def _run_plan(self, connection: Connection, command: ResumePlan, name: str) -> dict[str, Any]:
        now = self._clock().at
        journal = await self._journal_shown(connection, now)
        place = {"namespace": self._journal.namespace, "run": name}
        row = await connection.fetch_one("read_run", place)
        if row is None:
            near = await no_such_run(connection, self._journal.namespace, name)
            return {
                **await self._head(now, "continue", "no_history"),
                "journal": journal,
                "run": {"run": name},
                "counts": {},
                "steps": [],
                "complete": False,
                "cut": False,
                "near_runs": list(near.candidates),
            }
        run = run_from_row(row)
        operations = await load_operations(connection, await connection.fetch_all("read_operations", place))
        steps = make_steps(operations, run=run, now=now, policy=self._journal.policy)
        after = _read_cursor(command.cursor, name, command.include)
        listed = [step for step in steps if command.include == "all" or step.outlook.next != "skip"]
        pending = [step for step in listed if after is None or step.place > after.place]
        shown, used = [], 0
        for step in pending[: min(command.limit or _MOST_STEPS, _MOST_STEPS)]:
            entry = await self._step_shown(connection, step, now)
            used += len(json.dumps(entry, ensure_ascii=False)) + 2
            if used > _ANSWER_ROOM and shown:
                break
            shown.append(entry)
        is_cut = len(shown) < len(pending)
        damaged = run.operations - len(operations)
        # A rank may change by time alone, so the ranks of then are compared as well as the log's length.
        has_moved = after is not None and (
            after.seq != run.last_seq or _ranks_at(operations, run, after.as_of, self) != _ranks(steps)
        )
        seq, as_of = (run.last_seq, now) if after is None else (after.seq, after.as_of)
        return without_none(
            {
                **await self._head(now, "continue", "listed"),
                "journal": journal,
                "run": _run_shown(run),
                "counts": _counts(step.state for step in steps),
                "steps": shown,
                "guidances": {
                    entry["reason"]: guidance_for(entry["next"], entry["reason"]) for entry in shown
                },
                "complete": damaged == 0 and all(step.outlook.next == "skip" for step in steps),
                "damaged": damaged or None,
                "cut": is_cut,
                "next_cursor": _write_cursor(pending[len(shown) - 1].place, seq, as_of, name, command.include)
                if is_cut
                else None,
                "changed_meanwhile": True if has_moved and not is_cut else None,
            }
        )

    async def _step_shown(self, connection: Connection, step: Step, now: Instant) -> dict[str, Any]:
        operation = step.operation
        newest = operation.newest
        entry = {
            "operation": operation.id,
            "key": operation.key,
            "action": _safe(operation.description.action),
            "target": _safe(operation.description.target),
            "state": step.state.value,
            "next": step.outlook.next,
            "reason": step.outlook.reason,
            "attempt": None if newest is None else newest.number,
            "age_seconds": max(0, now - operation.created_at) // 1_000_000,
            "retry_at": None if step.outlook.retry_at is None else rfc3339(step.outlook.retry_at),
        }
        if step.outlook.next in ("reconcile", "ask", "begin") and newest is not None:
            lookup = operation.terms.lookup
            args = None
            if lookup is not None and lookup.args_digest is not None:
                args = await read_body(connection, operation, lookup.args_digest)
            entry.update(self._present.doubt(operation, now, args))
        elif operation.receipts:
            entry["receipts"] = self._present.receipts(operation.receipts, most=2)
        undo = operation.terms.undo
        if undo is not None and step.state is State.SUCCEEDED:
            entry["undo"] = without_none(
                {"tool": _safe(undo.tool), "instructions": _safe(undo.instructions), "detail": "undo"}
            )
        return without_none(entry)

    async def _runs(self, connection: Connection, command: ResumePlan) -> dict[str, Any]:
        now = self._clock().at
        before, name = _read_runs_cursor(command.cursor)
        most = min(command.limit or _MOST_RUNS, _MOST_RUNS)
        rows = await connection.fetch_all(
            "list_runs",
            {
                "namespace": self._journal.namespace,
                "before_touched": before,
                "after_run": name,
                "everything": int(command.include == "all"),
                "most": most + 1,
            },
        )
        shown, used = [], 0
        for row in rows[:most]:
            run = run_from_row(row)
            entry = {**_run_shown(run), "counts": await self._counts_of(connection, run, now)}
            used += len(json.dumps(entry, ensure_ascii=False)) + 2
            if used > _ANSWER_ROOM and shown:
                break
            shown.append(entry)
        is_cut = len(shown) < len(rows)
        is_empty = not rows and command.cursor is None
        last = rows[len(shown) - 1] if shown else None
        return without_none(
            {
                **await self._head(now, "continue", "no_history" if is_empty else "listed"),
                "journal": await self._journal_shown(connection, now),
                "runs": shown,
                "complete": not is_cut and all(_nothing_is_open(entry["counts"]) for entry in shown),
                "cut": is_cut,
                "next_cursor": _encode([last["touched_at"], last["run"]])
                if is_cut and last is not None
                else None,
            }
        )

    async def _counts_of(self, connection: Connection, run: Run, now: Instant) -> dict[str, int]:
        rows = await connection.fetch_all(
            "count_states", {"namespace": run.namespace, "run": run.run, "now": now}
        )
        return {row["state_now"]: row["operations"] for row in rows}

    # what only people look at

    async def find(
        self,
        *,
        run: str | None = None,
        action: str | None = None,
        state: str | None = None,
        text: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """List operations by what is known of them, most recently changed first; the state is today's."""

        async def work(connection: Connection) -> list[dict[str, Any]]:
            now = self._clock().at
            rows = await connection.fetch_all(
                "find_operations",
                {
                    "namespace": self._journal.namespace,
                    "run": None if run is None else self._prepare.name(run, name="run"),
                    "action": action,
                    "state": None,
                    "text": None if text is None else text.lower(),
                    "most": limit if state is None else 10 * limit,
                },
            )
            found = []
            for operation in await load_operations(connection, rows):
                step = await self._step(connection, operation, now)
                if state is None or step.state.value == state:
                    found.append({"run": operation.run, **await self._step_shown(connection, step, now)})
            return found[:limit]

        return await self._journal.database.read(work)

    async def tail(self, *, run: str | None = None, limit: int = 20) -> list[dict[str, Any]]:
        """Give the newest events, oldest of them first."""

        async def work(connection: Connection) -> list[dict[str, Any]]:
            rows = await connection.fetch_all(
                "latest_events",
                {
                    "namespace": self._journal.namespace,
                    "run": None if run is None else self._prepare.name(run, name="run"),
                    "most": limit,
                },
            )
            return [
                {"run": row["run"], "operation": row["operation"], **_history_entry(row)}
                for row in reversed(rows)
            ]

        return await self._journal.database.read(work)

    async def verify(self) -> Verification:
        """Replay every run's log: the chain holds, and the rows are what the events make of them."""

        async def runs(connection: Connection) -> Sequence[Row]:
            return await connection.fetch_all("all_runs")

        faults: list[str] = []
        events = operations = 0
        every = await self._journal.database.read(runs)
        for run in every:

            async def work(connection: Connection, run: Row = run) -> tuple[int, int, list[str]]:
                return await _verify_run(connection, run)

            seen, replayed, found = await self._journal.database.read(work)
            events, operations, faults = events + seen, operations + replayed, faults + found
        return Verification(runs=len(every), events=events, operations=operations, faults=tuple(faults))


async def _verify_run(connection: Connection, run: Row) -> tuple[int, int, list[str]]:
    place = {"namespace": run["namespace"], "run": run["run"]}
    row = await connection.fetch_one("read_run", place)
    if row is None:
        return 0, 0, [f"{run['run']}: the run's row is gone"]
    rows: list[Row] = []
    while page := await connection.fetch_all("read_events", {**place, "after": len(rows), "most": 1_000}):
        rows += page
        if page[-1]["seq"] != len(rows):
            break
    faults = []
    broken = first_fault(
        rows, namespace=run["namespace"], run=run["run"], last_seq=row["last_seq"], head=row["head"]
    )
    if broken is not None:
        faults.append(f"{run['run']}: {broken.problem}")
    by_operation: dict[str, list[Event]] = {}
    for event in rows:
        try:
            by_operation.setdefault(event["operation"], []).append(
                Event(
                    kind=EventKind(event["kind"]),
                    operation=event["operation"],
                    at=event["at"],
                    data=json.loads(event["data"]),
                )
            )
        except ValueError:
            faults.append(f"{run['run']}: event {event['seq']} cannot be read")
    stored = await connection.fetch_all("read_operations", place)
    for operation_row in stored:
        problem = await _replay_problem(connection, operation_row, by_operation.pop(operation_row["id"], []))
        if problem is not None:
            faults.append(f"{run['run']}: operation {operation_row['id']} {problem}")
    faults += [f"{run['run']}: operation {name} is in the log and has no row" for name in by_operation]
    return len(rows), len(stored), faults


async def _replay_problem(connection: Connection, row: Row, events: list[Event]) -> str | None:
    try:
        loaded = await load_operation(connection, row)
        replayed = evolve_all(None, events)
    except (Fault, ValueError, TypeError, KeyError):
        return "cannot be replayed"
    if replayed is None or loaded is None:
        return "has a row and is not in the log"
    if loaded != replayed:
        return "has rows that its events do not lead to"
    if row["state"] != state_of(replayed, replayed.updated_at).value:
        return "has a state that its events do not lead to"
    return None


def _safe(text: str | None) -> str | None:
    return None if text is None else escape_untrusted(text, limit=300)


def _history_entry(row: Row) -> dict[str, Any]:
    return {
        "seq": row["seq"],
        "at": rfc3339(row["at"]),
        "event": row["kind"],
        "data": safe_value(json.loads(row["data"]), limit=120, items=12, depth=3),
        "caller": safe_value(json.loads(row["caller"]), limit=80, items=12, depth=2),
    }


def _run_shown(run: Run) -> dict[str, Any]:
    return without_none(
        {
            "run": run.run,
            "workflow": _safe(run.workflow),
            "workflow_version": _safe(run.workflow_version),
            "created_at": rfc3339(run.created_at),
            "touched_at": rfc3339(run.touched_at),
            "operations": run.operations,
            "finished_as": run.finished_as,
        }
    )


def _counts(states: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for state in states:
        counts[state.value] = counts.get(state.value, 0) + 1
    return counts


def _nothing_is_open(counts: dict[str, int]) -> bool:
    return all(State(state).is_settled for state in counts)


def _ranks(steps: Sequence[Step]) -> dict[str, int]:
    return {step.operation.id: step.rank for step in steps}


def _ranks_at(operations: Sequence[Operation], run: Run, at: Instant, reader: Reader) -> dict[str, int]:
    return _ranks(make_steps(operations, run=run, now=at, policy=reader._journal.policy))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cursor:
    place: tuple[int, int]
    seq: int
    as_of: Instant


def _encode(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def _decode(cursor: str) -> Any:
    try:
        return json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        return None


def _not_ours() -> InvalidArgument:
    return InvalidArgument(
        "cursor",
        "is not one of this list",
        accepted="next_cursor of the page before, with the same run and include",
    )


def _write_cursor(place: tuple[int, int], seq: int, as_of: Instant, run: str, include: str) -> str:
    return _encode([*place, seq, as_of, run, include])


def _read_cursor(cursor: str | None, run: str, include: str) -> _Cursor | None:
    if cursor is None:
        return None
    match _decode(cursor):
        case [int(rank), int(position), int(seq), int(as_of), str(name), str(which)] if (
            name == run and which == include
        ):
            return _Cursor(place=(rank, position), seq=seq, as_of=as_of)
        case _:
            raise _not_ours()


def _read_runs_cursor(cursor: str | None) -> tuple[Instant, str]:
    if cursor is None:
        return 2**62, ""
    match _decode(cursor):
        case [int(touched), str(run)]:
            return touched, run
        case _:
            raise _not_ours()
