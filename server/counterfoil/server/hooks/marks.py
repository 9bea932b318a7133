"""By what a call and its parts are known again: keys and marks, those on file, and the noting of them."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.server.hooks.call import Call
from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.identities import (
    former_identities_of,
    identity_of,
    likeness_marks,
    once_marks,
    wide_mark,
)
from counterfoil.store.attending_calls import HeldAttempt
from counterfoil.store.domain.commands import Caller, OperationRef, ReceiptGiven, RecordReceipt
from counterfoil.store.domain.model import State

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["OPEN_OR_DONE", "SYSTEM", "UNSETTLED", "Identity", "Marks"]

SYSTEM = "counterfoil:hook"
"""The system of the marks by which a call is known again at an agent's own operation."""

OPEN_OR_DONE = frozenset(State) - {State.PLANNED, State.FAILED}
UNSETTLED = frozenset((State.IN_PROGRESS, State.IN_DOUBT, State.DISPUTED))


class Identity(Struct, frozen=True, kw_only=True):
    """What a call is known by in a run; `former` are pairs of key and mark as they once were made."""

    run: str
    key: str
    mark: str
    args: Mapping[str, Any]
    former: tuple[tuple[str, str], ...] = ()


class Marks:
    """The keys and marks of the calls of one event. `apart` tells a call apart whose words cannot."""

    def __init__(self, journal: "Journal", *, event: HookEvent, caller: Caller, apart: str) -> None:
        self._journal = journal
        self._event = event
        self._caller = caller
        self._apart = apart
        # By who they are, which each entry holds on to.
        self._identities: dict[tuple[int, str | None], tuple[Call, Identity]] = {}
        self._alike: dict[int, tuple[Effect, tuple[str, ...]]] = {}

    def identity(self, call: Call, run: str) -> Identity:
        """Give what a call is known by in a run."""
        # Secrets are looked for in all that is sent, which takes its time: once for the same.
        place = id(call.args), call.own_key
        if place not in self._identities:
            key, mark, args = identity_of(call, redact=self._journal.hidden, call_id=self._apart)
            former = former_identities_of(call, redact=self._journal.hidden, call_id=self._apart)
            self._identities[place] = call, Identity(run=run, key=key, mark=mark, args=args, former=former)
        return replace(self._identities[place][1], run=run)

    def _likeness(self, part: Call) -> tuple[str, ...]:
        effect = part.effects[0]
        if id(effect) not in self._alike:
            self._alike[id(effect)] = effect, likeness_marks(part, redact=self._journal.hidden)
        return self._alike[id(effect)][1]

    async def on_file(self, identity: Identity, *, system: str | None = SYSTEM) -> tuple[HeldAttempt, ...]:
        """Give what is on record of a call, whoever began it."""
        names = ((identity.key, identity.mark), *identity.former)
        found: dict[str, HeldAttempt] = {}
        for key, mark in names:
            on_file = await self._journal.calls.on_file(run=identity.run, key=key, system=system, mark=mark)
            found = {**{known.operation: known for known in on_file}, **found}
        return tuple(found.values())

    async def elsewhere(self, identity: Identity) -> tuple[HeldAttempt, ...]:
        """Give what is on record of the same call in other runs."""
        return await self._journal.calls.elsewhere(
            run=identity.run, key=identity.key, system=SYSTEM, mark=identity.mark
        )

    async def parts_on_file(self, call: Call, identity: Identity) -> list[tuple[HeldAttempt, Call]]:
        """Give what stands in the way of a part of a call: the same effect alone, or composed otherwise.

        Nothing where the call names its key: who names the effect says whether it is another one. Nor does
        anything in the way of what is safe to repeat.

        What was marked as alike stands in the way while it is not settled; what was done to a target that is
        acted on once, with the same state or as a version of a package, stands there for good.
        """
        found: list[tuple[HeldAttempt, Call]] = []
        for part in () if call.own_key is not None else call.parts:
            if part.repeat == "safe":
                continue
            own = self.identity(part, identity.run)
            standing: dict[str, HeldAttempt] = {}
            if part.is_known and part.is_readable:
                on_file = await self.on_file(own, system=None)
                standing |= {known.operation: known for known in on_file if known.state in OPEN_OR_DONE}
            once = once_marks(part, redact=self._journal.hidden)
            former = once_marks(part, redact=self._journal.hidden, is_former=True)
            wide = wide_mark(part, redact=self._journal.hidden)
            alike_by = (*once[:1], *former[:1], *self._likeness(part), *(() if wide is None else (wide,)))
            for mark in alike_by:
                alike = await self._marked(own, mark)
                standing |= {known.operation: known for known in alike if known.state in UNSETTLED}
            for mark in (*once[1:], *former[1:]):
                same = await self._marked(own, mark)
                standing |= {known.operation: known for known in same if known.state in OPEN_OR_DONE}
            found += [(known, part) for known in standing.values() if known.key != identity.key]
        return found

    async def _marked(self, own: Identity, mark: str) -> tuple[HeldAttempt, ...]:
        """Give the operation of a part alone, and those that are marked by it under whatever system."""
        return await self._journal.calls.on_file(run=own.run, key=own.key, system=None, mark=mark)

    async def note(self, call: Call, *, operation: str, attempt: int) -> Mapping[str, Any] | None:
        """Note at an operation by what its call and each part of it are met again; give a refusal, if any."""
        refusal = await self._mark_parts(call, operation=operation, attempt=attempt)
        if refusal is None and self._caller.call_id is None:
            refusal = await self._mark_pair(operation=operation, attempt=attempt)
        return refusal

    async def _mark_parts(self, call: Call, *, operation: str, attempt: int) -> Mapping[str, Any] | None:
        """Note at an operation by what each part of its call is met alone; give a refusal, if any."""
        marks: list[str] = []
        parts = call.parts
        is_composed = len(call.effects) > 1 or len(parts) > 1
        for part in parts:
            words, action = self._likeness(part)
            marks += once_marks(part, redact=self._journal.hidden)
            wide = wide_mark(part, redact=self._journal.hidden) if part.is_wide else None
            marks += [] if wide is None else [wide]
            if part.is_known and part.is_readable:
                marks += [self.identity(part, "").mark] if is_composed else []
            else:
                is_told = part.target is not None and not part.effects[0].is_vague
                marks += [words] if is_told else [words, action]
        for mark in dict.fromkeys(marks):
            # One mark may be met at many operations: under one system it would be one reference of two.
            answer = await self.acknowledge(
                mark, operation=operation, attempt=attempt, system=f"{SYSTEM}:{operation}"
            )
            if answer["next"] != "continue":
                return answer
        return None

    async def _mark_pair(self, *, operation: str, attempt: int) -> Mapping[str, Any] | None:
        """Note by what the end of a call without an id finds its beginning; give a refusal, if any."""
        system = f"{SYSTEM}:{operation}"
        answer = await self.acknowledge(self.pair(), operation=operation, attempt=attempt, system=system)
        return None if answer["next"] == "continue" else answer

    def pair(self) -> str:
        """Give what both ends of a call without an id tell alike: conversation, tool and input."""
        told = [self._caller.connection, self._event.tool, self._event.input]
        text = json.dumps(told, sort_keys=True, ensure_ascii=True, default=str)
        return f"pair:{hashlib.sha256(text.encode()).hexdigest()}"

    async def acknowledge(
        self, mark: str, *, operation: str, attempt: int, system: str = SYSTEM
    ) -> Mapping[str, Any]:
        """Note a mark at an attempt, as a receipt that settles nothing."""
        return await self._journal.record_receipt(
            RecordReceipt(
                ref=OperationRef(operation=operation),
                receipt=ReceiptGiven(
                    attempt=attempt,
                    external_id=mark,
                    system=system,
                    final=False,
                    assurance="captured",
                    evidence={"tool": self._event.tool, "call": self._event.call_id or ""},
                ),
            ),
            self._caller,
        )
