"""Keeps what agents ask a person for, until it is answered; called by the journal inside its transaction."""

from typing import Any

from msgspec.structs import replace

from counterfoil.store.damaged_rows import refuse_damaged
from counterfoil.store.domain.answers import NOBODY_ASKED, PERMITTED, REQUESTED
from counterfoil.store.domain.commands import (
    Caller,
    OperationRef,
    RequestAuthority,
)
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.granting import NamespaceEvent, NamespaceEventKind
from counterfoil.store.domain.grants import (
    GRANTABLE,
    Authority,
    Request,
    as_data,
    exact_pattern,
    weigh,
)
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Description, Operation, Run
from counterfoil.store.domain.outlook import Outlook
from counterfoil.store.errors import Forbidden, InvalidArgument, NotFound
from counterfoil.store.namespace_log import append, rebuilt, request_from_row, unreadable, waiting_requests
from counterfoil.store.preparing import Bodies
from counterfoil.store.presenting import without_none
from counterfoil.store.presenting_authority import outlook_head, request_shown, who
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import operation_or_fault
from counterfoil.store.rows import run_from_row
from counterfoil.store.standing_requests import changed_at
from counterfoil.store.viewing import Viewer, party_of, safe, step_warnings
from counterfoil.store.weighing import (
    authority_facts,
    authority_shown,
    set_up_bench,
)
from counterfoil.store.writing import caller_text, under_assumptions

__all__ = ["MOST_LISTED", "Requesting"]

MOST_LISTED = 1_000

_DECLINED = "a person was asked, and has not permitted it"


