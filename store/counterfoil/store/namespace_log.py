"""The log of what belongs to no run: grants, requests, gaps, tokens, compactions. A hash chain of its own.

It is made like a run's, under a run of the empty name, which no run can have. Appending to it contends only
with others that do so in the same namespace.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import convert

from counterfoil.store.chain import event_hash, first_fault, genesis
from counterfoil.store.domain.granting import (
    Book,
    Gap,
    NamespaceEvent,
    NamespaceEventKind,
    evolve_book,
    fact_id,
)
from counterfoil.store.domain.grants import Grant, Request
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.tokens import Token
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import JournalUnavailable, RowDamaged
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.rows import TRUTHS
from counterfoil.store.statements import StatementRefused
from counterfoil.store.stored_json import to_json

__all__ = [
    "UNREADABLE",
    "accepted_in_log",
    "append",
    "grant_from_row",
    "rebuilt",
    "request_from_row",
    "token_from_row",
    "unreadable",
    "verify_namespace",
    "waiting_requests",
]

Fact = TypeVar("Fact")

UNREADABLE = "no: its row cannot be read"
"""Whether it holds, where nobody can tell what it was: it permits nothing."""

_NO_RUN = ""
_REQUEST_STATES = ("waiting", "granted", "declined")


def grant_from_row(row: Row) -> Grant:
    """Rebuild a grant.

    Raises:
        RowDamaged: the row holds what no event could have written.
    """
    with _named("grant", row):
        data = {
            **row,
            "constraints": json.loads(row["constraints"]),
            "adds_attempt": TRUTHS[row["adds_attempt"]],
        }
        grant = convert(data, Grant)
        if grant.policy is not None:
            json.loads(grant.policy)
        return grant


def request_from_row(row: Row) -> Request:
    """Rebuild a request.

    Raises:
        RowDamaged: as `grant_from_row`.
    """
    with _named("request", row):
        request = convert(dict(row), Request)
        if request.state not in _REQUEST_STATES:
            raise ValueError(request.state)
        return request


def token_from_row(row: Row) -> Token:
    """Rebuild a token.

    Raises:
        RowDamaged: as `grant_from_row`.
    """
    with _named("token", row):
        return convert({**row, "scopes": json.loads(row["scopes"])}, Token)


@contextmanager
def _named(kind: str, row: Row) -> Iterator[None]:
    """Name the row in which a value comes up that no event could have written."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RowDamaged(f"{kind} {escape_untrusted(str(row['id']), limit=100)}") from error


def rebuilt(rows: Iterable[Row], from_row: Callable[[Row], Fact]) -> tuple[list[Fact], list[Row]]:
    """Rebuild what rows hold, and give apart those that cannot be read: one spoils no other."""
    facts: list[Fact] = []
    damaged: list[Row] = []
    for row in rows:
        try:
            facts.append(from_row(row))
        except RowDamaged:
            damaged.append(row)
    return facts, damaged


def unreadable(kind: str, row: Row, **shown: Any) -> dict[str, Any]:
    """Name a row that cannot be read in a list of its kind."""
    return {kind: escape_untrusted(str(row["id"]), limit=100), **shown, "damaged": True}


async def waiting_requests(connection: Connection, namespace: str) -> tuple[Request, ...]:
    """Read what nobody has answered yet, oldest first; one that cannot be read is answered by nothing."""
    rows = await connection.fetch_all("read_requests", {"namespace": namespace, "state": "waiting"})
    return tuple(rebuilt(rows, request_from_row)[0])


async def append(
    connection: Connection,
    namespace: str,
    make: Callable[[Callable[[str], str]], NamespaceEvent],
    *,
    caller: str,
    grants: Mapping[str, Grant] | None = None,
    requests: Mapping[str, Request] | None = None,
    tokens: Mapping[str, Token] | None = None,
    compactions: Mapping[str, Instant] | None = None,
) -> Book:
    """Append one event and write the rows that follow from it; give the facts as it leaves them.

    `make` is given what derives a fresh id of a kind (`grant`, `request`); the facts that the event may
    touch come in `grants`, `requests`, `tokens` and `compactions`, the waiting requests in any case.

    Raises:
        JournalUnavailable: another writer appended meanwhile; the transaction has to be undone.
    """
    row = await connection.fetch_one("read_namespace", {"namespace": namespace})
    seq, head = (0, genesis(namespace, _NO_RUN)) if row is None else (row["last_seq"], row["head"])
    if row is None:
        await connection.execute("create_namespace", {"namespace": namespace, "head": head})
    event = make(lambda kind: fact_id(kind, namespace, head))
    known = {request.id: request for request in await waiting_requests(connection, namespace)}
    before = Book(
        grants=dict(grants or {}),
        requests={**known, **(requests or {})},
        tokens=dict(tokens or {}),
        compactions=dict(compactions or {}),
    )
    after = evolve_book(before, event)
    data = to_json(event.data)
    hashed = event_hash(
        head,
        seq=seq + 1,
        operation=event.operation,
        kind=event.kind.value,
        at=event.at,
        caller=caller,
        data=data,
    )
    advanced = await connection.fetch_one(
        "advance_namespace",
        {"namespace": namespace, "last_seq": seq + 1, "head": hashed, "expected_seq": seq},
    )
    if advanced is None:
        raise JournalUnavailable(
            "another writer wrote to the log of the namespace at the same moment; nothing was recorded",
            fix="send the call again",
            retryable=True,
        )
    for name, grant in after.grants.items():
        if before.grants.get(name) != grant:
            await connection.execute("save_grant", _grant_row(namespace, grant))
    for name, request in after.requests.items():
        if before.requests.get(name) != request:
            await connection.execute("save_request", {"namespace": namespace, **_plain(request)})
    for place, gap in after.gaps.items():
        if before.gaps.get(place) != gap:
            await connection.execute(
                "save_accepted_gap", {"namespace": namespace, **_plain(gap), "caller": caller}
            )
    for name, token in after.tokens.items():
        if before.tokens.get(name) != token:
            await connection.execute("save_token", _token_row(namespace, token))
    for conversation, compacted_at in after.compactions.items():
        if before.compactions.get(conversation) != compacted_at:
            await connection.execute(
                "save_compaction",
                {"namespace": namespace, "conversation": conversation, "compacted_at": compacted_at},
            )
    appended = {
        "namespace": namespace,
        "seq": seq + 1,
        "operation": event.operation,
        "kind": event.kind.value,
        "at": event.at,
        "caller": caller,
        "data": data,
        "hash": hashed,
    }
    try:
        await connection.execute("append_namespace_event", appended)
    except StatementRefused as error:
        # The row of the namespace says that its log ends before it does.
        raise RowDamaged(f"namespace {escape_untrusted(namespace, limit=100)}") from error
    return after


