"""The log of what belongs to no run: grants, tokens, requests answered, gaps accepted, compactions.

Events are plain JSON as in `events`; `evolve_book` is the only place that makes facts out of them.
"""

import base64
import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.grants import Grant, GrantSource, Request
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.tokens import Token

__all__ = ["Book", "Gap", "NamespaceEvent", "NamespaceEventKind", "evolve_book", "fact_id"]

_TAG = "counterfoil.authority.v1"


class NamespaceEventKind(StrEnum):
    """Everything that can happen in a namespace outside its runs."""

    AUTHORITY_REQUESTED = "authority_requested"
    REQUEST_DECLINED = "request_declined"
    GRANT_GIVEN = "grant_given"
    GRANT_REVOKED = "grant_revoked"
    GAP_ACCEPTED = "gap_accepted"
    TOKEN_ISSUED = "token_issued"
    TOKEN_REVOKED = "token_revoked"
    CONVERSATION_COMPACTED = "conversation_compacted"


class NamespaceEvent(Struct, frozen=True, kw_only=True):
    """One thing that happened; `operation` is the one that it is about, empty where it is about none."""

    kind: NamespaceEventKind
    operation: str = ""
    at: Instant
    data: Mapping[str, Any]


class Gap(Struct, frozen=True, kw_only=True):
    """What a person accepted: that a journal put back at `restored_at` lacks history of a run.

    An empty run stands for every run of the namespace.
    """

    run: str
    restored_at: Instant
    accepted_at: Instant


class Book(Struct, frozen=True, kw_only=True):
    """All grants, requests and tokens of a namespace, by id, and its accepted gaps, by restore and run.

    `compactions` tells of a conversation from when on its model remembers.
    """

    grants: Mapping[str, Grant] = field(default_factory=dict)
    requests: Mapping[str, Request] = field(default_factory=dict)
    gaps: Mapping[tuple[Instant, str], Gap] = field(default_factory=dict)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    compactions: Mapping[str, Instant] = field(default_factory=dict)


def fact_id(kind: str, *parts: str) -> str:
    """Derive an id such as `grant_` and 20 lower-case base-32 characters from what makes it unique."""
    hashed = hashlib.sha256(canonical_json([_TAG, kind, *parts]).encode()).digest()
    return f"{kind}_{base64.b32encode(hashed[:15])[:20].decode().lower()}"


def evolve_book(book: Book, event: NamespaceEvent) -> Book:
    """Apply one event.

    Raises:
        KeyError, TypeError, ValueError: the event cannot follow (a log out of order or tampered with).
    """
    data = event.data
    match event.kind:
        case NamespaceEventKind.AUTHORITY_REQUESTED:
            request = Request(**data)
            return replace(book, requests={**book.requests, request.id: request})
        case NamespaceEventKind.REQUEST_DECLINED:
            declined = replace(book.requests[data["request"]], state="declined", answered_at=event.at)
            return replace(book, requests={**book.requests, declined.id: declined})
        case NamespaceEventKind.GRANT_GIVEN:
            grant = Grant(
                **{
                    **data,
                    "source": GrantSource(data["source"]),
                    "constraints": tuple(data.get("constraints", ())),
                }
            )
            requests = dict(book.requests)
            for name, request in requests.items():
                if request.state == "waiting" and answers(grant, request):
                    requests[name] = replace(
                        request, state="granted", answered_at=event.at, grant_id=grant.id
                    )
            return replace(book, grants={**book.grants, grant.id: grant}, requests=requests)
        case NamespaceEventKind.GRANT_REVOKED:
            revoked = replace(book.grants[data["grant"]], revoked_at=event.at, revoked_why=data.get("why"))
            return replace(book, grants={**book.grants, revoked.id: revoked})
        case NamespaceEventKind.GAP_ACCEPTED:
            gap = Gap(run=data["run"], restored_at=data["restored_at"], accepted_at=event.at)
            return replace(book, gaps={**book.gaps, (gap.restored_at, gap.run): gap})
        case NamespaceEventKind.TOKEN_ISSUED:
            token = Token(**{**data, "scopes": tuple(data["scopes"])})
            return replace(book, tokens={**book.tokens, token.id: token})
        case NamespaceEventKind.TOKEN_REVOKED:
            over = replace(book.tokens[data["token"]], revoked_at=event.at)
            return replace(book, tokens={**book.tokens, over.id: over})
        case NamespaceEventKind.CONVERSATION_COMPACTED:
            conversation, at = data["conversation"], data["compacted_at"]
            last = max(at, book.compactions.get(conversation, at))
            return replace(book, compactions={**book.compactions, conversation: last})


def answers(grant: Grant, request: Request) -> bool:
    """Tell whether a grant is the answer to a waiting request: named in it, or about the same operation."""
    if grant.request == request.id:
        return True
    return grant.operation is not None and grant.operation == request.operation