class Requesting:
    """Keeps the requests of one namespace."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def request(
        self, connection: Connection, command: RequestAuthority, caller: Caller, situation: Situation
    ) -> dict[str, Any]:
        """Keep a wish for permission until a person answers it; where none is needed, say what is.

        The same wish again is the same request, also under another call, and after a person declined it while
        nothing has changed: nobody is asked twice.

        Raises:
            InvalidArgument, NotFound: what is meant cannot be told; nothing was recorded.
        """
        why = self._view.prepare.text(command.why, name="why")
        ref = command.ref
        if ref.operation is None and ref.key is None:
            return await self._request_in_run(connection, command, why, caller, situation)
        operation, run = await self.operation(connection, ref)
        step = await self._view.step_of(connection, operation, situation.now.at, party=party_of(caller))
        refuse_damaged(step.operation)
        shown = {
            **outlook_head(step.outlook, situation.now.at),
            **self._view.present.place(operation, situation.now.at),
            **without_none({"warnings": step_warnings(step)}),
        }
        if step.outlook.next == "begin":
            return {**shown, "guidance": NOBODY_ASKED if step.authority.grant is None else PERMITTED}
        if step.outlook.next != "ask" or step.outlook.reason not in GRANTABLE:
            return shown
        described = operation.description
        request = await self.keep(
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
                asked_by=who(caller),
                call_id=caller.call_id,
            ),
            under_assumptions(caller_text(caller), run=run, operation=operation),
            changed_at=await self.changed_at(connection, step.outlook.reason, operation, run=operation.run),
        )
        asked = await self.asked(connection, request, operation)
        warnings = [*shown.get("warnings", ()), *asked.get("warnings", ())]
        return {
            **shown,
            **authority_shown(step.authority),
            **asked,
            **({"warnings": warnings} if warnings else {}),
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
        shown = {**outlook_head(outlook, situation.now.at), "run": name}
        if authority.grant is not None and reason is None:
            return {**shown, "guidance": PERMITTED, "grant": authority.grant.id}
        if reason is None:
            return {**shown, "guidance": NOBODY_ASKED}
        target = "*" if described.target is None else exact_pattern(described.target)
        request = await self.keep(
            connection,
            Request(
                id="",
                asked_at=situation.now.at,
                reason=reason,
                run=name,
                action=exact_pattern(described.action),
                target=target,
                why=why,
                asked_by=who(caller),
                call_id=caller.call_id,
            ),
            under_assumptions(caller_text(caller), run=run),
            changed_at=await self.changed_at(connection, reason, None, run=name),
        )
        return {**shown, **authority_shown(authority), **await self.asked(connection, request, None)}

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

    async def changed_at(
        self, connection: Connection, reason: str, operation: Operation | None, *, run: str
    ) -> Instant:
        """Tell when something last happened after which a person who said no may be asked anew."""
        place = {"namespace": self._view.namespace, "run": run}
        return await changed_at(connection, reason, operation, **place, policy=self._view.policy)

    async def keep(
        self, connection: Connection, wish: Request, caller: str, *, changed_at: Instant
    ) -> Request:
        """Keep a request, or give the one that says the same and still waits or was declined.

        A no stands until the person changes their mind, or something happens after it (`changed_at`).
        """
        for waiting in await waiting_requests(connection, self._view.namespace):
            if waiting.is_same(wish):
                return waiting
        terms = {"run": wish.run, "action": wish.action, "target": wish.target}
        rows = await connection.fetch_all("declined_requests", {"namespace": self._view.namespace, **terms})
        for declined in rebuilt(rows, request_from_row)[0]:
            is_of_now = declined.answered_at is not None and declined.answered_at >= changed_at
            if is_of_now and declined.reason == wish.reason and declined.is_same(wish):
                return declined
        if wish.call_id is not None:
            place = {"namespace": self._view.namespace, "call_id": wish.call_id}
            known, _ = rebuilt(await connection.fetch_all("requests_of_call", place), request_from_row)
            for earlier in known:
                if earlier.is_same(wish):
                    return earlier
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

    async def decline(
        self, connection: Connection, request_id: str, caller: Caller, situation: Situation
    ) -> dict[str, Any]:
        """Say no to a request; the answer is what an agent has to do then, which is nothing.

        Raises:
            NotFound: there is no such request.
            Forbidden: by somebody who is not shown to be a person.
        """
        request, now = await self.request_named(connection, request_id), situation.now.at
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
            **outlook_head(Outlook(next="ask", reason=request.reason), now),
            "guidance": REQUESTED["declined"],
            **request_shown(request),
            "warnings": [_DECLINED],
        }

    async def requests(self, state: str | None) -> list[dict[str, Any]]:
        """List requests in one state, or all, oldest first, and behind them those that cannot be read."""

        async def work(connection: Connection) -> list[dict[str, Any]]:
            # All of them: a damaged one may be in no state that there is.
            rows = await connection.fetch_all(
                "read_requests", {"namespace": self._view.namespace, "state": None}
            )
            known, damaged = rebuilt(rows, request_from_row)
            listed = [request_shown(request) for request in known if state in (None, request.state)]
            listed += [unreadable("request", row) for row in damaged]
            return listed[-MOST_LISTED:]

        return await self._view.database.read(work)

    async def asked(
        self, connection: Connection, request: Request, operation: Operation | None
    ) -> dict[str, Any]:
        """Show a request as the person who answers it has to see it."""
        shown = {**request_shown(request), "how": f"counterfoil grant {request.id}"}
        if request.state in REQUESTED:
            shown["guidance"] = REQUESTED[request.state]
        if operation is not None:
            shown["effect"] = await self.effect(connection, operation)
        if request.state == "declined":
            shown["warnings"] = [_DECLINED]
        return shown

    async def effect(self, connection: Connection, operation: Operation) -> dict[str, Any]:
        """Show what would happen, as far as a person can take it in."""
        described = operation.description
        effect: dict[str, Any] = {"action": safe(described.action), "target": safe(described.target)}
        for name, digest in (("args", described.args_digest), ("payload", described.payload_digest)):
            if digest is not None:
                effect[name] = await self._view.body(connection, operation, digest, detail=name)
        return without_none(effect)

    async def request_named(self, connection: Connection, request_id: str) -> Request:
        """Give a request.

        Raises:
            NotFound: there is none of that id.
        """
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

    async def operation(self, connection: Connection, ref: OperationRef) -> tuple[Operation, Run | None]:
        """Give the operation that is meant, and its run.

        Raises:
            InvalidArgument, NotFound, JournalUnavailable: there is none, or it cannot be read.
        """
        operation = await operation_or_fault(
            connection, self._view.namespace, self._view.prepare.reference(ref), must_exist=True
        )
        if operation is None:
            raise LookupError("operation_or_fault gave nothing")
        refuse_damaged(operation)
        row = await connection.fetch_one("read_run", {"namespace": operation.namespace, "run": operation.run})
        return operation, None if row is None else run_from_row(row)
