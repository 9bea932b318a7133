"""What begin_operation is decided upon: the operation, its like, what it waits for, and what permits it."""

from collections.abc import Mapping

from msgspec.structs import replace

from counterfoil.store.comparing import hides_the_same
from counterfoil.store.contexts import PreparedContext, context_from
from counterfoil.store.damaged_rows import misled, refuse_lost, rows_are_gone
from counterfoil.store.domain.begin import BeginFacts, BeginGiven
from counterfoil.store.domain.context import Drift, compare_contexts
from counterfoil.store.domain.grants import AuthorityFacts, is_out_of_attempts
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.domain.model import Operation, Party, State
from counterfoil.store.domain.outlook import NO_BARRIERS, Barriers
from counterfoil.store.domain.states import state_of
from counterfoil.store.errors import BodyDamaged, InvalidArgument
from counterfoil.store.gaps import gap_in
from counterfoil.store.preparing import Bodies, Reference
from counterfoil.store.presenting import value_of
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import (
    dependencies_of,
    last_compaction,
    look_alike_terms,
    operation_or_fault,
    original_of,
    read_body,
)
from counterfoil.store.rows import load_operation, load_operations, run_from_row
from counterfoil.store.viewing import Viewer
from counterfoil.store.weighing import authority_facts, context_of, set_up_bench, today_of

__all__ = ["BeginReading"]


