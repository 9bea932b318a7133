"""check_operation: what is known of one operation, as much of it as was asked for."""

import json
from contextlib import suppress
from typing import Any

from counterfoil.store.domain.answers import REQUESTED
from counterfoil.store.domain.canonical import plain_json
from counterfoil.store.domain.commands import Caller, CheckOperation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Operation, Party, State
from counterfoil.store.domain.plan import Step
from counterfoil.store.domain.states import decision_at, is_unresolved, state_of
from counterfoil.store.domain.untrusted import safe_value
from counterfoil.store.errors import Ambiguous, BodyDamaged, InvalidArgument, NotFound
from counterfoil.store.preparing import Reference
from counterfoil.store.presenting import (
    answer_head,
    body_damaged,
    body_gone,
    escaped_json,
    reads_as_it_is,
    value_of,
    without_none,
)
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import operation_to_look_at, read_body
from counterfoil.store.standing_requests import request_standing
from counterfoil.store.trajectory import trajectory_of
from counterfoil.store.viewing import (
    ANSWER_ROOM,
    Viewer,
    damaged_shown,
    history_entry,
    keys_shown,
    party_of,
    safe,
    size_of,
    step_warnings,
    undo_shown,
)
from counterfoil.store.weighing import authority_shown, context_of

__all__ = ["Checker"]

_CHUNK = 3_500
"""Characters of a body in one check: doubled by JSON's escapes it still fits an answer."""

_MOST_ATTEMPTS = 3
_POLL_SECONDS = 0.2
_DETAILS = ("summary", "full", "args", "payload", "checkpoint", "lookup", "undo", "evidence")


