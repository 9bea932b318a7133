"""Seals the ids of sessions, so that only what this journal gave to a principal names a connection of theirs.

The seal is made under the journal's key, over the id and the principal it was given to: any worker of the
journal can check it, and nobody else can make one.
"""

import hmac
import re
from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Scope

from counterfoil.server.http.principals import Principal
from counterfoil.server.http.sessions import SESSION_HEADER
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.errors import Fault

__all__ = ["JournalOf", "SessionSeals", "Vouching"]

_FORM = re.compile(r"(?P<id>[A-Za-z0-9._-]{1,1300})\.(?P<seal>[0-9a-f]{64})")


class Vouching(Protocol):
    """The part of a journal that proves who wrote a text."""

    def vouch(self, text: str) -> str:
        """Give what later proves, to every server of this journal, that one of them wrote `text` here."""
        ...


JournalOf = Callable[[str], Awaitable[Vouching]]
"""Gives the journal of a namespace, or raises the fault that says why there is none now."""


class SessionSeals:
    """Makes seals and checks them. `journal_of` gives the journal under whose key they are."""

    def __init__(self, journal_of: JournalOf) -> None:
        self._journal_of = journal_of

    async def sealed(self, session_id: str, principal: Principal) -> str | None:
        """Give an id as its client gets it; None while there is no journal to vouch for it."""
        seal = await self._seal(session_id, principal)
        return None if seal is None else f"{session_id}.{seal}"

    async def admit(self, scope: Scope, principal: Principal) -> None:
        """Leave in a request's header the bare id, or nothing where it is not this principal's by its seal.

        So whatever reads the header behind this knows that it holds.
        """
        given = Headers(scope=scope).getlist(SESSION_HEADER)
        self.drop(scope)
        match = _FORM.fullmatch(given[0]) if len(given) == 1 else None
        if match is None:
            return
        seal = await self._seal(match["id"], principal)
        if seal is not None and hmac.compare_digest(seal, match["seal"]):
            MutableHeaders(scope=scope)[SESSION_HEADER] = match["id"]

    def drop(self, scope: Scope) -> None:
        """Take the header off a request that needs no connection."""
        name = SESSION_HEADER.encode()
        scope["headers"] = [(given, value) for given, value in scope["headers"] if given.lower() != name]

    async def _seal(self, session_id: str, principal: Principal) -> str | None:
        try:
            journal = await self._journal_of(principal.namespace)
        except Fault:
            # A call finds the same fault itself, and says it.
            return None
        return journal.vouch(canonical_json(["http session", principal.name, session_id]))
