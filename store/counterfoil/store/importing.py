"""Imports: evidence that another journal, or this one at another time, has put on file.

A run that is unknown here is taken over whole: its log as it stands, hashes included, so that the chain
still proves it. For a run that is known here the log goes on as it is; what the file adds is its evidence,
weighed by the same decisions as a receipt or a finding that somebody hands in. Nothing else of the file
counts: a state, a decision or a permission of another journal sets nothing here, so that an old file sets
nothing back. Where the states differ afterwards, that is told as a conflict and left as it is.

Taking the same file again changes nothing. Each run is one transaction, and none begins before the whole file
was proved. What has not come yet is unknown here: a namespace that held no run is marked meanwhile, as by a
copy (`lost_history`).
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from msgspec import Struct, field

from counterfoil.store.comparing import is_same_but_for_secrets
from counterfoil.store.damaged_rows import refuse_damaged, refuse_lost
from counterfoil.store.domain.closing import compensate
from counterfoil.store.domain.commands import Caller
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import Event, EventKind, evolve_all
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Operation, Party, Receipt, State
from counterfoil.store.domain.states import state_of
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.given_runs import GivenRun, read_given_run
from counterfoil.store.import_evidence import Evidence
from counterfoil.store.lost_history import Lack, begin_import, closes_gap, end_import
from counterfoil.store.preparing import Bodies
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.pruning import bodies_of
from counterfoil.store.resolving import read_body
from counterfoil.store.rows import load_operation, run_from_row
from counterfoil.store.spool import Spool
from counterfoil.store.taking_over import save_contexts, take_over
from counterfoil.store.viewing import Viewer
from counterfoil.store.writing import Change, RunPlace, caller_text, carry_out

__all__ = ["Conflict", "Importer", "RunImport", "Taken"]

_MOST_CONFLICTS = 1_000
_COUNTED = ("runs_new", "runs_known", "operations_new", "receipts", "findings", "doubts", "not_taken")


class Conflict(Struct, frozen=True, kw_only=True):
    """What the file says of an operation and the journal does not follow.

    `kind`: `effect` (the same run and key stand for another effect), `state` (the states differ, the
    journal's stands), `unfit` (the evidence fits no rule), `gap` (it would hide what the journal lacks) or
    `undone` (one operation undid it here and another there; both are named).
    """

    operation: str
    run: str
    key: str
    kind: str
    journal: str
    file: str


class Taken(Struct, kw_only=True):
    """What an import came to; `conflicts_in_all` counts those that are not listed as well.

    `lacks_history`: the file is of a journal that was put back from a backup, and this one is marked so.
    """

    journal_id: str
    runs_new: int = 0
    runs_known: int = 0
    operations_new: int = 0
    receipts: int = 0
    findings: int = 0
    doubts: int = 0
    not_taken: int = 0
    conflicts: list[Conflict] = field(default_factory=list)
    conflicts_in_all: int = 0
    lacks_history: bool = False

    @property
    def changed(self) -> bool:
        """True where anything was added."""
        return bool(self.runs_new or self.operations_new or self.receipts or self.findings or self.doubts)

    def add(self, other: "Taken") -> None:
        """Add what one run came to."""
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.conflicts_in_all += len(other.conflicts)
        self.conflicts += other.conflicts[: max(0, _MOST_CONFLICTS - len(self.conflicts))]


class Importer:
    """Imports into one namespace of one journal."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def take_in(self, spool: Spool, caller: Caller) -> Taken:
        """Add the evidence of an export that was read by `read_spool`.

        Raises:
            InvalidArgument: the file is not as a journal would have written it; nothing of it was stored.
            Forbidden: it is of a journal that lacks history, and this namespace is in use: `begin_import`.
        """
        if spool.namespace != self._view.namespace:
            raise InvalidArgument(
                "line 1",
                "the file is of another namespace, and nothing crosses namespaces",
                accepted=f"an export of the namespace {self._view.namespace}, or --namespace",
            )
        caller = self._view.prepare.caller(caller)
        now = await self._view.moment()
        for given in self._runs(spool, now):
            del given
        export: dict[str, Any] = {
            "of": spool.journal_id,
            "exported_at": spool.exported_at,
            "runs": len(spool.spans),
        }
        await begin_import(self._view, **export, lack=spool.lack)
        taken = Taken(journal_id=spool.journal_id, lacks_history=spool.lack is not None)
        for given in self._runs(spool, now):

            async def work(connection: Connection, given: GivenRun = given) -> Taken:
                return await RunImport(
                    self._view, connection, given, caller, journal_id=spool.journal_id, lack=spool.lack
                ).take()

            taken.add(await self._view.database.write(work))
        await end_import(self._view, **export)
        return taken

    def _runs(self, spool: Spool, now: Instant) -> Iterator[GivenRun]:
        for span in spool.spans:
            yield read_given_run(spool, span, prepare=self._view.prepare, now=now)


class RunImport:
    """Takes in one run that was proved, inside its transaction."""

    def __init__(
        self,
        view: Viewer,
        connection: Connection,
        given: GivenRun,
        caller: Caller,
        *,
        journal_id: str,
        lack: Lack | None,
    ) -> None:
        self._view = view
        self._connection = connection
        self._given = given
        self._caller = caller
        self._journal_id = journal_id
        self._lack = lack
        self._place = {"namespace": given.namespace, "run": given.run}
        self._situation = Situation(
            now=view.now(connection),
            policy=view.policy,
            party=Party(principal=caller.principal, conversation=None, connection=caller.connection),
        )
        self._now = self._situation.now.at
        self._taken = Taken(journal_id=journal_id)
        self._differing: list[Operation] = []

    async def take(self) -> Taken:
        """Take the run over whole, or add its evidence to the one that is here."""
        await save_contexts(self._connection, self._given, now=self._now)
        if await self._connection.fetch_one("read_run", self._place) is None:
            await self._take_whole()
            return self._taken
        self._taken.runs_known += 1
        for theirs in sorted(self._given.operations.values(), key=lambda each: each.position):
            ours = await self._read(theirs.id)
            if ours is None:
                if not await self._hides_gap([theirs]):
                    await self._take_operation(theirs)
            elif await self._is_same_effect(ours, theirs):
                await self._add_evidence(ours, theirs)
            else:
                self._conflict(theirs, "effect", ours.description.fingerprint, theirs.description.fingerprint)
        await self._compare_states()
        return self._taken

    async def _read(self, operation: str) -> Operation | None:
        place = {"namespace": self._view.namespace, "id": operation}
        row = await self._connection.fetch_one("read_operation_by_id", place)
        if row is None:
            await refuse_lost(self._connection, **self._place, operation=operation)
        found = await load_operation(self._connection, row)
        refuse_damaged(found)
        return found

    def _conflict(self, theirs: Operation, kind: str, journal: str, file: str) -> None:
        self._taken.conflicts.append(
            Conflict(
                operation=theirs.id, run=theirs.run, key=theirs.key, kind=kind, journal=journal, file=file
            )
        )

    async def _hides_gap(self, operations: Iterable[Operation]) -> bool:
        """Tell of what cannot be taken: this journal would no longer ask about the time that it lacks."""
        found = await closes_gap(
            self._connection,
            self._given.namespace,
            self._given.run,
            operations,
            theirs=self._lack,
            now=self._now,
        )
        if found is not None:
            self._conflict(found, "gap", "history_gap", state_of(found, self._now).value)
        return found is not None

    async def _take_whole(self) -> None:
        given = self._given
        if await self._hides_gap(given.operations.values()):
            return
        if not await take_over(self._connection, given, known=None, now=self._now):
            raise LookupError("the run was not there")
        for operation in given.operations.values():
            await self._undo_original(operation)
        self._taken.runs_new += 1
        self._taken.operations_new += len(given.operations)

    async def _mark_missing(self, operation: Operation) -> None:
        """Mark an operation whose bodies are not in the file: they were pruned where it comes from."""
        if not self._given.bodies.keys() >= set(bodies_of(operation)):
            await self._connection.execute(
                "mark_pruned", {**self._place, "id": operation.id, "pruned_at": self._now}
            )

    async def _take_operation(self, theirs: Operation) -> None:
        """Go on with the log of a known run by all that the file tells of an operation unknown here."""
        rows = [row for row in self._given.events if row["operation"] == theirs.id]
        operation: Operation | None = None
        for caller, group in groupby(rows, key=lambda row: str(row["caller"])):
            run = run_from_row(await self._run_row())
            events = [self._placed(row, position=run.operations + 1) for row in group]
            before, operation = operation, evolve_all(operation, events)
            if operation is not None:
                change = Change(before=before, after=operation, events=events)
                await self._write(change, caller=caller, now=operation.updated_at)
        if operation is not None:
            await self._mark_missing(operation)
            await self._undo_original(operation)
        self._taken.operations_new += 1

    def _placed(self, row: Row, *, position: int) -> Event:
        kind, data = EventKind(row["kind"]), json.loads(row["data"])
        if kind is EventKind.OPERATION_CREATED:
            data["position"] = position
        return Event(kind=kind, operation=row["operation"], at=row["at"], data=data)

    async def _run_row(self) -> Row:
        row = await self._connection.fetch_one("read_run", self._place)
        if row is None:
            raise LookupError("the run is there")
        return row

    async def _write(
        self, change: Change, *, caller: str, now: Instant, bodies: Bodies | None = None
    ) -> None:
        place = {"namespace": change.after.namespace, "run": change.after.run}
        row = await self._connection.fetch_one("read_run", place)
        texts = {digest: text for digest, (text, _stored_at) in self._given.bodies.items()}
        await carry_out(
            self._connection,
            place=RunPlace(**place),
            run=None if row is None else run_from_row(row),
            changes=(change,),
            bodies=bodies or Bodies(texts=texts),
            caller=caller,
            now=now,
            is_callers_text_whole=True,
        )

    async def _is_same_effect(self, ours: Operation, theirs: Operation) -> bool:
        """Tell whether both are one effect; a placeholder of another journal is not comparable."""
        recorded, given = ours.description, theirs.description
        if recorded.fingerprint == given.fingerprint:
            return True
        redactor = self._view.prepare.redactor
        if recorded.action != given.action or not is_same_but_for_secrets(
            recorded.target, given.target, redactor
        ):
            return False
        our_text = None
        if recorded.args_digest is not None:
            our_text = await read_body(self._connection, ours, recorded.args_digest)
        their_text = self._given.bodies.get(given.args_digest or "", (None, 0))[0]
        if our_text is None or their_text is None:
            # A pruned body cannot be looked into: what it may have hidden is not comparable either.
            is_one_missing = (recorded.args_digest is None) != (given.args_digest is None)
            return not is_one_missing and (
                recorded.args_digest == given.args_digest or recorded.args_redacted or given.args_redacted
            )
        return is_same_but_for_secrets(json.loads(our_text), json.loads(their_text), redactor)

    async def _add_evidence(self, ours: Operation, theirs: Operation) -> None:
        evidence = Evidence(ours, theirs, self._situation, self._journal_id)
        try:
            evidence.take_undoing()
            for receipt in evidence.new_receipts():
                evidence.take_receipt(
                    receipt, belongs_to_another=await self._belongs_to_another(theirs, receipt)
                )
            for finding in evidence.new_findings():
                evidence.take_finding(finding)
            evidence.take_doubt()
            for receipt in evidence.undoings_left():
                evidence.take_receipt(receipt, belongs_to_another=False)
        except LookupError:
            self._conflict(theirs, "unfit", state_of(ours, self._now), state_of(theirs, self._now))
            return
        after = evidence.operation
        if evidence.events:
            texts = {digest: text for digest, (text, _stored_at) in self._given.bodies.items()}
            await self._write(
                Change(before=ours, after=after, events=evidence.events),
                caller=caller_text(self._caller),
                now=self._now,
                bodies=Bodies(texts={**texts, **evidence.bodies.texts}),
            )
            await self._undo_original(after)
        after = await self._undone(after, theirs)
        self._taken.receipts += len(after.receipts) - len(ours.receipts) - evidence.doubts
        self._taken.receipts += sum(
            now.is_accepted and not before.is_accepted
            for before, now in zip(ours.receipts, after.receipts, strict=False)
        )
        self._taken.findings += len(after.findings) - len(ours.findings)
        self._taken.doubts += evidence.doubts
        self._taken.not_taken += evidence.not_taken
        undoings = [_undone_by(each) for each in (after, theirs)]
        if None not in undoings and undoings[0] != undoings[1]:
            self._conflict(theirs, "undone", *map(str, undoings))
        if state_of(after, self._now) is not state_of(theirs, self._now):
            self._differing.append(theirs)

    async def _compare_states(self) -> None:
        """Tell of the states that differ once everything is taken: an undoing may come after its original."""
        for theirs in self._differing:
            ours = await self._read(theirs.id)
            if ours is None:
                raise LookupError("it was there when it was taken")
            here, there = state_of(ours, self._now), state_of(theirs, self._now)
            if here is not there:
                self._conflict(theirs, "state", here.value, there.value)

    async def _belongs_to_another(self, theirs: Operation, receipt: Receipt) -> bool:
        if receipt.external_id is None:
            return False
        row = await self._connection.fetch_one(
            "other_owner_of_undoing" if receipt.is_undo else "other_owner",
            {
                "namespace": self._view.namespace,
                "external_id": receipt.external_id,
                "kind": receipt.kind,
                "system": receipt.system,
                "operation": theirs.id,
            },
        )
        return row is not None

    async def _undone(self, ours: Operation, theirs: Operation) -> Operation:
        """Let what undid an operation there reach it here as well, where it came with another run."""
        compensated = State.COMPENSATED
        if state_of(theirs, self._now) is not compensated or state_of(ours, self._now) is compensated:
            return ours
        place = {"namespace": ours.namespace, "original": ours.id}
        for row in await self._connection.fetch_all("compensators", place):
            undoing = await self._read(row["operation"])
            if undoing is not None:
                await self._undo_original(undoing)
        return await self._read(ours.id) or ours

    async def _undo_original(self, operation: Operation) -> None:
        """Let the success of a compensating operation reach the operation that it undoes, if it is here."""
        if operation.compensates is None or state_of(operation, self._now) is not State.SUCCEEDED:
            return
        original = await self._read(operation.compensates)
        if original is None:
            return
        events = compensate(original, self._situation, by=operation.id)
        undone = evolve_all(original, events)
        if events and undone is not None:
            await self._write(
                Change(before=original, after=undone, events=events),
                caller=caller_text(self._caller),
                now=self._now,
            )


def _undone_by(operation: Operation) -> str | None:
    """Give the operation by whose success this one counts as undone."""
    decision = operation.decision
    return None if decision is None or decision.by != "compensation" else decision.reason
