"""What the commands about one operation share: what is read before a decision, and what is done after it."""

from typing import Any

from counterfoil.store.damaged_rows import refuse_damaged, refuse_lost
from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.closing import compensate, count_as_done_again
from counterfoil.store.domain.commands import Caller, ReceiptGiven
from counterfoil.store.domain.drafting import Creation, Situation
from counterfoil.store.domain.events import evolve_all
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.domain.lookalikes import Newcomer, find_lookalikes
from counterfoil.store.domain.model import Operation, Run, State
from counterfoil.store.domain.states import state_of
from counterfoil.store.preparing import Bodies, Reference
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import look_alike_terms, operation_or_fault
from counterfoil.store.rows import load_operations, run_from_row
from counterfoil.store.viewing import Viewer
from counterfoil.store.writing import Change, RunPlace, caller_text, carry_out

__all__ = ["Commanding"]

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
