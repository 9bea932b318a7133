"""What can happen next in a small world: time, the provider, sessions that are late, and people.

Nobody lies beyond what the world's assumptions allow; everybody may be slow, forget, stop for good, or say
the same thing again much later. Stopping and crashing need no move: a session may simply never move again.
"""

from collections.abc import Iterator
from typing import NamedTuple

from counterfoil.store.domain.model import State
from domain.search.deciding import NOTHING, TICK, Command, Decided, Deciding, Violation
from domain.search.worlds import World

__all__ = ["Effect", "Moves", "Reply", "Request", "Sight", "Situation"]

_FOUND_ELSEWHERE = "m-of-another-effect"


class Request(NamedTuple):
    """A permission not yet used, or a request on its way."""

    session: int
    about: int
    attempt: int
    generation: int


class Effect(NamedTuple):
    """Something that the provider did, and whether its lookup shows it."""

    about: int
    attempt: int
    generation: int
    at: int
    is_visible: bool = True


class Reply(NamedTuple):
    """What a session knows of a request that it sent: a reference, or one of unknown, refused, queued."""

    session: int
    about: int
    attempt: int
    said: str


class Sight(NamedTuple):
    """What a session saw when it looked, and the `as_of` of the answer that had sent it to look."""

    session: int
    about: int
    as_of: int
    seen: str


class Situation(NamedTuple):
    """Everything that there is in a world at one moment; `facts` are the numbers of `Deciding`."""

    clock: int
    facts: tuple[int, ...]
    tickets: frozenset[Request] = frozenset()
    flying: frozenset[Request] = frozenset()
    effects: tuple[Effect, ...] = ()
    replies: frozenset[Reply] = frozenset()
    sights: frozenset[Sight] = frozenset()
    waiting: frozenset[tuple[int, str]] = frozenset()
    """Begins whose answer was lost: the session, and the call id."""
    words: int = 0
    """How often a person said something that changed the facts."""


Step = tuple[str, Situation]


