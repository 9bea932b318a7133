"""Asking for authority, giving it, and taking it back; called by the journal inside its transaction.

Only a person gives or takes: whoever is not shown to be one leaves a request. Nothing here is needed to look
up, record or reconcile.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.commands import (
    Caller,
    GrantAuthority,
    Json,
    OperationRef,
    RequestAuthority,
    RevokeGrant,
)
from counterfoil.store.domain.context import normal_context
from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.granting import NamespaceEvent, NamespaceEventKind
from counterfoil.store.domain.grants import (
    Authority,
    Grant,
    GrantSource,
    Request,
    as_data,
    exact_pattern,
    is_out_of_attempts,
    parse_constraint,
    weigh,
)
from counterfoil.store.domain.instants import Instant, micros, parse_rfc3339, rfc3339
from counterfoil.store.domain.model import Description, Operation, Run
from counterfoil.store.domain.outlook import Outlook
from counterfoil.store.domain.untrusted import safe_value
from counterfoil.store.errors import Forbidden, InvalidArgument, NotFound
from counterfoil.store.namespace_log import append, grant_from_row, request_from_row, waiting_requests
from counterfoil.store.preparing import Bodies, duration
from counterfoil.store.presenting import answer_head, body_shown, without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import operation_or_fault, read_body
from counterfoil.store.rows import refuse_damaged, run_from_row
from counterfoil.store.viewing import Viewer, party_of, safe
from counterfoil.store.weighing import (
    authority_facts,
    authority_shown,
    configured,
    context_of,
    set_up_bench,
)
from counterfoil.store.writing import Change, RunPlace, caller_text, carry_out, under_assumptions

__all__ = ["Authorizing"]

GRANTABLE = ("authority_required", "authority_expired", "drift", "attempts_exhausted", "history_gap")
"""What a person's grant for an operation answers."""

_MOST_CONSTRAINTS = 20
_MOST_LISTED = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meant:
    """What a grant is to be about: an operation as it is now, or patterns; `request` is what it answers."""

    operation: Operation | None = None
    run: Run | None = None
    request: Request | None = None
    name: str | None = None
    action: str
    target: str

    @property
    def seen(self) -> str:
        """What the effect is, for telling whether it is still the one that somebody was shown."""
        if self.operation is None:
            return canonical_json([self.name, self.action, self.target])
        described = self.operation.description
        return canonical_json([self.operation.id, described.fingerprint, described.payload_digest])


