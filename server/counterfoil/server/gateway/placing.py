"""Finds the place of a call in the journal: its run, its key, and the agent's own attempt, if it is one."""

import hashlib
import json

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.server.gateway.calls import CONNECTION_PREFIX, GatewayJournal, ToolCall
from counterfoil.server.gateway.looking import declared_lookup
from counterfoil.server.gateway.wish import NO_WISH
from counterfoil.server.rules.call import DescribedCall, describe_call
from counterfoil.server.rules.matching import matching_attempt
from counterfoil.store.attending import Attendance, LiveAttempt
from counterfoil.store.domain.commands import BeginOperation, Caller
from counterfoil.store.domain.identity import idempotency_key, operation_id
from counterfoil.store.domain.names import normalize_name
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.limits import Limits
from counterfoil.store.probing import ProbeSubject

__all__ = ["Place", "Search", "begin_of", "found_place", "search_for", "subject_of"]

_MARK = "counterfoil:gateway"
"""The system of the marks by which a call that was attached to an agent's own operation is known again."""


class Place(Struct, frozen=True, kw_only=True):
    """Where a call stands: its run, what it is, and the agent's own attempt that it carries out, if one."""

    run: str
    key: str
    operation: str
    described: DescribedCall
    mark: tuple[str, str]
    attached: LiveAttempt | None = None
    marked: str | None = None


class Search(Struct, frozen=True, kw_only=True):
    """What is known of a call's place before the journal is asked which run the agent holds.

    `fixed` is the run that the call or the operator names; `fallback` that of a caller who names none.
    """

    namespace: str
    key: str
    fixed: str | None
    fallback: str
    described: DescribedCall

    def run(self, held: str | None) -> str:
        """Give the run of the call; `held` is the one that the agent holds."""
        return normalize_name(self.fixed or held or self.fallback, field="run")

    def mark(self, held: str | None) -> tuple[str, str]:
        """Give the mark by which the call is known again at an agent's own operation."""
        named = json.dumps([self.run(held), self.key])
        return _MARK, f"call:{hashlib.sha256(named.encode()).hexdigest()}"

    def place(self, held: str | None) -> Place:
        """Give the place of the call where it is nobody's own attempt."""
        run = self.run(held)
        return Place(
            run=run,
            key=self.key,
            operation=operation_id(self.namespace, run, self.key),
            described=self.described,
            mark=self.mark(held),
        )


def search_for(
    journal: GatewayJournal,
    call: ToolCall,
    caller: Caller,
    *,
    namespace: str,
    run: str | None,
    limits: Limits,
) -> Search:
    """Say what is known of a call's place. `run` is the operator's, before what the agent last began.

    Raises:
        InvalidArgument: a name that the call gives is none.
    """
    described = describe_call(
        call.rule,
        server=call.server,
        tool=call.tool,
        arguments=call.arguments,
        hide=journal.hidden,
        limits=limits,
    )
    fixed = call.wish.run or run
    return Search(
        namespace=namespace,
        key=normalize_name(call.wish.key or _after(described.key, call.wish.distinct_from), field="key"),
        fixed=None if fixed is None else normalize_name(fixed, field="run"),
        fallback=_conversation_run(caller),
        described=described,
    )


def found_place(journal: GatewayJournal, call: ToolCall, search: Search, attendance: Attendance) -> Place:
    """Give the place of a call, with the agent's own attempt that it carries out, if it is one."""
    place, described = search.place(attendance.run), search.described
    live = [one for one in attendance.live if not one.connection.startswith(CONNECTION_PREFIX)]
    attached = None
    if live and call.wish != NO_WISH:
        attached = next((one for one in live if (one.run, one.key) == (place.run, place.key)), None)
    elif live:
        try:
            arguments = journal.hidden(dict(call.arguments))
        except InvalidArgument:
            arguments = described.args
        attached = matching_attempt(live, described, tool=call.tool, arguments=arguments)
    return replace(place, attached=attached, marked=attendance.marked)


def begin_of(call: ToolCall, place: Place) -> BeginOperation:
    """Give the begin of a call under its own key."""
    rule, described = call.rule, place.described
    lookup = None
    if rule.lookup is not None and call.shown_lookup is not None:
        lookup = declared_lookup(rule.lookup, subject_of(place, None), tool=call.shown_lookup)
    return BeginOperation(
        run=place.run,
        key=place.key,
        action=described.action,
        target=described.target,
        args=described.args,
        payload=described.payload,
        repeat=call.repeat,
        key_ttl_seconds=rule.key_ttl_seconds,
        lookup=lookup,
        lease_seconds=rule.lease_seconds,
        deadline_seconds=rule.deadline_seconds,
        max_attempts=rule.max_attempts,
        distinct_from=call.wish.distinct_from,
    )


def subject_of(place: Place, key: str | None) -> ProbeSubject:
    """Give what a lookup looks for; before the first begin only the names of the operation are known."""
    described = place.described
    return ProbeSubject(
        operation=place.operation,
        run=place.run,
        key=place.key,
        action=described.action,
        target=described.target,
        args=described.args,
        idempotency_key=key or idempotency_key(place.operation, 1),
    )


def _after(key: str, distinct_from: tuple[str, ...]) -> str:
    """Give the key of a deliberate repeat: the same repeat sent again is the same operation."""
    if not distinct_from:
        return key
    return f"{key[:150]}~{hashlib.sha256(json.dumps(distinct_from).encode()).hexdigest()[:12]}"


def _conversation_run(caller: Caller) -> str:
    """Give the run of a caller who named none: its conversation, or the connection where none is known."""
    name = f"conversation/{caller.conversation}" if caller.conversation else f"connection/{caller.connection}"
    try:
        return normalize_name(name, field="run")
    except InvalidArgument:
        return f"conversation/{hashlib.sha256(name.encode()).hexdigest()[:32]}"
