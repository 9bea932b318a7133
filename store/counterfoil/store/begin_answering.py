"""What begin_operation answers: what was decided, with all that the caller needs to act on it rightly."""

from collections.abc import Mapping
from typing import Any

from counterfoil.store.contexts import drift_shown, review_warning
from counterfoil.store.domain.answers import REQUESTED, Verdict, damage_warning
from counterfoil.store.domain.begin import BeginFacts, BeginGiven
from counterfoil.store.domain.context import Drift
from counterfoil.store.domain.differences import differences
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Operation
from counterfoil.store.domain.untrusted import safe_value
from counterfoil.store.preparing import Bodies
from counterfoil.store.presenting import answer_head, value_of, without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import misnamed_in, read_body, warnings_of_others
from counterfoil.store.standing_requests import request_standing
from counterfoil.store.viewing import Viewer, damaged_shown, keys_shown
from counterfoil.store.weighing import authority_shown

__all__ = ["BeginAnswering"]

_PRUNED = '"pruned: only its digest is on file"'


class BeginAnswering:
    """Answers begin_operation; every method is part of its transaction."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

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
        if operation is not None:
            asked = await request_standing(
                connection, operation, next_=verdict.next, reason=verdict.reason, policy=self._view.policy
            )
            answer.update(asked)
            if asked:
                answer["guidance"] = REQUESTED[asked["request_state"]]
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
        if verdict.next == "perform":
            warnings += review_warning(drifts)
        warnings += await misnamed_in(connection, facts.run, given.satisfies)
        if operation is not None:
            if _brings_another_payload(operation, given):
                warnings.append(_ANOTHER_PAYLOAD if operation.pruned_at is None else _PRUNED_PAYLOAD)
            if verdict.next == "perform" and any(receipt.is_foreign for receipt in operation.receipts):
                warnings.append(_FOREIGN)
            if verdict.next == "perform" and facts.operation is not None and _is_redacted(operation):
                warnings.append(_PLACEHOLDERS)
            warnings += await warnings_of_others(
                connection, operation, situation.party, is_new=facts.operation is None
            )
        if warnings:
            answer["warnings"] = list(dict.fromkeys(warnings))
        return answer

    def damaged(self, operation: Operation, now: Instant) -> dict[str, Any]:
        """Answer for an operation whose rows cannot be read: in doubt, and nothing is written."""
        return {**answer_head("reconcile", "in_doubt", now), **damaged_shown(operation)}

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

        def effect(
            action: str, target: str | None, args: str | None, compensates: str | None
        ) -> Mapping[str, Any]:
            shown = None if args is None else value_of(args)
            return without_none(
                {"action": action, "target": target, "args": shown, "compensates": compensates}
            )

        recorded, offered = operation.description, given.description
        # What a begin does not say of the undoing is no difference.
        undone = None if given.compensates is None else operation.compensates
        recorded_args = (
            None
            if recorded.args_digest is None
            else await read_body(connection, operation, recorded.args_digest) or _PRUNED
        )
        given_args = None if offered.args_digest is None else bodies.texts[offered.args_digest]
        found = differences(
            effect(recorded.action, recorded.target, recorded_args, undone),
            effect(offered.action, offered.target, given_args, given.compensates if undone else None),
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


_ANOTHER_PAYLOAD = "the payload given differs from the recorded one: send the recorded one, unchanged"
_PRUNED_PAYLOAD = (
    "the payload given differs from the recorded one, which was pruned: nobody can send that any more, and a "
    "system that knows this idempotency key from it may refuse another"
)
_FOREIGN = (
    "a receipt was recorded here that did not fit this effect (check_operation shows it): look whether it "
    "was this effect before you perform it"
)
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