class Authorizing:
    """Keeps the grants and requests of one namespace."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def request(
        self, connection: Connection, command: RequestAuthority, caller: Caller, situation: Situation
    ) -> dict[str, Any]:
        """Keep a wish for permission until a person answers it; where none is needed, say what is.

        The same wish again is the same request, also under another call.

        Raises:
            InvalidArgument, NotFound: what is meant cannot be told; nothing was recorded.
        """
        why = self._view.prepare.text(command.why, name="why")
        ref = command.ref
        if ref.operation is None and ref.key is None:
            return await self._request_in_run(connection, command, why, caller, situation)
        operation, run = await self._operation(connection, ref)
        step = await self._view.step_of(connection, operation, situation.now.at, party=party_of(caller))
        shown = {**_head(step.outlook, situation.now.at), **self._place(operation, situation)}
        if step.outlook.next != "ask" or step.outlook.reason not in GRANTABLE:
            return shown
        described = operation.description
        request = await self._keep(
            connection,
            Request(
                id="",
                asked_at=situation.now.at,
                reason=step.outlook.reason,
                run=operation.run,
                operation=operation.id,
                fingerprint=described.fingerprint,
                payload_digest=described.payload_digest,
                action=described.action,
                target=described.target or "*",
                why=why,
                asked_by=_who(caller),
                call_id=caller.call_id,
            ),
            under_assumptions(caller_text(caller), run=run, operation=operation),
        )
        return {
            **shown,
            **authority_shown(step.authority),
            **await self._asked(connection, request, operation),
        }

    async def _request_in_run(
        self,
        connection: Connection,
        command: RequestAuthority,
        why: str | None,
        caller: Caller,
        situation: Situation,
    ) -> dict[str, Any]:
        if command.ref.run is None or command.action is None:
            raise InvalidArgument(
                "operation" if command.ref.run is None else "action",
                "is missing",
                accepted="name the operation, by its id or by run and key, or give run, action and target",
            )
        name = self._view.prepare.name(command.ref.run, name="run")
        described = self._view.prepare.description(command.action, command.target, None, None, Bodies())
        row = await connection.fetch_one("read_run", {"namespace": self._view.namespace, "run": name})
        run = None if row is None else run_from_row(row)
        authority = await self._authority_in_run(connection, name, run, described, caller, situation)
        reason = authority.reason
        outlook = Outlook(next="begin", reason="first_attempt")
        if reason is not None:
            outlook = Outlook(next="ask", reason=reason)
        shown = {**_head(outlook, situation.now.at), "run": name}
        if reason is None:
            return shown if authority.grant is None else {**shown, "grant": authority.grant.id}
        target = "*" if described.target is None else exact_pattern(described.target)
        request = await self._keep(
            connection,
            Request(
                id="",
                asked_at=situation.now.at,
                reason=reason,
                run=name,
                action=exact_pattern(described.action),
                target=target,
                why=why,
                asked_by=_who(caller),
                call_id=caller.call_id,
            ),
            under_assumptions(caller_text(caller), run=run),
        )
        return {**shown, **authority_shown(authority), **await self._asked(connection, request, None)}

    async def _authority_in_run(
        self,
        connection: Connection,
        name: str,
        run: Run | None,
        described: Description,
        caller: Caller,
        situation: Situation,
    ) -> Authority:
        """Weigh an action that no operation was begun for yet, as the first begin of one would be."""
        now = situation.now.at
        bench = await set_up_bench(
            connection,
            namespace=self._view.namespace,
            policy=self._view.policy,
            run=name,
            run_context=None if run is None else run.context,
            principal=caller.principal,
            today=None,
        )
        facts = await authority_facts(connection, bench, operation="", described=described, args=None)
        imagined = Operation(
            namespace=self._view.namespace,
            run=name,
            key="",
            id="",
            position=1,
            created_at=now,
            updated_at=now,
            since_floor=now,
            description=described,
        )
        return weigh(imagined, facts, now=now)

    async def _keep(self, connection: Connection, wish: Request, caller: str) -> Request:
        """Keep a request, or give the one that says the same and still waits."""
        for waiting in await waiting_requests(connection, self._view.namespace):
            if waiting.is_same(wish):
                return waiting
        if wish.call_id is not None:
            place = {"namespace": self._view.namespace, "call_id": wish.call_id}
            for row in await connection.fetch_all("requests_of_call", place):
                if (known := request_from_row(row)).is_same(wish):
                    return known
        made: list[Request] = []

        def event(fresh: Any) -> NamespaceEvent:
            made.append(replace(wish, id=fresh("request")))
            return NamespaceEvent(
                kind=NamespaceEventKind.AUTHORITY_REQUESTED,
                operation=wish.operation or "",
                at=wish.asked_at,
                data=as_data(made[0]),
            )

        await append(connection, self._view.namespace, event, caller=caller)
        return made[0]

    async def _asked(
        self, connection: Connection, request: Request, operation: Operation | None
    ) -> dict[str, Any]:
        """Show a request as the person who answers it has to see it."""
        shown = {**_request_shown(request), "how": f"counterfoil grant {request.id}"}
        if operation is not None:
            shown["effect"] = await self._effect(connection, operation)
        return shown

    async def _effect(self, connection: Connection, operation: Operation) -> dict[str, Any]:
        described = operation.description
        effect: dict[str, Any] = {"action": safe(described.action), "target": safe(described.target)}
        for name, digest in (("args", described.args_digest), ("payload", described.payload_digest)):
            if digest is not None:
                effect[name] = body_shown(await read_body(connection, operation, digest), detail=name)
        return without_none(effect)

    async def grant(
        self, connection: Connection, command: GrantAuthority, caller: Caller, situation: Situation
    ) -> dict[str, Any]:
        """Give a person's permission; whoever is not shown to be one leaves a request instead.

        Raises:
            InvalidArgument, NotFound: nothing was recorded.
        """
        meant = await self._meant(connection, command)
        if not situation.is_person:
            return await self._claim(connection, command, meant, caller, situation)
        operation, request, now = meant.operation, meant.request, situation.now.at
        if request is not None and request.state == "granted":
            return {**_head(_DUPLICATE, now), **_request_shown(request)}
        changed = operation is not None and request is not None and _has_changed(operation, request)
        if changed or command.seen not in (None, meant.seen):
            answer = {**_head(_UNMET, now), "warnings": ["it is another effect by now than the one shown"]}
            return answer if operation is None else {**answer, **self._place(operation, situation)}
        if operation is not None:
            step = await self._view.step_of(connection, operation, now)
            if step.state.is_settled:
                return {**_head(step.outlook, now), **self._place(operation, situation)}
        wish = await self._wish(connection, command, meant, situation)
        made: list[Grant] = []

        def event(fresh: Any) -> NamespaceEvent:
            made.append(replace(wish, id=fresh("grant"), granted_by=_who(caller)))
            return NamespaceEvent(
                kind=NamespaceEventKind.GRANT_GIVEN,
                operation=wish.operation or "",
                at=now,
                data=as_data(made[0]),
            )

        await append(
            connection,
            self._view.namespace,
            event,
            caller=caller_text(caller),
            requests={} if request is None else {request.id: request},
        )
        answer = {**_head(_RECORDED, now), "grant": grant_shown(made[0], now)}
        if operation is not None:
            await self._tell(connection, meant, EventKind.AUTHORITY_GRANTED, made[0], caller, situation)
            answer.update(self._place(operation, situation))
        return answer

    async def _claim(
        self,
        connection: Connection,
        command: GrantAuthority,
        meant: _Meant,
        caller: Caller,
        situation: Situation,
    ) -> dict[str, Any]:
        """Keep what somebody who is no person wanted to grant as a request for it."""
        operation, now = meant.operation, situation.now.at
        request = meant.request
        if request is None or request.state != "waiting":
            described = None if operation is None else operation.description
            wish = Request(
                id="",
                asked_at=now,
                reason="authority_required",
                run=meant.name,
                operation=None if operation is None else operation.id,
                fingerprint=None if described is None else described.fingerprint,
                payload_digest=None if described is None else described.payload_digest,
                action=meant.action,
                target=meant.target,
                why=self._view.prepare.text(command.why, name="why"),
                asked_by=_who(caller),
                call_id=caller.call_id,
            )
            text = under_assumptions(caller_text(caller), run=meant.run, operation=operation)
            request = await self._keep(connection, wish, text)
        answer = {
            **_head(Outlook(next="ask", reason="authority_required"), now),
            **await self._asked(connection, request, operation),
        }
        return answer if operation is None else {**answer, **self._place(operation, situation)}

    async def _meant(self, connection: Connection, command: GrantAuthority) -> _Meant:
        """Find what a grant is to be about.

        Raises:
            InvalidArgument, NotFound: it cannot be told.
        """
        prepare = self._view.prepare
        request = None
        ref = command.ref
        if command.request is not None:
            request = await self._request_named(connection, command.request)
            if request.operation is None:
                return _Meant(request=request, name=request.run, action=request.action, target=request.target)
            ref = OperationRef(operation=request.operation)
        if ref is not None and (ref.operation is not None or ref.key is not None):
            operation, run = await self._operation(connection, ref)
            described = operation.description
            return _Meant(
                operation=operation,
                run=run,
                request=request,
                name=operation.run,
                action=described.action,
                target=described.target or "*",
            )
        action = prepare.text(command.action, name="action")
        if action is None:
            raise InvalidArgument(
                "action",
                "is missing",
                accepted="a request, an operation (its id, or run and key), or --action with a pattern",
            )
        name = command.run or (None if ref is None else ref.run)
        return _Meant(
            name=None if name is None else prepare.name(name, name="run"),
            action=action.strip(),
            target=(prepare.text(command.target, name="target") or "*").strip(),
        )

    async def _wish(
        self, connection: Connection, command: GrantAuthority, meant: _Meant, situation: Situation
    ) -> Grant:
        """Give the grant as it is to be, but for its id and giver."""
        prepare, now = self._view.prepare, situation.now.at
        operation = meant.operation
        not_before = _time(command.not_before, "not_before")
        expires_at = _time(command.expires_at, "expires_at")
        lasts = duration(command.lasts_seconds, name="lasts_seconds")
        if lasts is not None:
            ends = max(now, not_before or now) + micros(lasts)
            expires_at = ends if expires_at is None else min(ends, expires_at)
        if expires_at is not None and expires_at <= max(now, not_before or now):
            raise InvalidArgument("expires_at", "is over before the grant begins", accepted="a later time")
        if command.max_uses is not None and not 1 <= command.max_uses <= 1_000_000:
            raise InvalidArgument("max_uses", "is out of range", accepted="a whole number from 1")
        if len(command.constraints) > _MOST_CONSTRAINTS:
            raise InvalidArgument("constraint", "stands too often", accepted=f"{_MOST_CONSTRAINTS} of them")
        for text in command.constraints:
            parse_constraint(text)
        context = None
        if operation is not None:
            recorded = None if meant.run is None else meant.run.context
            context = operation.asked_context or recorded
        elif meant.name is not None:
            row = await connection.fetch_one(
                "read_run", {"namespace": self._view.namespace, "run": meant.name}
            )
            context = None if row is None else run_from_row(row).context
        policy = command.policy
        if policy is not None:
            policy = normal_context({"policy": prepare.redactor.redact(policy)})["policy"]
        else:
            policy = (await context_of(connection, self._view.namespace, context) or {}).get("policy")
        described = None if operation is None else operation.description
        return Grant(
            id="",
            source=GrantSource.ELICITATION if command.by_elicitation else GrantSource.PERSON,
            granted_at=now,
            granted_by="",
            subject=(prepare.text(command.subject, name="subject") or "*").strip(),
            action=meant.action,
            target=meant.target,
            constraints=prepare.texts(command.constraints, name="constraint"),
            run=meant.name,
            operation=None if operation is None else operation.id,
            fingerprint=None if described is None else described.fingerprint,
            payload_digest=None if described is None else described.payload_digest,
            policy=None if policy is None else canonical_json(policy),
            context=context,
            not_before=not_before,
            expires_at=expires_at,
            max_uses=command.max_uses,
            adds_attempt=operation is not None and is_out_of_attempts(operation),
            why=prepare.text(command.why, name="why"),
            request=None if meant.request is None else meant.request.id,
        )

    async def revoke(
        self, connection: Connection, command: RevokeGrant, caller: Caller, situation: Situation
    ) -> dict[str, Any]:
        """Take a grant back, from the next attempt on.

        Raises:
            NotFound: there is no such grant.
            Forbidden: by somebody who is not shown to be a person, or the operator's file gives it.
        """
        row = await connection.fetch_one(
            "read_grant", {"namespace": self._view.namespace, "id": command.grant.strip()}
        )
        if row is None:
            raise NotFound(
                "there is no grant of that id; nothing was changed",
                fix="`counterfoil requests --grants` lists them",
            )
        grant, now = grant_from_row(row), situation.now.at
        if grant.source is GrantSource.CONFIGURATION:
            raise Forbidden(
                "the operator's file gives this grant; nothing was changed",
                fix="take it out of [[grants]] there, and start the servers again",
            )
        if not situation.is_person:
            raise Forbidden(
                "only a person takes a grant back; nothing was changed",
                fix="answer at a terminal, or bring the operator's secret",
            )
        if grant.revoked_at is not None:
            return {**_head(_DUPLICATE, now), "grant": grant_shown(grant, now)}
        why = self._view.prepare.text(command.why, name="why")
        data = without_none({"grant": grant.id, "why": why})

        def event(_fresh: Any) -> NamespaceEvent:
            return NamespaceEvent(
                kind=NamespaceEventKind.GRANT_REVOKED, operation=grant.operation or "", at=now, data=data
            )

        book = await append(
            connection,
            self._view.namespace,
            event,
            caller=caller_text(caller),
            grants={grant.id: grant},
        )
        if grant.operation is not None:
            operation, run = await self._operation(connection, OperationRef(operation=grant.operation))
            meant = _Meant(operation=operation, run=run, action=grant.action, target=grant.target)
            await self._tell(connection, meant, EventKind.AUTHORITY_REVOKED, grant, caller, situation)
        return {**_head(_RECORDED, now), "grant": grant_shown(book.grants[grant.id], now)}

    async def decline(
        self, connection: Connection, request_id: str, caller: Caller, situation: Situation
    ) -> dict[str, Any]:
        """Say no to a request; the answer is what an agent has to do then, which is nothing.

        Raises:
            NotFound: there is no such request.
            Forbidden: by somebody who is not shown to be a person.
        """
        request, now = await self._request_named(connection, request_id), situation.now.at
        if not situation.is_person:
            raise Forbidden(
                "only a person answers a request; nothing was changed",
                fix="answer at a terminal, or bring the operator's secret",
            )
        if request.state == "waiting":

            def event(_fresh: Any) -> NamespaceEvent:
                return NamespaceEvent(
                    kind=NamespaceEventKind.REQUEST_DECLINED,
                    operation=request.operation or "",
                    at=now,
                    data={"request": request.id},
                )

            book = await append(connection, self._view.namespace, event, caller=caller_text(caller))
            request = book.requests[request.id]
        return {
            **_head(Outlook(next="ask", reason=request.reason), now),
            **_request_shown(request),
            "warnings": ["a person was asked, and has not permitted it"],
        }

    async def preview(self, command: GrantAuthority) -> dict[str, Any]:
        """Show what a grant would be about; changes nothing."""

        async def work(connection: Connection) -> dict[str, Any]:
            meant = await self._meant(connection, command)
            shown: dict[str, Any] = {
                "action": safe(meant.action),
                "target": safe(meant.target),
                "run": meant.name,
                "seen": meant.seen,
            }
            if meant.request is not None:
                shown["request"] = _request_shown(meant.request)
            if meant.operation is not None:
                now = self._view.now(connection).at
                step = await self._view.step_of(connection, meant.operation, now)
                shown.update(self._view.present.place(meant.operation, now))
                shown.update(next=step.outlook.next, reason=step.outlook.reason)
                shown["effect"] = await self._effect(connection, meant.operation)
            return without_none(shown)

        return await self._view.database.read(work)

    async def requests(self, state: str | None) -> list[dict[str, Any]]:
        """List requests in one state, or all, oldest first."""

        async def work(connection: Connection) -> list[dict[str, Any]]:
            rows = await connection.fetch_all(
                "read_requests", {"namespace": self._view.namespace, "state": state}
            )
            return [_request_shown(request_from_row(row)) for row in rows[-_MOST_LISTED:]]

        return await self._view.database.read(work)

    async def grants(self) -> list[dict[str, Any]]:
        """List all grants, the operator's among them, with how many operations are in a use of each."""

        async def work(connection: Connection) -> list[dict[str, Any]]:
            namespace, now = self._view.namespace, self._view.now(connection).at
            rows = await connection.fetch_all("read_grants", {"namespace": namespace, "run": None})
            known = {row["id"]: grant_from_row(row) for row in rows}
            told = {
                own.id: own for grant in self._view.policy.grants if (own := configured(namespace, grant))
            }
            listed = []
            for grant in {**known, **told}.values():
                row = await connection.fetch_one(
                    "count_grant_uses", {"namespace": namespace, "grant_id": grant.id, "operation": ""}
                )
                shown = grant_shown(grant, now)
                shown["uses"] = 0 if row is None else row["uses"]
                if grant.source is GrantSource.CONFIGURATION and grant.id not in told:
                    shown["holds"] = "no: not in the configuration any more"
                listed.append(shown)
            return listed[-_MOST_LISTED:]

        return await self._view.database.read(work)

    async def note_configured(
        self, connection: Connection, verdict: Verdict, caller: Caller, situation: Situation
    ) -> None:
        """Write down the operator's grant that an attempt was made under, when first used or changed."""
        authority = verdict.fields.get("authority")
        grant = None if authority is None or verdict.next != "perform" else authority.grant
        if grant is None or grant.source is not GrantSource.CONFIGURATION:
            return
        row = await connection.fetch_one("read_grant", {"namespace": self._view.namespace, "id": grant.id})
        known = None if row is None else grant_from_row(row)
        noted = replace(grant, granted_at=situation.now.at if known is None else known.granted_at)
        if noted == known:
            return
        await append(
            connection,
            self._view.namespace,
            lambda _fresh: NamespaceEvent(
                kind=NamespaceEventKind.GRANT_GIVEN, at=situation.now.at, data=as_data(noted)
            ),
            caller=caller_text(caller),
            grants={} if known is None else {known.id: known},
        )

    async def _tell(
        self,
        connection: Connection,
        meant: _Meant,
        kind: EventKind,
        grant: Grant,
        caller: Caller,
        situation: Situation,
    ) -> None:
        """Write what was permitted, or is no more, into the operation's own history."""
        operation = meant.operation
        if operation is None:
            return
        draft = Draft(operation, operation_id=operation.id, situation=situation)
        draft.add(kind, grant=grant.id, expires_at=grant.expires_at, adds_attempt=grant.adds_attempt or None)
        await carry_out(
            connection,
            place=RunPlace(namespace=operation.namespace, run=operation.run),
            run=meant.run,
            changes=(Change(before=operation, after=draft.operation, events=draft.events),),
            bodies=Bodies(),
            caller=caller_text(caller),
            now=situation.now.at,
        )

    async def _operation(self, connection: Connection, ref: OperationRef) -> tuple[Operation, Run | None]:
        operation = await operation_or_fault(
            connection, self._view.namespace, self._view.prepare.reference(ref), must_exist=True
        )
        if operation is None:
            raise LookupError("operation_or_fault gave nothing")
        refuse_damaged(operation)
        row = await connection.fetch_one("read_run", {"namespace": operation.namespace, "run": operation.run})
        return operation, None if row is None else run_from_row(row)

    async def _request_named(self, connection: Connection, request_id: str) -> Request:
        row = await connection.fetch_one(
            "read_request", {"namespace": self._view.namespace, "id": request_id.strip()}
        )
        if row is None:
            raise NotFound(
                "there is no request of that id; nothing was changed",
                fix="`counterfoil requests` lists those that wait",
                candidates=[
                    waiting.id for waiting in await waiting_requests(connection, self._view.namespace)
                ][:8],
            )
        return request_from_row(row)

    def _place(self, operation: Operation, situation: Situation) -> dict[str, Any]:
        return self._view.present.place(operation, situation.now.at)


