"""Gives authority and takes it back; called by the journal inside its transaction.

Only a person gives or takes: whoever is not shown to be one leaves a request. Nothing here is needed to look
up, record or reconcile.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.damaged_rows import refuse_damaged
from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.commands import (
    Caller,
    GrantAuthority,
    OperationRef,
    RevokeGrant,
)
from counterfoil.store.domain.context import normal_context
from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.granting import NamespaceEvent, NamespaceEventKind
from counterfoil.store.domain.grants import (
    Grant,
    GrantSource,
    Request,
    as_data,
    is_out_of_attempts,
    parse_constraint,
)
from counterfoil.store.domain.instants import Instant, micros, parse_rfc3339
from counterfoil.store.domain.model import Operation, Run
from counterfoil.store.domain.outlook import Outlook
from counterfoil.store.errors import Forbidden, InvalidArgument, NotFound
from counterfoil.store.namespace_log import UNREADABLE, append, grant_from_row, rebuilt, unreadable
from counterfoil.store.preparing import Bodies, duration
from counterfoil.store.presenting import without_none
from counterfoil.store.presenting_authority import grant_shown, outlook_head, request_shown, who
from counterfoil.store.protocol import Connection
from counterfoil.store.requesting import MOST_LISTED, Requesting
from counterfoil.store.rows import run_from_row
from counterfoil.store.viewing import Viewer, safe
from counterfoil.store.weighing import (
    authority_shown,
    configured,
    context_of,
)
from counterfoil.store.writing import Change, RunPlace, caller_text, carry_out, under_assumptions

__all__ = ["Authorizing", "note_configured"]

_MOST_CONSTRAINTS = 20


class _Meant(Struct, frozen=True, kw_only=True):
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
    """Keeps the grants of one namespace."""

    def __init__(self, view: Viewer, requesting: Requesting) -> None:
        self._view = view
        self._requesting = requesting

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
            return {**outlook_head(_DUPLICATE, now), **request_shown(request)}
        changed = operation is not None and request is not None and _has_changed(operation, request)
        if changed or command.seen not in (None, meant.seen):
            answer = {
                **outlook_head(_UNMET, now),
                "warnings": ["it is another effect by now than the one shown"],
            }
            return answer if operation is None else {**answer, **self._view.present.place(operation, now)}
        if operation is not None:
            step = await self._view.step_of(connection, operation, now)
            refuse_damaged(step.operation)
            if step.state.is_settled:
                return {**outlook_head(step.outlook, now), **self._view.present.place(operation, now)}
        wish = await self._wish(connection, command, meant, situation)
        made: list[Grant] = []

        def event(fresh: Any) -> NamespaceEvent:
            made.append(replace(wish, id=fresh("grant"), granted_by=who(caller)))
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
        answer = {**outlook_head(_RECORDED, now), "grant": grant_shown(made[0], now)}
        if operation is not None:
            await self._tell(connection, meant, EventKind.AUTHORITY_GRANTED, made[0], caller, situation)
            answer.update(self._view.present.place(operation, now))
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
                asked_by=who(caller),
                call_id=caller.call_id,
            )
            text = under_assumptions(caller_text(caller), run=meant.run, operation=operation)
            changed_at = await self._requesting.changed_at(
                connection, wish.reason, operation, run=meant.name or ""
            )
            request = await self._requesting.keep(connection, wish, text, changed_at=changed_at)
        answer = {
            **outlook_head(Outlook(next="ask", reason="authority_required"), now),
            **await self._requesting.asked(connection, request, operation),
        }
        return answer if operation is None else {**answer, **self._view.present.place(operation, now)}

    async def _meant(self, connection: Connection, command: GrantAuthority) -> _Meant:
        """Find what a grant is to be about.

        Raises:
            InvalidArgument, NotFound: it cannot be told.
        """
        prepare = self._view.prepare
        request = None
        ref = command.ref
        if command.request is not None:
            request = await self._requesting.request_named(connection, command.request)
            if request.operation is None:
                return _Meant(request=request, name=request.run, action=request.action, target=request.target)
            ref = OperationRef(operation=request.operation)
        if ref is not None and (ref.operation is not None or ref.key is not None):
            operation, run = await self._requesting.operation(connection, ref)
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
            return {**outlook_head(_DUPLICATE, now), "grant": grant_shown(grant, now)}
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
            operation, run = await self._requesting.operation(
                connection, OperationRef(operation=grant.operation)
            )
            meant = _Meant(operation=operation, run=run, action=grant.action, target=grant.target)
            await self._tell(connection, meant, EventKind.AUTHORITY_REVOKED, grant, caller, situation)
        return {**outlook_head(_RECORDED, now), "grant": grant_shown(book.grants[grant.id], now)}

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
                shown["request"] = request_shown(meant.request)
            if meant.operation is not None:
                now = self._view.now(connection).at
                step = await self._view.step_of(connection, meant.operation, now)
                shown.update(self._view.present.place(meant.operation, now))
                shown.update(next=step.outlook.next, reason=step.outlook.reason)
                if step.outlook.next == "ask":
                    shown.update(authority_shown(step.authority))
                shown["effect"] = await self._requesting.effect(connection, meant.operation)
            return without_none(shown)

        return await self._view.database.read(work)

    async def grants(self) -> list[dict[str, Any]]:
        """List all grants, the operator's among them, with how many operations are in a use of each.

        Behind them stand those that cannot be read.
        """

        async def work(connection: Connection) -> list[dict[str, Any]]:
            namespace, now = self._view.namespace, self._view.now(connection).at
            rows = await connection.fetch_all("read_grants", {"namespace": namespace, "run": None})
            given, damaged = rebuilt(rows, grant_from_row)
            known = {grant.id: grant for grant in given}
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
            listed += [unreadable("grant", row, holds=UNREADABLE) for row in damaged]
            return listed[-MOST_LISTED:]

        return await self._view.database.read(work)

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


async def note_configured(
    connection: Connection, namespace: str, verdict: Verdict, caller: Caller, situation: Situation
) -> None:
    """Write down the operator's grant that an attempt was made under, when first used or changed."""
    authority = verdict.fields.get("authority")
    grant = None if authority is None or verdict.next != "perform" else authority.grant
    if grant is None or grant.source is not GrantSource.CONFIGURATION:
        return
    row = await connection.fetch_one("read_grant", {"namespace": namespace, "id": grant.id})
    known = None if row is None else grant_from_row(row)
    noted = replace(grant, granted_at=situation.now.at if known is None else known.granted_at)
    if noted == known:
        return
    await append(
        connection,
        namespace,
        lambda _fresh: NamespaceEvent(
            kind=NamespaceEventKind.GRANT_GIVEN, at=situation.now.at, data=as_data(noted)
        ),
        caller=caller_text(caller),
        grants={} if known is None else {known.id: known},
    )


_DUPLICATE = Outlook(next="continue", reason="duplicate")
_RECORDED = Outlook(next="continue", reason="recorded")
_UNMET = Outlook(next="stop", reason="unmet")


def _time(text: str | None, field: str) -> Instant | None:
    return None if text is None or not text.strip() else parse_rfc3339(text, field=field)


def _has_changed(operation: Operation, request: Request) -> bool:
    described = operation.description
    return (described.fingerprint, described.payload_digest) != (request.fingerprint, request.payload_digest)