class Checker:
    """Checks operations; changes nothing."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

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
            now = self._view.now(connection).at
            operation = await self._meant(connection, command)
            answer = await self._checked(connection, operation, command, now, party_of(caller))
            return answer, state_of(operation, now) is State.IN_PROGRESS

        answer, is_moving = await self._view.database.read(work)
        if not (is_moving and command.wait_seconds > 0):
            return answer
        import anyio  # Loaded by whoever waits: a process without an event loop may ask, and not wait.

        with anyio.move_on_after(command.wait_seconds):
            while is_moving:
                await anyio.sleep(_POLL_SECONDS)
                answer, is_moving = await self._view.database.read(work)
        return answer

    async def _meant(self, connection: Connection, command: CheckOperation) -> Operation:
        ref = command.ref
        if command.external_id is not None and ref.operation is None and ref.key is None:
            return await self._owner(connection, command)
        reference = self._view.prepare.reference(ref)
        operation = await operation_to_look_at(connection, self._view.namespace, reference)
        if command.external_id is not None and not operation.is_damaged:
            self._refuse_foreign(operation, command)
        return operation

    def _refuse_foreign(self, operation: Operation, command: CheckOperation) -> None:
        """Refuse to answer of an operation what was asked of a reference that it does not have.

        Raises:
            NotFound: no receipt of the operation has it.
        """
        external_id, system = self._reference_of(command)
        if not any(
            receipt.external_id == external_id and system in (None, receipt.system)
            for receipt in operation.receipts
        ):
            raise NotFound(
                "no receipt of this operation has this external_id; that does not prove that it was not done",
                fix="leave the operation out to ask which one has it, or external_id to ask about this one",
                candidates=[f"{operation.id} in run {safe(operation.run)}"],
            )

    def _reference_of(self, command: CheckOperation) -> tuple[str, str | None]:
        external_id = self._view.prepare.text(command.external_id, name="external_id")
        system = self._view.prepare.text(command.system, name="system")
        return "" if external_id is None else external_id.strip(), system

    async def _owner(self, connection: Connection, command: CheckOperation) -> Operation:
        external_id, system = self._reference_of(command)
        rows = await connection.fetch_all(
            "owners", {"namespace": self._view.namespace, "external_id": external_id, "system": system}
        )
        where = "on file"
        if command.ref.run is not None:
            run = self._view.prepare.name(command.ref.run, name="run")
            rows, where = [row for row in rows if row["run"] == run], "on file in this run"
        # A receipt that did not fit an operation does not say that this one did it.
        rows = [row for row in rows if row["is_evidence"]] or rows
        if not rows:
            raise NotFound(
                f"no receipt with this external_id is {where}; that does not prove that nothing was done",
                fix="check its spelling, or name the operation by its id, or by run and key",
            )
        if len(rows) > 1:
            raise Ambiguous(
                "more than one operation has a receipt with this external_id",
                fix="check one of the candidates by its id",
                candidates=[f"{row['operation']} in run {row['run']}" for row in rows],
            )
        owner = Reference(id=rows[0]["operation"])
        return await operation_to_look_at(connection, self._view.namespace, owner)

    async def _checked(
        self,
        connection: Connection,
        operation: Operation,
        command: CheckOperation,
        now: Instant,
        party: Party,
    ) -> dict[str, Any]:
        step = await self._view.step_of(connection, operation, now, party=party)
        operation = step.operation
        if operation.is_damaged:
            return await self._damaged(connection, operation, command, step, now)
        answer = {
            **answer_head(step.outlook.next, step.outlook.reason, now),
            **self._view.present.place(operation, now),
            **without_none({"warnings": step_warnings(step)}),
        }
        if command.detail not in ("summary", "full"):
            return {**answer, **await self._body(connection, operation, command)}
        asked = await request_standing(
            connection,
            operation,
            next_=step.outlook.next,
            reason=step.outlook.reason,
            policy=self._view.policy,
        )
        if asked:
            answer.update(asked, guidance=REQUESTED[asked["request_state"]])
        answer.update(await self._summary(connection, operation, step, now))
        if command.offset == 0:
            found = await trajectory_of(connection, operation, external_id=command.external_id)
            answer.update(without_none({"trajectory": found}))
        if command.detail == "full":
            if command.offset == 0:
                answer.update(without_none({"contexts": await self._contexts(connection, operation)}))
            answer.update(await self._full(connection, operation, command, now, room=answer))
        return answer

    async def _contexts(self, connection: Connection, operation: Operation) -> dict[str, Any] | None:
        """Show the contexts that the newest attempts were made under, by the digests that stand with them."""
        shown: dict[str, Any] = {}
        for attempt in operation.attempts[-_MOST_ATTEMPTS:]:
            if attempt.context is None or attempt.context in shown:
                continue
            try:
                context = await context_of(connection, operation.namespace, attempt.context)
            except BodyDamaged:
                shown[attempt.context] = body_damaged(attempt.context)
                continue
            shown[attempt.context] = safe_value(context, limit=120, items=20, depth=3)
        return shown or None

    async def _damaged(
        self, connection: Connection, operation: Operation, command: CheckOperation, step: Step, now: Instant
    ) -> dict[str, Any]:
        """Say that the rows cannot be read; the log beside them is shown all the same."""
        answer = {
            **answer_head(step.outlook.next, step.outlook.reason, now),
            **damaged_shown(operation),
        }
        if command.detail == "full":
            answer.update(await self._full(connection, operation, command, now, room=answer))
        elif command.detail != "summary":
            answer.update(detail=command.detail, recorded=False)
        return answer

    async def _summary(
        self, connection: Connection, operation: Operation, step: Step, now: Instant
    ) -> dict[str, Any]:
        args = await self._view.lookup_args(connection, operation)
        terms, decision = operation.terms, decision_at(operation, now)
        return without_none(
            {
                **(authority_shown(step.authority) if step.outlook.next == "ask" else {}),
                "duplicates": self._view.present.duplicates(step.duplicates, now)
                if step.outlook.reason == "possible_duplicate"
                else None,
                "action": safe(operation.description.action),
                "target": safe(operation.description.target),
                "repeat": None if terms.repeat is None else terms.repeat.value,
                "retry_at": None if step.outlook.retry_at is None else rfc3339(step.outlook.retry_at),
                "waits_for": keys_shown(step.outlook.waits_for) or None,
                **self._view.present.doubt(operation, now, args),
                "settled_at": self._view.present.settled_at(operation, now),
                "decision": None
                if decision is None
                else {
                    "outcome": decision.outcome.value,
                    "at": rfc3339(decision.at),
                    "by": decision.by,
                    "reason": safe(decision.reason),
                },
                "dispute": None if operation.dispute is None else operation.dispute.kind.value,
                "unresolved": True if is_unresolved(operation) else None,
                "attempts": [
                    self._view.present.attempt(attempt, operation, now)
                    for attempt in operation.attempts[-_MOST_ATTEMPTS:]
                ],
                "attempts_in_all": len(operation.attempts),
                "findings": [self._view.present.finding(finding) for finding in operation.findings[-2:]]
                or None,
                "findings_in_all": len(operation.findings) or None,
                "depends_on": [safe(key) for key in operation.depends_on[:20]] or None,
                "compensates": operation.compensates,
                "undo": undo_shown(operation),
                "checkpoint": None if operation.checkpoint is None else "check_operation detail checkpoint",
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
        left = ANSWER_ROOM - size_of(room)
        history: list[dict[str, Any]] = []
        for row in rows[command.offset :]:
            entry = history_entry(row)
            left -= size_of(entry)
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
        was_there = _digest_of(operation, command.detail) or ""
        try:
            text = await self._text_of(connection, operation, command.detail)
        except BodyDamaged:
            return {"detail": command.detail, "recorded": False, **body_damaged(was_there)}
        if text is None:
            gone = body_gone(was_there) if was_there else {}
            return {"detail": command.detail, "recorded": False, **gone}
        value = value_of(text)
        is_text = isinstance(value, str) and reads_as_it_is(value)
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
        terms = operation.terms
        match detail:
            case "lookup" | "undo":
                part = terms.lookup if detail == "lookup" else terms.undo
                if part is None:
                    return None
                args = None
                if part.args_digest is not None:
                    args = await _value_of(connection, operation, part.args_digest)
                shown = {"tool": part.tool, "instructions": part.instructions, "args": args}
                return plain_json(without_none(shown))
            case "evidence":
                return await self._evidence(connection, operation)
        digest = _digest_of(operation, detail)
        return None if digest is None else await read_body(connection, operation, digest)

    async def _evidence(self, connection: Connection, operation: Operation) -> str | None:
        found = []
        for receipt in operation.receipts:
            if receipt.evidence_digest is not None:
                evidence = await _value_of(connection, operation, receipt.evidence_digest)
                found.append({"receipt": receipt.number, "evidence": evidence})
        for finding in operation.findings:
            if finding.evidence_digest is not None:
                evidence = await _value_of(connection, operation, finding.evidence_digest)
                found.append({"finding": finding.number, "evidence": evidence})
        for failure in await self._failures(connection, operation):
            evidence = await _value_of(connection, operation, failure.pop("evidence_digest"))
            found.append({**failure, "evidence": evidence})
        return plain_json(found) if found else None

    async def _failures(self, connection: Connection, operation: Operation) -> list[dict[str, Any]]:
        """Read from the log which evidence failures brought; it was judged then, and no row has it."""
        rows = await connection.fetch_all(
            "read_operation_events",
            {"namespace": operation.namespace, "run": operation.run, "operation": operation.id},
        )
        found = []
        for row in rows:
            if row["kind"] not in (EventKind.ATTEMPT_ENDED, EventKind.FAILURE_CLAIMED):
                continue
            with suppress(LookupError, TypeError, ValueError, RecursionError):
                data = json.loads(row["data"])
                failure = {"attempt": int(data["attempt"]), "evidence_digest": str(data["evidence_digest"])}
                found.append(
                    failure if row["kind"] == EventKind.ATTEMPT_ENDED else {**failure, "claimed": True}
                )
        return found


def _digest_of(operation: Operation, detail: str) -> str | None:
    """Give the digest of the one body that a detail stands for."""
    description = operation.description
    return {
        "args": description.args_digest,
        "payload": description.payload_digest,
        "checkpoint": operation.checkpoint,
    }.get(detail)


async def _value_of(connection: Connection, operation: Operation, digest: str) -> Any:
    """Give the value of a body, or what is left of one that was pruned or is damaged."""
    try:
        text = await read_body(connection, operation, digest)
    except BodyDamaged:
        return body_damaged(digest)
    return body_gone(digest) if text is None else value_of(text)