_RECORDED = Outlook(next="continue", reason="recorded")
_DUPLICATE = Outlook(next="continue", reason="duplicate")
_UNMET = Outlook(next="stop", reason="unmet")


def _head(outlook: Outlook, now: Instant) -> dict[str, Any]:
    return without_none(
        {
            **answer_head(outlook.next, outlook.reason, now),
            "retry_at": None if outlook.retry_at is None else rfc3339(outlook.retry_at),
        }
    )


def _who(caller: Caller) -> str:
    named = caller.agent or caller.client
    return f"{caller.principal}, {named}"[:200] if named else caller.principal


def _time(text: str | None, field: str) -> Instant | None:
    return None if text is None or not text.strip() else parse_rfc3339(text, field=field)


def _has_changed(operation: Operation, request: Request) -> bool:
    described = operation.description
    return (described.fingerprint, described.payload_digest) != (request.fingerprint, request.payload_digest)


def _request_shown(request: Request) -> dict[str, Any]:
    """Show a request, bounded and escaped."""
    return without_none(
        {
            "request": request.id,
            "request_state": request.state,
            "asked_for": request.reason,
            "asked_at": rfc3339(request.asked_at),
            "asked_by": safe(request.asked_by),
            "run": request.run,
            "operation": request.operation,
            "action": safe(request.action),
            "target": safe(request.target),
            "why": safe(request.why),
            "answered_at": None if request.answered_at is None else rfc3339(request.answered_at),
            "grant": request.grant_id,
        }
    )