class Moves:
    """The moves of one world."""

    def __init__(self, world: World, deciding: Deciding) -> None:
        self.world, self.deciding = world, deciding

    @property
    def start(self) -> Situation:
        """Nothing has happened yet."""
        return Situation(clock=0, facts=(NOTHING,) * self.world.keys)

    def all(self, now: Situation) -> Iterator[Step]:
        """Give everything that can happen next, in words, and what it leads to.

        Raises:
            Violation: something must not happen, and would; the message begins with the move.
        """
        yield from self._time(now)
        yield from self._provider(now)
        for session in range(1, self.world.sessions + 1):
            yield from self._begins(now, session)
            yield from self._sends(now, session)
            yield from self._looks(now, session)
        yield from self._reports(now)
        if now.words < self.world.people:
            yield from self._people(now)

    # Time

    def _holds(self, name: str) -> bool:
        return name in self.world.holds

    def _is_late(self, now: Situation, about: int, attempt: int, clock: int, *, after: int) -> bool:
        """Tell whether a request, or an effect, is beyond what A2 or A3 allow it."""
        return self._is_over(now, about, attempt, clock - (after if self.world.apart else 0))

    def _is_over(self, now: Situation, about: int, attempt: int, clock: int) -> bool:
        return clock >= self.deciding.settle_ends(now.facts[about], attempt)

    def _time(self, now: Situation) -> Iterator[Step]:
        if now.clock >= self.world.horizon or now == self.start:
            return
        clock = now.clock + 1
        for number in now.facts:
            was, becomes = self.deciding.state(number, now.clock), self.deciding.state(number, clock)
            may_end = becomes is State.IN_DOUBT and was is State.IN_PROGRESS
            may_end |= becomes is State.TIMED_OUT and was in (State.IN_DOUBT, State.IN_PROGRESS, State.FAILED)
            if was is not becomes and not may_end:
                raise Violation("no state flips silently", f"time made {becomes} of {was}")
        flying, effects, tickets = now.flying, now.effects, now.tickets
        if self._holds("A1") and not self.world.heartbeats:
            # Nobody may send these any more; only a heartbeat could bring their lease back.
            tickets = frozenset(
                ticket for ticket in tickets if not self._is_over(now, ticket.about, ticket.attempt, clock)
            )
        if self._holds("A2"):
            flying = frozenset(
                request
                for request in flying
                if not self._is_late(now, request.about, request.attempt, clock, after=1)
            )
        if self._holds("A3"):
            effects = tuple(
                effect._replace(
                    is_visible=effect.is_visible
                    or self._is_late(now, effect.about, effect.attempt, clock, after=2)
                )
                for effect in effects
            )
        yield (
            "time passes",
            now._replace(clock=clock, flying=flying, effects=effects, tickets=tickets),
        )

    # The provider

    def _arrive(self, now: Situation, request: Request) -> tuple[Situation, str]:
        """Let the provider take a request; give the reference that it answers with."""
        world = self.world
        kept = -1.0 if world.key_ttl is None else world.key_ttl - (0 if self._holds("A8") else 2)
        for number, effect in enumerate(now.effects, start=1):
            is_same_key = (effect.about, effect.generation) == (request.about, request.generation)
            if is_same_key and now.clock < effect.at + kept:
                return now, f"m-{number}"
        effect = Effect(request.about, request.attempt, request.generation, now.clock, not world.lag)
        after = now._replace(effects=(*now.effects, effect))
        alike = [known for known in after.effects if not world.is_undo or known.about == request.about]
        if len(alike) > 1 and world.repeat != "safe" and not world.erring:
            raise Violation("no effect happens twice", f"attempt {request.attempt} had a second effect")
        return after, f"m-{len(after.effects)}"

    def _provider(self, now: Situation) -> Iterator[Step]:
        for request in sorted(now.flying):
            arrived = self._guarded(f"the request of attempt {request.attempt} takes effect", now, request)
            after, reference = arrived
            after = after._replace(flying=after.flying - {request})
            yield f"the request of attempt {request.attempt} takes effect; the reply is lost", after
            if self.world.late_replies:
                yield (
                    f"the request of attempt {request.attempt} takes effect; the reply comes late",
                    self._reply(after, request, reference),
                )

    def _guarded(self, words: str, now: Situation, request: Request) -> tuple[Situation, str]:
        try:
            return self._arrive(now, request)
        except Violation as violation:
            raise violation.by(words) from None

    @staticmethod
    def _reply(now: Situation, request: Request, said: str) -> Situation:
        about_it = (request.session, request.about, request.attempt)
        others = frozenset(reply for reply in now.replies if reply[:3] != about_it)
        return now._replace(replies=others | {Reply(*about_it, said)})

    # Sessions

    def _decide(self, now: Situation, command: Command, words: str) -> tuple[Decided, Situation, str]:
        about = command.about
        others: tuple[int, ...] = ()
        if command.kind == "begin":
            others = tuple(fact for fact in now.facts if fact not in (NOTHING, now.facts[about]))
        try:
            decided = self.deciding.decide(command, now.facts[about], now.clock, others)
        except Violation as violation:
            raise violation.by(words) from None
        facts = (*now.facts[:about], decided.after, *now.facts[about + 1 :])
        try:
            if self.world.is_undo:
                facts = self._undone(now, command, decided, facts)
            elif len(facts) == 1:
                self._check_truth(now, decided)
        except Violation as violation:
            raise violation.by(words) from None
        return (
            decided,
            now._replace(facts=facts),
            f"{words}: {decided.next} {decided.reason}",
        )

    def _tell(self, now: Situation, command: Command, words: str) -> Step:
        _decided, after, told = self._decide(now, command, words)
        return told, after

    def _check_truth(self, now: Situation, decided: Decided) -> None:
        if decided.after == NOTHING or now.effects:
            return
        if self.deciding.state(decided.after, now.clock) is State.SUCCEEDED:
            raise Violation("succeeded is true", "succeeded, and there is no effect")

    def _undone(
        self, now: Situation, command: Command, decided: Decided, facts: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Let a success of the undoing reach the original, and hold what must be true of the two."""
        original, undoing = facts
        if command.about == 1 and decided.attempt is not None:
            state = self.deciding.state(original, now.clock)
            if state is not State.SUCCEEDED or all(effect.about != 0 for effect in now.effects):
                raise Violation("an undoing has something to undo", f"granted while the original is {state}")
        is_done = undoing != NOTHING and self.deciding.state(undoing, now.clock) is State.SUCCEEDED
        if command.about == 1 and command.kind != "begin" and is_done:
            original = self.deciding.undo(original, command, now.clock)
        if self.deciding.state(original, now.clock) is State.COMPENSATED and all(
            effect.about != 1 for effect in now.effects
        ):
            raise Violation("compensated is true", "compensated, and nothing was undone")
        return original, undoing

    def _begins(self, now: Situation, session: int) -> Iterator[Step]:
        world = self.world
        for about in range(world.keys):
            if now == self.start and (session, about) != (1, 0):
                continue  # Whoever comes first is session 1, and the clock counts from there.
            # A session that lost its memory uses another key; it may learn the old one from the answer.
            number = now.facts[about]
            words = f"session {session} begins" + ("" if world.keys == 1 else f" key {about + 1}")
            variants = [""]
            if not self._holds("A6") and about > 0:
                variants = ["another target"]
            if world.other_effects and session > 1:
                variants.append("another effect")
            if world.looser is not None and session > 1:
                variants = ["looser"]
            for variant in variants:
                yield from self._begin(now, session, about, variant, words, number)
            if world.redelivery:
                yield from self._redeliveries(now, session, about, words)

    def _begin(
        self, now: Situation, session: int, about: int, variant: str, words: str, number: int
    ) -> Iterator[Step]:
        world = self.world
        granted = 0 if number == NOTHING else len(self.deciding.facts(number).granted)
        call = None
        if not self._holds("A9"):
            call = f"call-{session}"
        elif world.redelivery:
            call = f"call-{session}-{granted + 1}"
        command = Command("begin", session, about, reference=call, words=variant)
        decided, after, words = self._decide(now, command, words + (f" with {variant}" if variant else ""))
        if decided.attempt is None:
            yield words, after
            return
        if self._grants(after) > world.attempts:
            return
        ticket = Request(session, about, decided.attempt, decided.generation)
        named = f"{words} (attempt {decided.attempt}, key {decided.generation})"
        yield named, after._replace(tickets=after.tickets | {ticket})
        if world.redelivery and call is not None:
            yield (
                f"{named}, and the answer is lost",
                after._replace(waiting=after.waiting | {(session, call)}),
            )

    def _grants(self, now: Situation) -> int:
        return sum(len(self.deciding.facts(number).granted) for number in now.facts if number != NOTHING)

    def _redeliveries(self, now: Situation, session: int, about: int, words: str) -> Iterator[Step]:
        """The same begin again: sent by a session that waits for its answer, or a copy that nobody reads."""
        number = now.facts[about]
        if number == NOTHING:
            return
        for attempt in self.deciding.facts(number).granted:
            call = attempt.call_id
            if call is None or not call.startswith(f"call-{session}-"):
                continue
            command = Command("begin", session, about, reference=call)
            decided, after, told = self._decide(now, command, f"{words} by the same call {call} again")
            if (session, call) in now.waiting and decided.attempt is not None:
                ticket = Request(session, about, decided.attempt, decided.generation)
                yield (
                    told,
                    after._replace(
                        tickets=after.tickets | {ticket}, waiting=after.waiting - {(session, call)}
                    ),
                )
            yield f"{told} (nobody reads it)", after

    def _sends(self, now: Situation, session: int) -> Iterator[Step]:
        world = self.world
        for ticket in sorted(now.tickets):
            if ticket.session != session:
                continue
            if self._holds("A1") and self._is_over(now, ticket.about, ticket.attempt, now.clock):
                continue
            words = f"session {session} sends attempt {ticket.attempt}"
            used = now._replace(tickets=now.tickets - {ticket})
            after, reference = self._guarded(words, used, ticket)
            yield f"{words}: it takes effect", self._reply(after, ticket, reference)
            yield f"{words}: it takes effect, and the reply is lost", self._reply(after, ticket, "unknown")
            flying = used._replace(flying=used.flying | {ticket})
            yield f"{words}: no reply yet", self._reply(flying, ticket, "unknown")
            if world.acknowledgements:
                yield f"{words}: queued", self._reply(flying, ticket, "queued")
            if world.refusals:
                yield f"{words}: refused", self._reply(used, ticket, "refused")
            if not self._holds("A7"):
                yield (
                    f"{words}: it takes effect, and a proxy says refused",
                    self._reply(after, ticket, "refused"),
                )
            if not self._holds("A10"):
                words += ", and the SDK once more"
                again = after._replace(flying=after.flying | {ticket})
                yield (
                    f"{words}: it takes effect, the second is under way",
                    self._reply(again, ticket, reference),
                )
                if world.refusals:
                    yield f"{words}: refused, the second is under way", self._reply(flying, ticket, "refused")

    def _looks(self, now: Situation, session: int) -> Iterator[Step]:
        world = self.world
        if not world.has_lookup:
            return
        for about, number in enumerate(now.facts):
            if number == NOTHING:
                continue
            state = self.deciding.state(number, now.clock)
            if state not in (State.IN_DOUBT, State.DISPUTED) and not (
                world.hasty and state in (State.IN_PROGRESS, State.SUCCEEDED)
            ):
                continue
            words = f"session {session} looks"
            others = frozenset(
                sight
                for sight in now.sights
                if sight.about != about or (world.own_sights and sight.session != session)
            )
            seen = self._seen(now, about)
            shown = {seen}
            if not self._holds("A4"):
                shown.add("nothing")
            if not self._holds("A5"):
                shown.add(_FOUND_ELSEWHERE)
            if world.unclear:
                shown.add("unclear")
            for what in sorted(shown):
                sight = Sight(session, about, now.clock, what)
                after = now._replace(sights=others | {sight})
                if what == "nothing" and world.is_conclusive and self._holds("A12"):
                    after = self._fence(after, about)
                yield f"{words} and sees {what}{self._why(now, about) if what == 'nothing' else ''}", after

    def _seen(self, now: Situation, about: int) -> str:
        """What an honest look shows; who looks leaves out what is older than `since`."""
        since = self.deciding.rules.states.since(self.deciding.facts(now.facts[about]))
        for number, effect in enumerate(now.effects, start=1):
            is_seen = effect.is_visible and (self._stamp(effect) is None or self._stamp(effect) >= since)
            if effect.about == about and is_seen:
                return f"m-{number}"
        return "nothing"

    def _why(self, now: Situation, about: int) -> str:
        """Say why a look shows nothing though there is something."""
        effects = [effect for effect in now.effects if effect.about == about]
        if not effects:
            return ""
        if not effects[-1].is_visible:
            return ", for the effect does not show yet"
        return ", for the effect bears too old a time" if not self._holds("A13") else ", though it is there"

    def _stamp(self, effect: Effect) -> int:
        """When the provider says that it happened, by its own clock."""
        return (effect.at if self._holds("A13") else effect.at - 2) * TICK

    def _fence(self, now: Situation, about: int) -> Situation:
        """An empty answer that is conclusive: no attempt that is over can take effect any more."""
        live = self.deciding.rules.states.live_attempt(
            self.deciding.facts(now.facts[about]), now.clock * TICK
        )

        def still(request: Request) -> bool:
            return request.about != about or (live is not None and request.attempt == live.number)

        return now._replace(
            tickets=frozenset(filter(still, now.tickets)), flying=frozenset(filter(still, now.flying))
        )

    # What is told to the journal, at once or much later, once or often

    def _reports(self, now: Situation) -> Iterator[Step]:
        for ticket in sorted(now.tickets):
            session, about, attempt, _generation = ticket
            command = Command("failure", session, about, attempt, words="never sent")
            words = f"session {session} records that attempt {attempt} was never sent"
            _decided, after, words = self._decide(now, command, words)
            yield words, after._replace(tickets=after.tickets - {ticket})
            if self.world.heartbeats:
                yield self._heartbeat(now, session, about, attempt)
        for reply in sorted(now.replies):
            yield from self._report_reply(now, reply)
        for sight in sorted(now.sights):
            yield self._report_sight(now, sight)
        if self.world.closes:
            for session in range(1, self.world.sessions + 1):
                for outcome in ("timed_out", "cancelled"):
                    if now.facts[0] != NOTHING:
                        command = Command("close", session, 0, words=outcome)
                        yield self._tell(now, command, f"session {session} closes as {outcome}")

    def _heartbeat(self, now: Situation, session: int, about: int, attempt: int) -> Step:
        command = Command("progress", session, about, attempt)
        return self._tell(now, command, f"session {session} records progress")

    def _report_reply(self, now: Situation, reply: Reply) -> Iterator[Step]:
        session, about, attempt, said = reply
        who = f"session {session} records"
        if said in ("unknown", "refused"):
            command = Command("failure", session, about, attempt, words=said)
            yield self._tell(now, command, f"{who} failure {said} of attempt {attempt}")
            if said == "unknown":
                broken = command._replace(words="broken")
                yield self._tell(now, broken, f"{who} that a 503 says: no effect")
        elif said == "queued":
            command = Command("receipt", session, about, attempt, "job-1", words="acknowledgement")
            yield self._tell(now, command, f"{who} that it is queued")
        else:
            for named in (attempt, None) if self.world.nameless else (attempt,):
                command = Command("receipt", session, about, named, said)
                yield self._tell(now, command, f"{who} receipt {said}")
        if self.world.heartbeats:
            yield self._heartbeat(now, session, about, attempt)

    def _report_sight(self, now: Situation, sight: Sight) -> Step:
        session, about, as_of, seen = sight
        command = Command("finding", session, about, None, None, as_of, "not_performed")
        if seen == "unclear":
            command = command._replace(words="inconclusive")
        elif seen != "nothing":
            command = command._replace(words="performed", reference=seen)
        words = f"session {session} reports {command.words}, as of t={as_of}"
        decided, after, words = self._decide(now, command, words)
        if command.words == "not_performed" and decided.reason == "settling":
            # Whoever holds the attempt ends it by saying so, and sends no more.
            held = frozenset(ticket for ticket in after.tickets if ticket[:2] == (session, about))
            after = after._replace(tickets=after.tickets - held)
        return words, after

    # People

    def _people(self, now: Situation) -> Iterator[Step]:
        for about, number in enumerate(now.facts):
            if number == NOTHING:
                continue
            found = [n for n, effect in enumerate(now.effects, start=1) if effect.about == about]
            said = [Command("finding", 0, about, None, f"m-{n}", None, "performed") for n in found]
            if not self._holds("A11") or not (self._can_arrive(now, about) or found):
                said.append(Command("finding", 0, about, words="not_performed"))
            said.append(Command("finding", 0, about, words="inconclusive, end lease"))
            said += [Command("close", 0, about, words=outcome) for outcome in ("timed_out", "cancelled")]
            for command in said:
                words, after = self._tell(now, command, f"a person says {command.words}")
                if after.facts != now.facts:
                    yield words, after._replace(words=now.words + 1)

    def _can_arrive(self, now: Situation, about: int) -> bool:
        usable = any(
            ticket.about == about
            and not (self._holds("A1") and self._is_over(now, about, ticket.attempt, now.clock))
            for ticket in now.tickets
        )
        return usable or any(request.about == about for request in now.flying)
