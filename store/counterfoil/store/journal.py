"""The journal: one method per command, and the only place that runs a transaction for one.

Each reads the facts, lets the domain decide, appends the events, writes the rows, and answers. Whatever
comes back was durable before it was said.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from counterfoil.store.auditing import Auditor
from counterfoil.store.checking import Checker
from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.begin import BeginFacts, BeginGiven, decide_begin
from counterfoil.store.domain.closing import compensate, decide_close
from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    CheckOperation,
    CloseOperation,
    ReceiptGiven,
    ReconcileOperation,
    RecordFailure,
    RecordReceipt,
    ResumePlan,
)
from counterfoil.store.domain.differences import differences
from counterfoil.store.domain.drafting import Creation, Situation
from counterfoil.store.domain.events import evolve_all
from counterfoil.store.domain.failures import decide_failure
from counterfoil.store.domain.instants import Reading, rfc3339
from counterfoil.store.domain.model import Operation, Party, Run, State
from counterfoil.store.domain.receipts import ReceiptFacts, decide_receipt
from counterfoil.store.domain.reconciling import ReconcileFacts, decide_reconcile
from counterfoil.store.domain.states import Policy, state_of
from counterfoil.store.domain.untrusted import safe_value
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.limits import Limits
from counterfoil.store.planning import JournalIdentity, Planner
from counterfoil.store.preparing import Bodies, Preparer, Reference
from counterfoil.store.presenting import Presenter, body_shown, without_none
from counterfoil.store.protocol import Connection, Database
from counterfoil.store.redact import Redactor
from counterfoil.store.resolving import (
    ambiguous_attach,
    dependencies_of,
    has_decided,
    operation_or_fault,
    read_body,
    warnings_of_others,
)
from counterfoil.store.rows import load_operation, run_from_row
from counterfoil.store.viewing import Viewer
from counterfoil.store.writing import Change, caller_text, carry_out

__all__ = ["Journal"]


class Journal:
    """One namespace of one journal."""

    def __init__(
        self,
        database: Database,
        *,
        identity: JournalIdentity,
        redactor: Redactor,
        namespace: str,
        policy: Policy,
        clock: Callable[[], Reading],
        limits: Limits,
    ) -> None:
        """Use an open database. `clock` is read once per command, inside its transaction."""
        self.database = database
        self.identity = identity
        self.namespace = namespace
        self.policy = policy
        self._clock = clock
        self._prepare = Preparer(namespace=namespace, redactor=redactor, limits=limits)
        self._present = Presenter(policy)
        view = Viewer(
            database=database,
            namespace=namespace,
            policy=policy,
            clock=clock,
            prepare=self._prepare,
            present=self._present,
        )
        self._checker = Checker(view)
        self._planner = Planner(view, identity=identity)
        self.reader = Auditor(view)

    async def begin_operation(self, command: BeginOperation, caller: Caller) -> dict[str, Any]:
        """Ask for permission to perform one effect; only `next: perform` gives it.

        Raises:
            InvalidArgument, TooLarge, NotFound: the call cannot be taken as made; nothing was recorded.
            JournalUnavailable: nothing was recorded; the effect must not be performed.
        """
        bodies = Bodies()
        given = self._prepare.begin(command, bodies)
        caller = self._prepare.caller(caller)
        if caller.call_id is not None and caller.call_id in (given.key, given.run):
            raise InvalidArgument(
                "call_id", "is the key or the run", accepted="an id of this one call, 16 characters or more"
            )
        workflow = self._prepare.text(command.workflow, name="workflow")

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._situation(caller)
            facts = await self._facts_for_begin(connection, given)
            verdict = decide_begin(given, facts, situation)
            if verdict.events and given.context is not None:
                await connection.execute(
                    "save_context",
                    {
                        "namespace": self.namespace,
                        "digest": given.context,
                        "body": bodies.texts[given.context],
                        "stored_at": situation.now.at,
                    },
                )
            await self._carry_out(
                connection,
                verdict,
                before=facts.operation,
                run=facts.run,
                bodies=bodies,
                caller=caller_text(caller, context=given.context, workflow_version=given.workflow_version),
                now=situation.now.at,
                workflow=workflow,
                workflow_version=given.workflow_version,
            )
            return await self._begin_answer(connection, given, facts, verdict, situation, bodies)

        return await self.database.write(work)

    async def record_receipt(self, command: RecordReceipt, caller: Caller) -> dict[str, Any]:
        """Keep evidence of the effect; never refused for being late.

        Raises:
            InvalidArgument, TooLarge, NotFound, Ambiguous: nothing was recorded.
            JournalUnavailable: NOT stored; keep the receipt and send it again.
        """
        bodies = Bodies()
        caller = self._prepare.caller(caller)
        given = command.receipt
        described = self._described(given, bodies)

        async def work(connection: Connection) -> dict[str, Any]:
            await ambiguous_attach(connection, self.namespace, command.ref, prepare=self._prepare)
            ref = self._prepare.reference(command.ref)
            situation = self._situation(caller)
            may_create = described is not None and ref.key is not None
            operation, run = await self._read(connection, ref, must_exist=not may_create)
            receipt = await self._receipt_facts(connection, given, bodies, operation, ref)
            verdict = decide_receipt(
                operation, receipt, situation, creation=self._creation(ref, run, described, situation.now.at)
            )
            return await self._conclude(connection, verdict, operation, run, bodies, caller, situation)

        return await self.database.write(work)

    async def record_failure(self, command: RecordFailure, caller: Caller) -> dict[str, Any]:
        """Take an agent's word about its own attempt.

        Raises:
            InvalidArgument, TooLarge, NotFound: nothing was recorded.
            JournalUnavailable: NOT stored.
        """
        bodies = Bodies()
        ref, given = self._prepare.reference(command.ref), self._prepare.failure(command, bodies)
        caller = self._prepare.caller(caller)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._situation(caller)
            operation, run = await self._existing(connection, ref)
            _check_attempt(operation, given.attempt)
            verdict = decide_failure(operation, given, situation)
            return await self._conclude(connection, verdict, operation, run, bodies, caller, situation)

        return await self.database.write(work)

    async def reconcile_operation(self, command: ReconcileOperation, caller: Caller) -> dict[str, Any]:
        """Take what looking at the performing system showed.

        Raises:
            InvalidArgument, TooLarge, NotFound: nothing was recorded.
            JournalUnavailable: NOT stored.
        """
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
        described = self._described(command.receipt, bodies)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._situation(caller)
            may_create = described is not None and ref.key is not None and command.finding == "performed"
            operation, run = await self._read(connection, ref, must_exist=not may_create)
            given = ReconcileFacts(
                finding=command.finding,
                checked_with=checked_with,
                by=command.by,
                as_of=self._prepare.as_of(command, situation.now.at),
                receipt=await self._receipt_facts(connection, command.receipt, bodies, operation, ref),
                end_lease=command.end_lease,
            )
            verdict = decide_reconcile(
                operation, given, situation, creation=self._creation(ref, run, described, situation.now.at)
            )
            return await self._conclude(connection, verdict, operation, run, bodies, caller, situation)

        return await self.database.write(work)

    async def close_operation(self, command: CloseOperation, caller: Caller) -> dict[str, Any]:
        """Take the explicit decision to stop waiting or to give up.

        Raises:
            InvalidArgument, TooLarge, NotFound: nothing was recorded.
            JournalUnavailable: NOT stored.
        """
        ref, given = self._prepare.reference(command.ref), self._prepare.close(command)
        caller = self._prepare.caller(caller)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._situation(caller)
            operation, run = await self._existing(connection, ref)
            if command.attempt is not None:
                _check_attempt(operation, command.attempt)
            is_redelivered = await has_decided(connection, operation, caller.call_id)
            verdict = decide_close(operation, replace(given, is_redelivered=is_redelivered), situation)
            return await self._conclude(connection, verdict, operation, run, Bodies(), caller, situation)

        return await self.database.write(work)

    async def check_operation(self, command: CheckOperation, caller: Caller) -> dict[str, Any]:
        """Tell what is known of one operation; changes nothing. See `Checker.check`."""
        return await self._checker.check(command, caller)

    async def resume_plan(self, command: ResumePlan, caller: Caller) -> dict[str, Any]:
        """Tell what is done, in doubt and allowed; changes nothing. See `Planner.plan`."""
        return await self._planner.plan(command, caller)

    def _situation(self, caller: Caller) -> Situation:
        return Situation(
            now=self._clock(),
            policy=self.policy,
            party=Party(
                principal=caller.principal,
                conversation=caller.conversation,
                connection=caller.connection,
            ),
            call_id=caller.call_id,
            is_person=caller.is_person,
        )

    def _described(self, given: ReceiptGiven, bodies: Bodies) -> Any:
        if given.action is None:
            return None
        return self._prepare.description(given.action, given.target, given.args, None, bodies)

    def _creation(self, ref: Reference, run: Run | None, described: Any, now: int) -> Creation:
        return Creation(
            id=ref.id,
            namespace=self.namespace,
            run=ref.run or "",
            key=ref.key or "",
            position=1 if run is None else run.operations + 1,
            run_created_at=now if run is None else run.created_at,
            description=described,
        )

    async def _read(
        self, connection: Connection, ref: Reference, *, must_exist: bool
    ) -> tuple[Operation | None, Run | None]:
        operation = await operation_or_fault(connection, self.namespace, ref, must_exist=must_exist)
        name = ref.run if operation is None else operation.run
        row = await connection.fetch_one("read_run", {"namespace": self.namespace, "run": name})
        return operation, None if row is None else run_from_row(row)

    async def _existing(self, connection: Connection, ref: Reference) -> tuple[Operation, Run | None]:
        operation, run = await self._read(connection, ref, must_exist=True)
        if operation is None:
            raise LookupError("operation_or_fault gave nothing")
        return operation, run

    async def _receipt_facts(
        self,
        connection: Connection,
        given: ReceiptGiven,
        bodies: Bodies,
        operation: Operation | None,
        ref: Reference,
    ) -> ReceiptFacts:
        action = given.action if operation is None else operation.description.action
        receipt = self._prepare.receipt(given, bodies, action=action)
        if receipt.attempt is not None:
            _check_attempt(operation, receipt.attempt)
        if receipt.external_id is None:
            return receipt
        other = await connection.fetch_one(
            "other_owner",
            {
                "namespace": self.namespace,
                "external_id": receipt.external_id,
                "kind": receipt.kind,
                "system": receipt.system,
                "operation": ref.id,
            },
        )
        return receipt if other is None else replace(receipt, belongs_to_another=True)

    async def _facts_for_begin(self, connection: Connection, given: BeginGiven) -> BeginFacts:
        place = {"namespace": self.namespace, "run": given.run}
        row = await connection.fetch_one("read_run", place)
        run = None if row is None else run_from_row(row)
        operation = None
        candidates: tuple[Operation, ...] = ()
        if run is not None:
            operation = await load_operation(
                connection, await connection.fetch_one("read_operation", {**place, "key": given.key})
            )
            if operation is None or operation.takes:
                candidates = await self._look_alikes(connection, given)
        compensates = given.compensates or (None if operation is None else operation.compensates)
        original = None
        if compensates is not None:
            original = await operation_or_fault(
                connection, self.namespace, Reference(id=compensates), must_exist=True
            )
            candidates += await self._compensators(connection, compensates, known=candidates)
        waits_for = (*given.depends_on, *(() if operation is None else operation.depends_on))
        dependencies = await dependencies_of(connection, self.namespace, given.run, waits_for, key=given.key)
        return BeginFacts(
            operation=operation,
            run=run,
            next_position=1 if run is None else run.operations + 1,
            run_created_at=self._clock().at if run is None else run.created_at,
            others=candidates,
            dependencies=dependencies,
            original=original,
        )

    async def _look_alikes(self, connection: Connection, given: BeginGiven) -> tuple[Operation, ...]:
        """Read the operations that may be the same effect under another key.

        Raises:
            JournalUnavailable: one is damaged; whether its effect happened cannot be told, so nothing like
                it is granted.
        """
        rows = await connection.fetch_all(
            "look_alikes",
            {
                "namespace": self.namespace,
                "run": given.run,
                "id": given.id,
                "action": given.description.action,
                "fingerprint": given.description.fingerprint,
                "target_folded": given.description.target_folded,
                "args_digest": given.description.args_digest,
            },
        )
        loaded = [await load_operation(connection, row) for row in rows]
        return tuple(operation for operation in loaded if operation is not None)

    async def _compensators(
        self, connection: Connection, original: str, *, known: tuple[Operation, ...]
    ) -> tuple[Operation, ...]:
        rows = await connection.fetch_all("compensators", {"namespace": self.namespace, "original": original})
        ids = {row["operation"] for row in rows} - {operation.id for operation in known}
        found = []
        for operation_id in sorted(ids):
            operation = await operation_or_fault(
                connection, self.namespace, Reference(id=operation_id), must_exist=True
            )
            if operation is not None:
                found.append(operation)
        return tuple(found)

    async def _carry_out(
        self,
        connection: Connection,
        verdict: Verdict,
        *,
        before: Operation | None,
        run: Run | None,
        bodies: Bodies,
        caller: str,
        now: int,
        workflow: str | None = None,
        workflow_version: str | None = None,
    ) -> None:
        if verdict.after is None or not verdict.events:
            return
        await carry_out(
            connection,
            run=run,
            change=Change(before=before, after=verdict.after, events=verdict.events),
            bodies=bodies,
            caller=caller,
            now=now,
            workflow=workflow,
            workflow_version=workflow_version,
        )

    async def _undo_original(
        self, connection: Connection, verdict: Verdict, caller: Caller, situation: Situation
    ) -> None:
        """Let the success of a compensating operation reach the operation that it undoes."""
        after = verdict.after
        if (
            after is None
            or after.compensates is None
            or not verdict.events
            or state_of(after, situation.now.at) is not State.SUCCEEDED
        ):
            return
        original, run = await self._read(connection, Reference(id=after.compensates), must_exist=False)
        events = () if original is None else compensate(original, situation, by=after.id)
        undone = evolve_all(original, events)
        if undone is not None and events:
            await carry_out(
                connection,
                run=run,
                change=Change(before=original, after=undone, events=events),
                bodies=Bodies(),
                caller=caller_text(caller),
                now=situation.now.at,
            )

    async def _conclude(
        self,
        connection: Connection,
        verdict: Verdict,
        before: Operation | None,
        run: Run | None,
        bodies: Bodies,
        caller: Caller,
        situation: Situation,
    ) -> dict[str, Any]:
        """Write what was decided and answer as every command but begin does."""
        now = situation.now.at
        await self._carry_out(
            connection, verdict, before=before, run=run, bodies=bodies, caller=caller_text(caller), now=now
        )
        await self._undo_original(connection, verdict, caller, situation)
        after = verdict.after
        if after is None:
            raise LookupError("a verdict about nothing")
        answer = {**self._present.verdict(verdict, now), **self._present.place(after, now)}
        receipt = verdict.fields.get("receipt")
        if receipt is not None:
            answer["receipt"] = self._present.receipt(receipt)
        if "retry_at" in verdict.fields:
            answer["retry_at"] = rfc3339(verdict.fields["retry_at"])
        if verdict.reason == "lease_held" and after.newest is not None:
            answer["retry_at"] = rfc3339(after.newest.lease_until)
        if verdict.next in ("reconcile", "ask") or verdict.reason == "settling":
            answer.update(await self._doubt(connection, after, now))
        if verdict.next == "skip":
            answer.update(self._settled(after, now))
        if verdict.warnings:
            answer["warnings"] = list(verdict.warnings)
        return answer

    async def _doubt(self, connection: Connection, operation: Operation, now: int) -> dict[str, Any]:
        lookup = operation.terms.lookup
        args = None
        if lookup is not None and lookup.args_digest is not None:
            args = await read_body(connection, operation, lookup.args_digest)
        return self._present.doubt(operation, now, args)

    def _settled(self, operation: Operation, now: int) -> dict[str, Any]:
        return without_none(
            {
                "receipts": self._present.receipts(operation.receipts) or None,
                "settled_at": self._present.settled_at(operation, now),
            }
        )

    async def _begin_answer(
        self,
        connection: Connection,
        given: BeginGiven,
        facts: BeginFacts,
        verdict: Verdict,
        situation: Situation,
        bodies: Bodies,
    ) -> dict[str, Any]:
        now = situation.now.at
        operation = verdict.after or facts.operation
        answer: dict[str, Any] = self._present.verdict(verdict, now)
        if operation is None:
            answer.update(run=given.run, key=given.key)
        else:
            answer.update(self._present.place(operation, now))
        attempt = verdict.fields.get("attempt")
        if operation is not None and attempt is not None and verdict.next in ("perform", "wait"):
            answer.update(self._present.grant(attempt, operation))
            if verdict.reason == "lease_held":
                del answer["idempotency_key"], answer["send_before"]
            if verdict.next == "wait":
                answer["retry_at"] = rfc3339(attempt.lease_until)
        if verdict.next == "perform" and operation is not None:
            answer["replayed"] = verdict.reason == "replayed"
            answer.update(without_none({"repeat_until": self._present.repeat_until(operation)}))
        if "retry_at" in verdict.fields:
            answer["retry_at"] = rfc3339(verdict.fields["retry_at"])
        if operation is not None and verdict.next in ("reconcile", "ask"):
            answer.update(await self._doubt(connection, operation, now))
        if operation is not None and verdict.next == "skip":
            answer.update(self._settled(operation, now))
        if facts.operation is not None:
            answer["recorded"] = await self._recorded(connection, operation or facts.operation)
        if verdict.fields.get("conflict") and facts.operation is not None:
            answer["conflict"] = await self._conflict(connection, facts.operation, given, bodies)
        if "duplicates" in verdict.fields:
            answer["duplicates"] = self._present.duplicates(verdict.fields["duplicates"], now)
        warnings = list(verdict.warnings)
        if operation is not None:
            if _brings_another_payload(operation, given):
                warnings.append(
                    "the payload given differs from the recorded one: send the recorded one, unchanged"
                )
            warnings += await warnings_of_others(
                connection, operation, situation.party, is_new=facts.operation is None
            )
        if warnings:
            answer["warnings"] = warnings
        return answer

    async def _recorded(self, connection: Connection, operation: Operation) -> dict[str, Any]:
        description = operation.description
        recorded: dict[str, Any] = {}
        for name, body_digest in (
            ("args", description.args_digest),
            ("payload", description.payload_digest),
        ):
            if body_digest is not None:
                recorded[name] = body_shown(await read_body(connection, operation, body_digest), detail=name)
        return recorded

    async def _conflict(
        self, connection: Connection, operation: Operation, given: BeginGiven, bodies: Bodies
    ) -> list[dict[str, Any]]:
        """List every path at which the effect given differs from the effect on record."""
        from json import loads

        def effect(action: str, target: str | None, args: str | None) -> Mapping[str, Any]:
            parts = {"action": action, "target": target, "args": None if args is None else loads(args)}
            return without_none(parts)

        recorded, offered = operation.description, given.description
        recorded_args = (
            None
            if recorded.args_digest is None
            else await read_body(connection, operation, recorded.args_digest)
        )
        given_args = None if offered.args_digest is None else bodies.texts[offered.args_digest]
        found = differences(
            effect(recorded.action, recorded.target, recorded_args),
            effect(offered.action, offered.target, given_args),
            limit=20,
        )
        shown = [
            {
                name: safe_value(value, limit=150, items=5, depth=3)
                for name, value in difference.as_dict().items()
            }
            for difference in found
        ]
        if found.cut:
            shown.append({"cut": True, "whole": "check_operation with detail args gives what is recorded"})
        return shown


def _brings_another_payload(operation: Operation, given: BeginGiven) -> bool:
    keyed = given.description.payload_keyed
    return keyed is not None and keyed != operation.description.payload_keyed


def _check_attempt(operation: Operation | None, number: int) -> None:
    granted = () if operation is None else operation.granted
    if not any(attempt.number == number for attempt in granted):
        numbers = ", ".join(str(attempt.number) for attempt in granted) or "none was granted"
        raise InvalidArgument("attempt", f"{number} does not exist", accepted=f"one of: {numbers}")
