"""Reads what authority is weighed upon, and gives what stands in the way of an operation from outside it."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.domain.context import Drift, compare_contexts
from counterfoil.store.domain.granting import fact_id
from counterfoil.store.domain.grants import (
    NO_AUTHORITY,
    Authority,
    AuthorityFacts,
    Grant,
    GrantSource,
    is_out_of_attempts,
    weigh,
)
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.domain.model import ConfiguredGrant, Description, Operation, Run
from counterfoil.store.domain.outlook import NO_BARRIERS, Barriers, nothing_to_undo
from counterfoil.store.domain.states import Policy, state_of
from counterfoil.store.domain.untrusted import safe_value
from counterfoil.store.errors import BodyDamaged, RowDamaged
from counterfoil.store.gaps import gap_in
from counterfoil.store.namespace_log import grant_from_row
from counterfoil.store.presenting import without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import as_recorded, original_of, read_body

__all__ = [
    "Bench",
    "authority_facts",
    "authority_shown",
    "barriers_of",
    "configured",
    "context_of",
    "set_up_bench",
    "today_of",
]

_MOST_SHOWN = 3


async def context_of(connection: Connection, namespace: str, digest: str | None) -> dict[str, Json] | None:
    """Read a context by its digest; None where none is named. No context is ever removed.

    Raises:
        BodyDamaged: it is not the context that was recorded, or is gone.
    """
    if digest is None:
        return None
    row = await connection.fetch_one("read_context", {"namespace": namespace, "digest": digest})
    value: dict[str, Json] = json.loads(
        as_recorded(None if row is None else row["body"], digest, what="a context")
    )
    return value


async def today_of(
    connection: Connection,
    namespace: str,
    run: Run | None,
    operation: Operation | None,
    given: Mapping[str, Json] | None,
    *,
    recorded: Mapping[str, Json] | None,
) -> dict[str, Json] | None:
    """Put together what is known of today's context: silence takes no difference back.

    A component that the call does not say stays unknown, unless begin_run, or an earlier begin of this
    operation that was refused, last said another value than is recorded. None where nobody said anything.
    """
    offered = await context_of(connection, namespace, None if run is None else run.offered)
    asked = await context_of(connection, namespace, None if operation is None else operation.asked_context)
    told = {**(offered or {}), **(asked or {})}
    differing = {
        name: value
        for name, value in told.items()
        if recorded is not None
        and name in recorded
        and compare_contexts({name: recorded[name]}, {name: value}, {})
    }
    return {**differing, **(given or {})} or None


class Bench(Struct, frozen=True, kw_only=True):
    """What all operations of a run share when they are weighed.

    `today` is the context of the call, where it has one; `recorded` the run's, which else stands for it.
    """

    namespace: str
    policy: Policy
    principal: str
    grants: tuple[Grant, ...]
    contexts: Mapping[str, Mapping[str, Json]]
    recorded: Mapping[str, Json] | None
    today: Mapping[str, Json] | None


def configured(namespace: str, grant: ConfiguredGrant) -> Grant:
    """Give the operator's grant as one among the others, under an id that its name makes."""
    return Grant(
        id=fact_id("grant", namespace, "configuration", grant.name),
        source=GrantSource.CONFIGURATION,
        granted_at=0,
        granted_by=f"configuration: {grant.name}",
        subject=grant.subject,
        action=grant.action,
        target=grant.target,
        constraints=grant.constraints,
        policy=grant.policy,
        not_before=grant.not_before,
        expires_at=grant.expires_at,
        max_uses=grant.max_uses,
    )


async def set_up_bench(
    connection: Connection,
    *,
    namespace: str,
    policy: Policy,
    run: str,
    run_context: str | None,
    principal: str,
    today: Mapping[str, Json] | None,
) -> Bench:
    """Read the grants that may hold in a run: what the configuration no longer gives does not count."""
    rows = await connection.fetch_all("read_grants", {"namespace": namespace, "run": run})
    given: list[Grant] = []
    for row in rows:
        # One that cannot be read permits nothing; it spoils no other.
        with suppress(RowDamaged):
            grant = grant_from_row(row)
            if grant.source is not GrantSource.CONFIGURATION:
                given.append(grant)
    contexts = {}
    for digest in {grant.context for grant in given if grant.operation and grant.context}:
        # A grant that was given under a context that is damaged lifts no drift; it spoils no other grant.
        with suppress(BodyDamaged):
            context = await context_of(connection, namespace, digest)
            if context is not None:
                contexts[digest] = context
    return Bench(
        namespace=namespace,
        policy=policy,
        principal=principal,
        grants=(*given, *(configured(namespace, grant) for grant in policy.grants)),
        contexts=contexts,
        recorded=await context_of(connection, namespace, run_context),
        today=today,
    )