async def accepted_in_log(connection: Connection, namespace: str, *, run: str, restored_at: Instant) -> bool:
    """Tell whether the log says that this gap was accepted: a row alone proves nothing."""
    rows = await _rows(connection, namespace)
    return any(
        row["kind"] == NamespaceEventKind.GAP_ACCEPTED.value
        and json.loads(row["data"]) == {"run": run, "restored_at": restored_at}
        for row in rows
    )


def _plain(fact: Grant | Request | Gap | Token) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in fact.__struct_fields__}


def _grant_row(namespace: str, grant: Grant) -> dict[str, Any]:
    return {
        **_plain(grant),
        "namespace": namespace,
        "source": grant.source.value,
        "constraints": to_json(list(grant.constraints)),
        "adds_attempt": int(grant.adds_attempt),
    }


def _token_row(namespace: str, token: Token) -> dict[str, Any]:
    row = {**_plain(token), "namespace": namespace, "scopes": to_json(list(token.scopes))}
    return {"digest": row.pop("sha256"), **row}


async def verify_namespace(connection: Connection, row: Row) -> tuple[int, list[str]]:
    """Replay a namespace's own log: how many events, and what is wrong with the chain or the rows."""
    namespace = row["namespace"]
    rows = await _rows(connection, namespace)
    where = f"namespace {namespace}"
    head = row["head"] or genesis(namespace, _NO_RUN)
    broken = first_fault(rows, namespace=namespace, run=_NO_RUN, last_seq=row["last_seq"], head=head)
    faults = [] if broken is None else [f"{where}: {broken.problem}"]
    stored, damaged = await _stored(connection, namespace)
    faults += [f"{where}: the row of {what} cannot be read" for what in damaged]
    try:
        replayed = _replayed(rows)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return len(rows), [*faults, f"{where}: its events cannot be replayed"]
    if stored.grants != replayed.grants:
        faults.append(f"{where}: there are grants that its events do not lead to")
    if stored.requests != replayed.requests:
        faults.append(f"{where}: there are requests that its events do not lead to")
    if stored.tokens != replayed.tokens:
        faults.append(f"{where}: there are tokens that its events do not lead to")
    if stored.compactions != replayed.compactions:
        faults.append(f"{where}: there are compactions that its events do not lead to")
    if stored.gaps != replayed.gaps:
        faults.append(
            f"{where}: there are accepted gaps that its events do not lead to "
            "(`counterfoil restore --accept-gap` puts the acceptance into the log)"
        )
    return len(rows), faults


async def _rows(connection: Connection, namespace: str) -> list[Row]:
    """Read the log of a namespace, oldest first, as far as it has no hole."""
    rows: list[Row] = []
    while page := await connection.fetch_all(
        "read_namespace_events", {"namespace": namespace, "after": len(rows), "most": 1_000}
    ):
        rows += page
        if page[-1]["seq"] != len(rows):
            break
    return rows


async def _stored(connection: Connection, namespace: str) -> tuple[Book, list[str]]:
    """Give what the rows say, and name those that cannot be read."""
    place = {"namespace": namespace}
    rows = await connection.fetch_all("read_grants", {**place, "run": None})
    grants, bad_grants = rebuilt(rows, grant_from_row)
    rows = await connection.fetch_all("read_requests", {**place, "state": None})
    requests, bad_requests = rebuilt(rows, request_from_row)
    tokens, bad_tokens = rebuilt(await connection.fetch_all("read_tokens", place), token_from_row)
    gaps = await connection.fetch_all("read_accepted_gaps", place)
    compactions = await connection.fetch_all("read_compactions", place)
    damaged = [
        f"{kind} {escape_untrusted(str(row['id']), limit=100)}"
        for kind, rows in (("grant", bad_grants), ("request", bad_requests), ("token", bad_tokens))
        for row in rows
    ]
    book = Book(
        grants={grant.id: grant for grant in grants},
        requests={request.id: request for request in requests},
        gaps={
            (row["restored_at"], row["run"]): Gap(
                run=row["run"], restored_at=row["restored_at"], accepted_at=row["accepted_at"]
            )
            for row in gaps
        },
        tokens={token.id: token for token in tokens},
        compactions={row["conversation"]: row["compacted_at"] for row in compactions},
    )
    return book, damaged


def _replayed(rows: Sequence[Row]) -> Book:
    book = Book()
    for row in rows:
        book = evolve_book(
            book,
            NamespaceEvent(
                kind=NamespaceEventKind(row["kind"]),
                operation=row["operation"],
                at=row["at"],
                data=json.loads(row["data"]),
            ),
        )
    return book
