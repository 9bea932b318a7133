"""begin_operation around its decision: what is read before it, and what is answered after it."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from counterfoil.store.comparing import hides_the_same
from counterfoil.store.contexts import PreparedContext, context_from, drift_shown
from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.begin import BeginFacts, BeginGiven
from counterfoil.store.domain.context import Drift, compare_contexts
from counterfoil.store.domain.differences import differences
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.grants import AuthorityFacts, is_out_of_attempts
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.domain.model import Operation, Party, State
from counterfoil.store.domain.outlook import NO_BARRIERS, Barriers
from counterfoil.store.domain.states import state_of
from counterfoil.store.domain.untrusted import safe_value
from counterfoil.store.errors import BodyDamaged, InvalidArgument
from counterfoil.store.gaps import gap_in
from counterfoil.store.preparing import Bodies, Reference
from counterfoil.store.presenting import answer_head, value_of, without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import (
    dependencies_of,
    last_compaction,
    look_alike_terms,
    operation_or_fault,
    read_body,
    warnings_of_others,
)
from counterfoil.store.rows import (
    load_operation,
    load_operations,
    misled,
    refuse_lost,
    rows_are_gone,
    run_from_row,
)
from counterfoil.store.viewing import Viewer, damage_warning, damaged_shown, keys_shown
from counterfoil.store.weighing import authority_facts, authority_shown, context_of, set_up_bench, today_of

__all__ = ["Beginning"]

_PRUNED = '"pruned: only its digest is on file"'


class Beginning:
    """Reads and answers for begin_operation; every method is part of its transaction."""

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
        if operation is None or operation.is_damaged:
            compensates = given.compensates
        else:
            compensates = given.compensates or operation.compensates
        original = None
        if compensates is not None:
            original = await operation_or_fault(
                connection, self._view.namespace, Reference(id=compensates), must_exist=True
            )
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
                operation = misled(operation)
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

    def damaged(self, operation: Operation, now: Instant) -> dict[str, Any]:
        """Answer for an operation whose rows cannot be read: in doubt, and nothing is written."""
        return {**answer_head("reconcile", "in_doubt", now), **damaged_shown(operation)}

    async def answer(
        self,
        connection: Connection,
        given: BeginGiven,
        facts: BeginFacts,
        verdict: Verdict,
        situation: Situation,
        bodies: Bodies,
        drifts: tuple[Drift, ...],
    ) -> dict[str, Any]:
        """Say what was decided, with all that the caller needs to act on it rightly."""
        now = situation.now.at
        operation = verdict.after or facts.operation
        answer: dict[str, Any] = self._view.present.verdict(verdict, now)
        if operation is None:
            answer.update(run=given.run, key=given.key)
        else:
            answer.update(self._view.present.place(operation, now))
        attempt = verdict.fields.get("attempt")
        if operation is not None and attempt is not None and verdict.next in ("perform", "wait"):
            answer.update(self._view.present.grant(attempt, operation))
            if verdict.reason == "lease_held":
                del answer["idempotency_key"], answer["send_before"]
            if verdict.next == "wait":
                answer["retry_at"] = rfc3339(attempt.lease_until)
        if verdict.next == "perform" and operation is not None:
            answer["replayed"] = verdict.reason == "replayed"
            answer.update(without_none({"repeat_until": self._view.present.repeat_until(operation)}))
        if "retry_at" in verdict.fields:
            answer["retry_at"] = rfc3339(verdict.fields["retry_at"])
        if "waits_for" in verdict.fields:
            answer["waits_for"] = keys_shown(verdict.fields["waits_for"])
        if operation is not None and verdict.next in ("reconcile", "ask"):
            answer.update(await self._view.doubt(connection, operation, now))
        if operation is not None and verdict.next == "skip":
            answer.update(self._view.settled(operation, now))
        if facts.operation is not None:
            answer["recorded"] = await self._recorded(
                connection, operation or facts.operation, is_to_be_sent=verdict.next == "perform"
            )
        if verdict.fields.get("conflict") and facts.operation is not None:
            answer["conflict"] = await self._conflict(connection, facts.operation, given, bodies)
        shown_drift = drift_shown(drifts) or []
        authority = verdict.fields.get("authority")
        if authority is not None and verdict.next == "ask":
            shown = authority_shown(authority)
            shown_drift += [found for found in shown.pop("drift", ()) if found not in shown_drift]
            answer.update(shown)
        if attempt is not None and attempt.grant_id is not None and verdict.next == "perform":
            answer["grant"] = attempt.grant_id
        if shown_drift:
            answer["drift"] = shown_drift
        if operation is not None and operation.checkpoint is not None:
            answer["checkpoint"] = await self._view.body(
                connection, operation, operation.checkpoint, detail="checkpoint"
            )
        if "duplicates" in verdict.fields:
            alike = verdict.fields["duplicates"]
            answer["duplicates"] = self._view.present.duplicates(alike, now)
            answer["recorded"] = {
                "operation": alike[0].operation.id,
                **await self._recorded(connection, alike[0].operation, is_to_be_sent=False),
            }
        warnings = list(verdict.warnings)
        unread = [alike.operation for alike in verdict.fields.get("duplicates", ())]
        unread += [*facts.dependencies.values(), *(() if facts.original is None else (facts.original,))]
        warnings += [damage_warning(other) for other in unread[:20] if other.is_damaged]
        if operation is not None:
            if _brings_another_payload(operation, given):
                warnings.append(
                    "the payload given differs from the recorded one: send the recorded one, unchanged"
                )
            if verdict.next == "perform" and facts.operation is not None and _is_redacted(operation):
                warnings.append(_PLACEHOLDERS)
            warnings += await warnings_of_others(
                connection, operation, situation.party, is_new=facts.operation is None
            )
        if warnings:
            answer["warnings"] = warnings
        return answer

    async def _recorded(
        self, connection: Connection, operation: Operation, *, is_to_be_sent: bool
    ) -> dict[str, Any]:
        """Show what was recorded; what is to be sent again has to be that, to the byte.

        Raises:
            BodyDamaged: it is to be sent, and is not what was recorded.
        """
        description = operation.description
        recorded: dict[str, Any] = {}
        for name, body_digest in (
            ("args", description.args_digest),
            ("payload", description.payload_digest),
        ):
            if body_digest is not None:
                recorded[name] = await self._view.body(
                    connection, operation, body_digest, detail=name, must_be_whole=is_to_be_sent
                )
        return recorded

    async def _conflict(
        self, connection: Connection, operation: Operation, given: BeginGiven, bodies: Bodies
    ) -> list[dict[str, Any]]:
        """List every path at which the effect given differs from the effect on record."""

        def effect(action: str, target: str | None, args: str | None) -> Mapping[str, Any]:
            parts = {"action": action, "target": target, "args": None if args is None else value_of(args)}
            return without_none(parts)

        recorded, offered = operation.description, given.description
        recorded_args = (
            None
            if recorded.args_digest is None
            else await read_body(connection, operation, recorded.args_digest) or _PRUNED
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


_PLACEHOLDERS = (
    "recorded holds placeholders ([redacted:…]) where secrets were: never send one; put the values that they "
    "stand for in their places, and if you do not have them, do not send, but record_failure with effect "
    "none and the evidence that nothing was sent"
)


def _is_redacted(operation: Operation) -> bool:
    return operation.description.args_redacted or operation.description.payload_redacted


def _brings_another_payload(operation: Operation, given: BeginGiven) -> bool:
    """Compare payloads by what was sent; a placeholder sent back stands for its value."""
    given_, recorded = given.description, operation.description
    if given_.payload_keyed is None:
        return False
    return given_.payload_keyed != recorded.payload_keyed and given_.payload_digest != recorded.payload_digest
