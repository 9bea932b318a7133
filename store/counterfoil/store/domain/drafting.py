"""Facts in the making: a decision adds events to a draft, and its verdict is held against the table."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.domain.answers import Verdict, skip_reason
from counterfoil.store.domain.events import Event, EventKind, evolve, terms_to_data, to_data
from counterfoil.store.domain.instants import Instant, Reading
from counterfoil.store.domain.model import Description, Operation, Outcome, Party, State, Terms
from counterfoil.store.domain.states import Policy, clock_jump, decision_at, state_of
from counterfoil.store.domain.table import Command, cell_of

__all__ = ["Creation", "Draft", "Situation", "clock_data", "keeping_payload"]


class Creation(Struct, frozen=True, kw_only=True):
    """What an operation needs to come into being."""

    id: str
    namespace: str
    run: str
    key: str
    position: int
    run_created_at: Instant
    description: Description | None
    compensates: str | None = None


class Situation(Struct, frozen=True, kw_only=True):
    """When, under which configuration, and by whom a command is given."""

    now: Reading
    policy: Policy
    party: Party
    call_id: str | None = None
    is_person: bool = False


def clock_data(now: Reading) -> dict[str, Any]:
    """What later readings are compared with to notice a jump of the wall clock."""
    if now.monotonic is None:
        return {}
    return {"boot": now.boot, "offset": now.at - now.monotonic, "at": now.at}


class Draft:
    """An operation and the events that a decision adds to it, applied as they come."""

    def __init__(self, operation: Operation | None, *, operation_id: str, situation: Situation) -> None:
        """Start from the facts, with what the passing of time has done to them since the last write."""
        self._id = operation_id
        self._situation = situation
        self._operation = operation
        self._events: list[Event] = []
        if operation is not None:
            self.elapse()
        self.before = State.PLANNED if operation is None else self.state

    @property
    def operation(self) -> Operation:
        """The facts as they stand now."""
        if self._operation is None:
            raise LookupError("nothing was created yet")
        return self._operation

    @property
    def events(self) -> tuple[Event, ...]:
        """What was added so far, in order."""
        return tuple(self._events)

    @property
    def state(self) -> State:
        """The state as it stands now."""
        return state_of(self.operation, self.now)

    @property
    def party(self) -> Party:
        """Who gives the command."""
        return self._situation.party

    @property
    def policy(self) -> Policy:
        """Under which configuration the decision is made."""
        return self._situation.policy

    @property
    def now(self) -> Instant:
        """The moment of the decision."""
        return self._situation.now.at

    def add(self, kind: EventKind, /, **data: Any) -> None:
        """Add one event, leaving out what is None."""
        self._events.append(self._applied(kind, data))

    def fix(self, terms: Terms) -> None:
        """Fix the terms, unless they stand so already; one decision fixes them with one event."""
        if terms == self.operation.terms:
            return
        event = self._applied(EventKind.TERMS_FIXED, terms_to_data(terms))
        for place, earlier in enumerate(self._events):
            if earlier.kind is EventKind.TERMS_FIXED:
                self._events[place] = event
                return
        self._events.append(event)

    def _applied(self, kind: EventKind, data: dict[str, Any]) -> Event:
        event = Event(
            kind=kind,
            operation=self._id,
            at=self.now,
            data={name: value for name, value in data.items() if value is not None},
        )
        self._operation = evolve(self._operation, event)
        return event

    def create(self, creation: Creation, *, began: Party | None = None) -> None:
        """Bring the operation into being; `began` is None where nobody began it."""
        if creation.description is None:
            raise LookupError("an operation is created with its action only")
        self.add(
            EventKind.OPERATION_CREATED,
            namespace=creation.namespace,
            run=creation.run,
            key=creation.key,
            position=creation.position,
            since_floor=creation.run_created_at,
            description=to_data(creation.description),
            began=None if began is None else to_data(began),
            compensates=creation.compensates,
        )

    def elapse(self) -> None:
        """Write down what time alone did: a jumped clock, a lease that ran out, a deadline that passed.

        Done at the start of every draft; once more after terms were tightened, which may move a deadline.
        """
        operation = self.operation
        jump = clock_jump(operation, self._situation.now)
        if jump:
            self.add(EventKind.CLOCK_JUMPED, jump=jump, clock=clock_data(self._situation.now))
        newest = operation.newest
        if newest is not None and newest.outcome is Outcome.OPEN and self.now >= newest.lease_until:
            self.add(EventKind.LEASE_RAN_OUT, attempt=newest.number)
        passed = decision_at(operation, self.now)
        if passed is not None and operation.decision is None:
            self.add(
                EventKind.DEADLINE_PASSED,
                outcome=passed.outcome.value,
                by=passed.by,
                reason=passed.reason,
                since=passed.at,
            )

    def verdict(
        self,
        command: Command,
        row: str,
        *,
        state: State | None = None,
        reason: str | None = None,
        fields: dict[str, Any] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> Verdict:
        """Answer with the table's cell for `row` in the state before (or in `state`).

        Raises:
            LookupError: the cell cannot occur, or the facts would lead elsewhere than it says. Nothing may
                be written then.
        """
        before = self.before if state is None else state
        cell = cell_of(command, row, before)
        expected = cell.to or self.before
        if self.state is not expected and not row.endswith("decision_stands"):
            raise LookupError(f"{command}: {row} leads from {before} to {self.state}, not {expected}")
        verb, why = cell.next, cell.reason
        if verb == "skip":
            why = skip_reason(before)
        elif verb == "disputed":
            dispute = self.operation.dispute
            verb = "ask" if dispute is not None and dispute.kind.needs_person else "reconcile"
        return self.answer(verb, reason or why, row=row, fields=fields, warnings=warnings)

    def answer(
        self,
        verb: str,
        reason: str,
        *,
        row: str | None = None,
        fields: dict[str, Any] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> Verdict:
        """Answer with a verb and a reason that no cell gives (gates, and what stops before any state)."""
        return Verdict(
            next=verb,
            reason=reason,
            row=row,
            events=tuple(self._events),
            after=self._operation,
            fields=fields or {},
            warnings=warnings,
        )


def keeping_payload(said: Description, recorded: Description) -> Description:
    """Give a description as it is said, with the payload that is on record where there is one."""
    if recorded.payload_digest is None:
        return said
    return replace(
        said,
        payload_digest=recorded.payload_digest,
        payload_keyed=recorded.payload_keyed,
        payload_redacted=recorded.payload_redacted,
    )
