"""What is read beside a receipt before it is decided upon: criteria, whose its reference is, what it says."""

import json
from contextlib import suppress

from msgspec.structs import replace

from counterfoil.store.comparing import hides_the_same
from counterfoil.store.domain.commands import Criterion, ReceiptGiven
from counterfoil.store.domain.criteria import misnamed, satisfaction_text
from counterfoil.store.domain.model import Operation, Run
from counterfoil.store.domain.names import fold_spelling, may_be_one_target
from counterfoil.store.domain.receipts import ReceiptFacts
from counterfoil.store.errors import BodyDamaged, InvalidArgument
from counterfoil.store.preparing import Bodies, Reference
from counterfoil.store.preparing_reports import prepare_receipt
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import criteria_of, operation_or_fault, read_body
from counterfoil.store.viewing import Viewer

__all__ = ["ReceiptReading", "check_attempt"]


class ReceiptReading:
    """Reads what a receipt is weighed upon; every method is part of a transaction."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def facts(
        self,
        connection: Connection,
        given: ReceiptGiven,
        bodies: Bodies,
        operation: Operation | None,
        run: Run | None,
        ref: Reference,
        *,
        is_of_undoing: bool = False,
    ) -> ReceiptFacts:
        """Prepare a receipt with what the journal knows of its reference and of the criteria.

        `is_of_undoing`: it is that of the undoing of the operation, and not of the operation's own effect.

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
            is_said = bool(given.satisfies) or receipt.external_id is not None
            receipt = replace(
                receipt,
                satisfies=satisfaction_text(satisfied, criteria),
                misnamed=misnamed(satisfied, criteria) if is_said else (),
            )
        if receipt.attempt is not None:
            check_attempt(operation, receipt.attempt)
        if operation is not None:
            receipt = replace(receipt, contradicts=await self._contradicted(connection, operation, given))
        if receipt.external_id is None:
            return receipt
        other = await connection.fetch_one(
            "other_owner_of_undoing" if is_of_undoing else "other_owner",
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

        A target that is worded at more length, and what either of them leaves out, contradicts nothing.
        """
        if given.action is None and given.target is None and given.args is None:
            return ()
        prepare, recorded = self._view.prepare, operation.description
        bodies = Bodies()
        said = prepare.description(given.action or recorded.action, given.target, given.args, None, bodies)
        found = []
        if fold_spelling(said.action) != fold_spelling(recorded.action):
            found.append("action")
        if not may_be_one_target(recorded.target, said.target) and not hides_the_same(
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


def check_attempt(operation: Operation | None, number: int) -> None:
    """Make sure that an attempt of that number was granted.

    Raises:
        InvalidArgument: it was not; the numbers that exist are named.
    """
    granted = () if operation is None else operation.granted
    if not any(attempt.number == number for attempt in granted):
        numbers = ", ".join(str(attempt.number) for attempt in granted) or "none was granted"
        raise InvalidArgument("attempt", f"{number} does not exist", accepted=f"one of: {numbers}")