class BeginReading:
    """Reads for begin_operation; every method is part of its transaction."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def facts(
        self,
        connection: Connection,
        given: BeginGiven,
        context: PreparedContext | None,
        now: Instant,
        *,
        bodies: Bodies,
        party: Party,
        named: str | None = None,
    ) -> tuple[BeginFacts, tuple[Drift, ...], PreparedContext | None, BodyDamaged | None]:
        """Read what a begin is decided upon, what differs from the recorded context, and today's as known.

        The last is what is damaged of what an attempt is weighed upon: none may be granted then.

        Raises:
            NotFound: the operation to compensate is not there.
            InvalidArgument: a dependency is not there, or a circle.
        """
        place = {"namespace": self._view.namespace, "run": given.run}
        row = await connection.fetch_one("read_run", place)
        run = None if row is None else run_from_row(row)
        operation = None
        candidates: tuple[Operation, ...] = ()
        if run is None:
            await refuse_lost(connection, **place)
        elif await self._is_traced(connection, given):
            operation = await load_operation(
                connection, await connection.fetch_one("read_operation", {**place, "key": given.key})
            )
            if operation is None or operation.takes:
                candidates = await self._look_alikes(connection, given)
            elif state_of(operation, now) is State.FAILED:
                # What an import brought since it was begun: a retry is the rarer begin, and may read more.
                candidates = await self._look_alikes(
                    connection, replace(given, description=operation.description)
                )
            if operation is None:
                await refuse_lost(connection, **place, operation=given.id)
        operation, dependencies = await self._waits_for(connection, given, operation)
        compensates = given.compensates
        if operation is not None and not operation.is_damaged and operation.compensates is not None:
            compensates = operation.compensates
        original = None
        if compensates is not None:
            original = await original_of(connection, self._view.namespace, compensates)
            if original is None:
                ref = Reference(id=compensates)
                await operation_or_fault(connection, self._view.namespace, ref, must_exist=True)
            candidates += await self._compensators(connection, compensates, known=candidates)
        recorded = None if run is None else run.context
        if recorded is None and operation is not None and operation.newest is not None:
            recorded = operation.newest.context
        given_today = None if context is None else context.value
        unread: BodyDamaged | None = None
        try:
            recorded_context = await context_of(connection, self._view.namespace, recorded)
            today = await today_of(
                connection, self._view.namespace, run, operation, given_today, recorded=recorded_context
            )
        except BodyDamaged as fault:
            recorded_context, today, unread = None, given_today, fault
        known = None if today is None else context_from(today)
        drifts = compare_contexts(recorded_context, today, self._view.policy.drift)
        gap = await gap_in(connection, self._view.namespace, given.run, self._view.policy.history_lost_at)
        barriers = Barriers(
            has_history_gap=gap(operation),
            is_blocked_by_drift=any(drift.drift_class == "block" for drift in drifts),
        )
        authority = None
        if unread is None:
            try:
                authority = await self._authority(
                    connection,
                    given,
                    operation,
                    barriers,
                    recorded,
                    today,
                    bodies=bodies,
                    principal=party.principal,
                    named=named,
                )
            except BodyDamaged as fault:
                unread = fault
        facts = BeginFacts(
            operation=operation,
            run=run,
            next_position=1 if run is None else run.operations + 1,
            run_created_at=now if run is None else run.created_at,
            others=candidates,
            dependencies=dependencies,
            original=original,
            barriers=barriers,
            today=None if known is None else known.digest,
            gap_at=self._view.policy.history_lost_at,
            is_same_but_for_secrets=operation is not None
            and await self._hides_the_same(connection, operation, given, bodies),
            authority=authority,
            compacted_at=await last_compaction(connection, self._view.namespace, candidates, party),
        )
        return facts, drifts, known, unread

    async def _waits_for(
        self, connection: Connection, given: BeginGiven, operation: Operation | None
    ) -> tuple[Operation | None, Mapping[str, Operation]]:
        """Read the steps that go first, by key: those on record and those given.

        An operation on record that waits for what is not there, or for itself, comes as one that is damaged:
        no begin can have recorded that.

        Raises:
            InvalidArgument: a step that is given is not there, or makes a circle.
        """
        recorded = () if operation is None or operation.is_damaged else operation.depends_on
        found: Mapping[str, Operation] = {}
        if operation is not None and recorded:
            try:
                found = await dependencies_of(
                    connection, operation.namespace, operation.run, recorded, key=operation.key
                )
            except InvalidArgument:
                return misled(operation), {}
        added = tuple(key for key in given.depends_on if key not in found)
        if added:
            more = await dependencies_of(connection, self._view.namespace, given.run, added, key=given.key)
            found = {**found, **more}
        return operation, found

    async def _authority(
        self,
        connection: Connection,
        given: BeginGiven,
        operation: Operation | None,
        barriers: Barriers,
        recorded: str | None,
        today: Mapping[str, Json] | None,
        *,
        bodies: Bodies,
        principal: str,
        named: str | None,
    ) -> AuthorityFacts | None:
        """Read the grants, where one is needed, named, or may lift what stands in the way."""
        policy = self._view.policy
        described = given.description
        if operation is not None and not operation.takes:
            described = operation.description
        if not (
            policy.requires_grant(described)
            or named is not None
            or barriers != NO_BARRIERS
            or (operation is not None and is_out_of_attempts(operation))
        ):
            return None
        bench = await set_up_bench(
            connection,
            namespace=self._view.namespace,
            policy=policy,
            run=given.run,
            run_context=recorded,
            principal=principal,
            today=today,
        )
        text = None
        if described.args_digest is not None:
            text = bodies.texts.get(described.args_digest)
            if text is None and operation is not None:
                text = await read_body(connection, operation, described.args_digest)
        return await authority_facts(
            connection,
            bench,
            operation=given.id,
            described=described,
            args=None if text is None else value_of(text),
            named=named,
        )

    async def _hides_the_same(
        self, connection: Connection, operation: Operation, given: BeginGiven, bodies: Bodies
    ) -> bool:
        """Tell whether only the marks differ that another journal put in place of the same secrets."""
        recorded, offered = operation.description, given.description
        if recorded.fingerprint == offered.fingerprint or recorded.action != offered.action:
            return False
        redactor = self._view.prepare.redactor
        args = given_args = None
        if recorded.args_digest is not None:
            args = await read_body(connection, operation, recorded.args_digest)
        if offered.args_digest is not None:
            given_args = bodies.texts[offered.args_digest]
        return hides_the_same(recorded.target, offered.target, redactor) and hides_the_same(
            args, given_args, redactor
        )

    async def _is_traced(self, connection: Connection, given: BeginGiven) -> bool:
        """Tell whether the run has anything of this effect, or of one that looks like it."""
        terms = {**look_alike_terms(given), "key": given.key}
        return await connection.fetch_one("any_trace", terms) is not None

    async def _look_alikes(self, connection: Connection, given: BeginGiven) -> tuple[Operation, ...]:
        """Read the operations that may be the same effect under another key, damaged ones included.

        Raises:
            JournalUnavailable: the row of one is gone; whether its effect happened cannot be told.
        """
        terms = look_alike_terms(given)
        twin = await connection.fetch_one(
            "lost_twin", {name: terms[name] for name in ("namespace", "run", "fingerprint")}
        )
        if twin is not None:
            raise rows_are_gone(f"operation {twin['operation']}, which has the same effect")
        return await load_operations(connection, await connection.fetch_all("look_alikes", terms))

    async def _compensators(
        self, connection: Connection, original: str, *, known: tuple[Operation, ...]
    ) -> tuple[Operation, ...]:
        rows = await connection.fetch_all(
            "compensators", {"namespace": self._view.namespace, "original": original}
        )
        ids = {row["operation"] for row in rows} - {operation.id for operation in known}
        found = []
        for operation_id in sorted(ids):
            operation = await operation_or_fault(
                connection, self._view.namespace, Reference(id=operation_id), must_exist=True
            )
            if operation is not None:
                found.append(operation)
        return tuple(found)
