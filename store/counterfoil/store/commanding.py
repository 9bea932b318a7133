"""What the commands about one operation share: what is read before a decision, and what is done after it."""

import json
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from counterfoil.store.comparing import hides_the_same
from counterfoil.store.damaged_rows import refuse_damaged, refuse_lost
from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.closing import compensate, count_as_done_again
from counterfoil.store.domain.commands import Caller, Criterion, ReceiptGiven
from counterfoil.store.domain.criteria import satisfaction_text
from counterfoil.store.domain.drafting import Creation, Situation
from counterfoil.store.domain.events import evolve_all
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.domain.lookalikes import Newcomer, find_lookalikes
from counterfoil.store.domain.model import Operation, Run, State
from counterfoil.store.domain.names import fold_spelling, targets_overlap
from counterfoil.store.domain.receipts import ReceiptFacts
from counterfoil.store.domain.states import state_of
from counterfoil.store.errors import BodyDamaged, InvalidArgument
from counterfoil.store.preparing import Bodies, Reference
from counterfoil.store.preparing_reports import prepare_receipt
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import criteria_of, look_alike_terms, operation_or_fault, read_body
from counterfoil.store.rows import load_operations, run_from_row
from counterfoil.store.viewing import Viewer
from counterfoil.store.writing import Change, RunPlace, caller_text, carry_out

__all__ = ["Commanding", "check_attempt"]

_MOST_ALIKE = 3