def grant_shown(grant: Grant, now: Instant) -> dict[str, Any]:
    """Show a grant, bounded and escaped, and whether it holds now as far as time tells."""
    policy: Json = None if grant.policy is None else json.loads(grant.policy)
    return without_none(
        {
            "grant": grant.id,
            "source": grant.source.value,
            "granted_by": safe(grant.granted_by),
            "granted_at": rfc3339(grant.granted_at),
            "subject": safe(grant.subject),
            "action": safe(grant.action),
            "target": safe(grant.target),
            "constraints": [safe(text) for text in grant.constraints] or None,
            "run": grant.run,
            "operation": grant.operation,
            "policy": None if policy is None else safe_value(policy, limit=200, items=5, depth=3),
            "not_before": None if grant.not_before is None else rfc3339(grant.not_before),
            "expires_at": None if grant.expires_at is None else rfc3339(grant.expires_at),
            "max_uses": grant.max_uses,
            "adds_attempt": True if grant.adds_attempt else None,
            "why": safe(grant.why),
            "request": grant.request,
            "revoked_at": None if grant.revoked_at is None else rfc3339(grant.revoked_at),
            "holds": _holds(grant, now),
        }
    )


def _holds(grant: Grant, now: Instant) -> str:
    if grant.revoked_at is not None:
        return "no: revoked"
    if grant.expires_at is not None and now >= grant.expires_at:
        return "no: expired"
    return "not yet" if grant.not_before is not None and now < grant.not_before else "yes"