async def authority_facts(
    connection: Connection,
    bench: Bench,
    *,
    operation: str,
    described: Description,
    args: Json,
    named: str | None = None,
) -> AuthorityFacts:
    """Read what the authority of one operation is weighed upon."""
    uses = {}
    for grant in bench.grants:
        if grant.max_uses is not None and grant.operation in (None, operation):
            row = await connection.fetch_one(
                "count_grant_uses",
                {"namespace": bench.namespace, "grant_id": grant.id, "operation": operation},
            )
            uses[grant.id] = 0 if row is None else row["uses"]
    return AuthorityFacts(
        is_required=bench.policy.requires_grant(described),
        grants=bench.grants,
        uses=uses,
        args=args,
        principal=bench.principal,
        today=bench.today,
        recorded=bench.recorded,
        contexts=bench.contexts,
        classes=bench.policy.drift,
        named=named,
    )


async def barriers_of(
    connection: Connection,
    operation: Operation,
    *,
    run: Run | None,
    policy: Policy,
    principal: str,
    today: Mapping[str, Json] | None,
    now: Instant,
    benches: dict[tuple[str | None, ...], Bench] | None = None,
) -> tuple[Barriers, Authority]:
    """Tell what stands in the way of an operation, for plans and checks, as a begin would find it.

    `benches` keeps what the operations of one plan share.
    """
    barriers, authority = await _weighed(
        connection,
        operation,
        run=run,
        policy=policy,
        principal=principal,
        today=today,
        now=now,
        benches=benches,
    )
    if operation.compensates is None or state_of(operation, now).is_settled:
        return barriers, authority
    original = await original_of(connection, operation.namespace, operation.compensates)
    return replace(barriers, nothing_to_undo=nothing_to_undo(original, now)), authority


async def _weighed(
    connection: Connection,
    operation: Operation,
    *,
    run: Run | None,
    policy: Policy,
    principal: str,
    today: Mapping[str, Json] | None,
    now: Instant,
    benches: dict[tuple[str | None, ...], Bench] | None = None,
) -> tuple[Barriers, Authority]:
    """Tell what stands in the way of an operation itself, and its authority.

    What the caller does not say of today's context counts as it was said last (`today_of`). What cannot be
    weighed, since what it is weighed upon is damaged, is `is_unreadable`: a begin is refused.
    """
    if state_of(operation, now).is_settled:
        return NO_BARRIERS, NO_AUTHORITY
    namespace = operation.namespace
    gap = await gap_in(connection, namespace, operation.run, policy.history_lost_at)
    barriers = Barriers(has_history_gap=gap(operation))
    blocking: tuple[Drift, ...] = ()
    try:
        recorded = None if run is None else run.context
        if recorded is None and operation.newest is not None:
            recorded = operation.newest.context
        recorded_context = await context_of(connection, namespace, recorded)
        today = await today_of(connection, namespace, run, operation, today, recorded=recorded_context)
        if today is not None and recorded is not None:
            drifts = compare_contexts(recorded_context, today, policy.drift)
            blocking = tuple(drift for drift in drifts if drift.drift_class == "block")
            barriers = replace(barriers, is_blocked_by_drift=bool(blocking))
        if not (
            policy.requires_grant(operation.description)
            or is_out_of_attempts(operation)
            or barriers != NO_BARRIERS
        ):
            return barriers, NO_AUTHORITY
        place = (operation.run, recorded, operation.asked_context)
        bench = None if benches is None else benches.get(place)
        if bench is None:
            bench = await set_up_bench(
                connection,
                namespace=namespace,
                policy=policy,
                run=operation.run,
                run_context=recorded,
                principal=principal,
                today=today,
            )
            if benches is not None:
                benches[place] = bench
        args = None
        if any(grant.constraints for grant in bench.grants) and operation.description.args_digest is not None:
            text = await read_body(connection, operation, operation.description.args_digest)
            args = None if text is None else json.loads(text)
        facts = await authority_facts(
            connection, bench, operation=operation.id, described=operation.description, args=args
        )
        authority = weigh(operation, facts, now=now)
        lifted = authority.lifted(barriers, gap_at=policy.history_lost_at)
        if lifted.is_blocked_by_drift:
            # Whoever is asked about a change has to be told which.
            others = tuple(drift for drift in authority.drift if drift not in blocking)
            authority = replace(authority, drift=(*blocking, *others))
        return lifted, authority
    except BodyDamaged:
        return Barriers(has_history_gap=barriers.has_history_gap, is_unreadable=True), NO_AUTHORITY


def authority_shown(authority: Authority) -> dict[str, Any]:
    """Show which grants were meant for this and why they do not hold, and what differs from then."""
    refusals = [
        without_none(
            {
                "grant": refusal.grant.id,
                "why_not": refusal.reason,
                "expires_at": _moment(refusal.grant.expires_at),
                "not_before": _moment(refusal.grant.not_before),
                "max_uses": refusal.grant.max_uses,
            }
        )
        for refusal in [
            refusal
            for refusal in authority.refusals
            if authority.reason is not None or refusal.reason == "other_effect"
        ][:_MOST_SHOWN]
    ]
    drift = [
        {name: safe_value(value, limit=200, items=5, depth=3) for name, value in found.as_dict().items()}
        for found in authority.drift[:_MOST_SHOWN]
    ]
    return {name: shown for name, shown in (("grants", refusals), ("drift", drift)) if shown}


def _moment(instant: Instant | None) -> str | None:
    return None if instant is None else rfc3339(instant)