class Commanding:
    """Reads, writes and answers for one operation; every method is part of a transaction."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    def described(self, given: ReceiptGiven, bodies: Bodies) -> Any:
        """Prepare what a receipt says of its effect, where it does: nobody may have begun it."""
        if given.action is None:
            return None
        return self._view.prepare.description(given.action, given.target, given.args, None, bodies)

    def creation(self, ref: Reference, run: Run | None, described: Any, now: int) -> Creation:
        """Give what an operation that nobody began would be made of."""
        return Creation(
            id=ref.id,
            namespace=self._view.namespace,
            run=ref.run or "",
            key=ref.key or "",
            position=1 if run is None else run.operations + 1,
            run_created_at=now if run is None else run.created_at,
            description=described,
        )

    async def read(
        self, connection: Connection, ref: Reference, *, must_exist: bool
    ) -> tuple[Operation | None, Run | None]:
        """Read the operation that is meant, and its run.

        Raises:
            NotFound: it is not there though it must.
            JournalUnavailable: its rows are damaged.
        """
        operation = await operation_or_fault(connection, self._view.namespace, ref, must_exist=must_exist)
        refuse_damaged(operation)
        name = ref.run if operation is None else operation.run
        row = await connection.fetch_one("read_run", {"namespace": self._view.namespace, "run": name})
        if row is None and name is not None:
            await refuse_lost(connection, namespace=self._view.namespace, run=name)
        return operation, None if row is None else run_from_row(row)

    async def existing(self, connection: Connection, ref: Reference) -> tuple[Operation, Run | None]:
        """Read an operation that has to be there, and its run.

        Raises:
            NotFound: it is not, with the nearest ones.
        """
        operation, run = await self.read(connection, ref, must_exist=True)
        if operation is None:
            raise LookupError("operation_or_fault gave nothing")
        return operation, run

    async def receipt_facts(
        self,
        connection: Connection,
        given: ReceiptGiven,
        bodies: Bodies,
        operation: Operation | None,
        run: Run | None,
        ref: Reference,
    ) -> ReceiptFacts:
        """Prepare a receipt with what the journal knows of its reference and of the criteria.

        Raises:
            InvalidArgument, TooLarge: naming the field, or an attempt that does not exist.
        """
        action = given.action if operation is None else operation.description.action
        receipt = prepare_receipt(
            given, prepare=self._view.prepare, bodies=bodies, action=action, operation=ref.id
        )
        satisfied = (
            *(() if operation is None else operation.satisfies),
            *(() if receipt.satisfies is None else json.loads(receipt.satisfies)),
        )
        if satisfied:
            criteria: tuple[Criterion, ...] = ()
            # Evidence is kept whatever became of the criteria: as where a spec comes later.
            with suppress(BodyDamaged):
                criteria = await criteria_of(connection, run)
            receipt = replace(receipt, satisfies=satisfaction_text(satisfied, criteria))
        if receipt.attempt is not None:
            check_attempt(operation, receipt.attempt)
        if operation is not None:
            receipt = replace(receipt, contradicts=await self._contradicted(connection, operation, given))
        if receipt.external_id is None:
            return receipt
        other = await connection.fetch_one(
            "other_owner",
            {
                "namespace": self._view.namespace,
                "external_id": receipt.external_id,
                "kind": receipt.kind,
                "system": receipt.system,
                "operation": ref.id,
            },
        )
        if other is None or await self._is_of_its_undoing(connection, operation, other["operation"], receipt):
            return receipt
        return replace(receipt, belongs_to_another=True)

    async def _is_of_its_undoing(
        self, connection: Connection, operation: Operation | None, owner: str, receipt: ReceiptFacts
    ) -> bool:
        """Tell whether a reference is on file with what this operation undoes, as that of the undoing."""
        if operation is None or operation.compensates != owner:
            return False
        ref = Reference(id=owner)
        original = await operation_or_fault(connection, self._view.namespace, ref, must_exist=False)
        reference = (receipt.kind, receipt.system, receipt.external_id)
        found = () if original is None else original.receipts
        said = [known for known in found if (known.kind, known.system, known.external_id) == reference]
        return bool(said) and all(known.is_undo for known in said)

    async def _contradicted(
        self, connection: Connection, operation: Operation, given: ReceiptGiven
    ) -> tuple[str, ...]:
        """Name what a receipt says of its effect and the operation has otherwise.

        A target that is spelled differently, and what either of them leaves out, contradicts nothing.
        """
        if given.action is None and given.target is None and given.args is None:
            return ()
        prepare, recorded = self._view.prepare, operation.description
        bodies = Bodies()
        said = prepare.description(given.action or recorded.action, given.target, given.args, None, bodies)
        found = []
        if fold_spelling(said.action) != fold_spelling(recorded.action):
            found.append("action")
        if not targets_overlap(recorded.target, said.target) and not hides_the_same(
            recorded.target, said.target, prepare.redactor
        ):
            found.append("target")
        ours, theirs = recorded.args_digest, said.args_digest
        if ours is not None and theirs is not None and ours != theirs:
            args = None
            # Evidence is kept whatever became of a body: one that cannot be read contradicts nothing.
            with suppress(BodyDamaged):
                args = await read_body(connection, operation, ours)
            if args is not None and not hides_the_same(args, bodies.texts[theirs], prepare.redactor):
                found.append("args")
        return tuple(found)

    async def _reach_original(
        self,
        connection: Connection,
        before: Operation | None,
        undoing: Operation,
        caller: Caller,
        situation: Situation,
    ) -> tuple[str, ...]:
        """Let what became of a compensating operation reach the one that it undoes; give warnings of that."""
        now = situation.now.at
        is_done = state_of(undoing, now) is State.SUCCEEDED
        was_done = before is not None and state_of(before, now) in (State.SUCCEEDED, State.DISPUTED)
        if undoing.compensates is None or not (is_done or was_done):
            return ()
        ref = Reference(id=undoing.compensates)
        original = await operation_or_fault(connection, self._view.namespace, ref, must_exist=False)
        if original is None or original.is_damaged:
            # The receipt of the undoing is kept, whatever became of the rows of what it undid.
            return _UNREACHED
        place = {"namespace": self._view.namespace, "run": original.run}
        row = await connection.fetch_one("read_run", place)
        if row is None:
            return _UNREACHED
        run = run_from_row(row)
        if is_done:
            events = compensate(original, situation, by=undoing.id)
        elif state_of(undoing, now) is State.DISPUTED:
            events = ()
        else:
            events = count_as_done_again(original, situation, by=undoing.id)
        changed = evolve_all(original, events)
        if changed is None or not events:
            return ()
        await carry_out(
            connection,
            place=RunPlace(namespace=changed.namespace, run=changed.run),
            run=run,
            changes=(Change(before=original, after=changed, events=events),),
            bodies=Bodies(),
            caller=caller_text(caller),
            now=now,
        )
        state = state_of(changed, now).value
        return () if is_done else (f"{original.id} is not undone by this: it counts as {state} now",)

    async def conclude(
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
        now, after = situation.now.at, verdict.after
        if after is None:
            raise LookupError("a verdict about nothing")
        warnings = verdict.warnings
        if verdict.events:
            await carry_out(
                connection,
                place=RunPlace(namespace=after.namespace, run=after.run),
                run=run,
                changes=(Change(before=before, after=after, events=verdict.events),),
                bodies=bodies,
                caller=caller_text(caller),
                now=now,
            )
            warnings += await self._reach_original(connection, before, after, caller, situation)
        answer = {**self._view.present.verdict(verdict, now), **self._view.present.place(after, now)}
        receipt = verdict.fields.get("receipt")
        if receipt is not None:
            answer["receipt"] = self._view.present.receipt(receipt)
        if "retry_at" in verdict.fields:
            answer["retry_at"] = rfc3339(verdict.fields["retry_at"])
        if verdict.reason == "lease_held" and after.newest is not None:
            answer["retry_at"] = rfc3339(after.newest.lease_until)
        if verdict.next in ("reconcile", "ask") or verdict.reason == "settling":
            answer.update(await self._view.doubt(connection, after, now))
        if verdict.next == "skip":
            answer.update(self._view.settled(after, now))
        if before is None:
            warnings += await self._alike(connection, after, situation)
        if warnings:
            answer["warnings"] = list(warnings)
        return answer

    async def _alike(
        self, connection: Connection, unannounced: Operation, situation: Situation
    ) -> tuple[str, ...]:
        """Warn of what an effect that nobody announced may be a second one of; its receipt is kept."""
        rows = await connection.fetch_all("look_alikes", look_alike_terms(unannounced))
        newcomer = Newcomer(
            id=unannounced.id,
            run=unannounced.run,
            description=unannounced.description,
            party=situation.party,
        )
        now = situation.now.at
        found = find_lookalikes(
            newcomer, await load_operations(connection, rows), now=now, policy=situation.policy
        )
        return tuple(
            f"{alike.operation.id} is on record with the same {alike.same} and is "
            f"{state_of(alike.operation, now).value}: if this receipt is of that effect, do not perform it, "
            "and tell a person; if not, there are two effects"
            for alike in found[:_MOST_ALIKE]
        )


_UNREACHED = ("what this undoes cannot be read: it is not marked as undone (counterfoil verify says why)",)


def check_attempt(operation: Operation | None, number: int) -> None:
    """Make sure that an attempt of that number was granted.

    Raises:
        InvalidArgument: it was not; the numbers that exist are named.
    """
    granted = () if operation is None else operation.granted
    if not any(attempt.number == number for attempt in granted):
        numbers = ", ".join(str(attempt.number) for attempt in granted) or "none was granted"
        raise InvalidArgument("attempt", f"{number} does not exist", accepted=f"one of: {numbers}")
