"""Issuing bearer tokens, taking them back, telling whose one is; called by the journal in its transaction.

Only a person issues or takes back. What a token is stays with whoever it was shown to: its digest comes in.
"""

import re
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.commands import Caller, IssueToken
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.granting import NamespaceEvent, NamespaceEventKind
from counterfoil.store.domain.instants import Instant, micros, rfc3339
from counterfoil.store.domain.tokens import Token, token_data, why_over
from counterfoil.store.errors import Forbidden, InvalidArgument, NotFound
from counterfoil.store.namespace_log import UNREADABLE, append, rebuilt, token_from_row, unreadable
from counterfoil.store.preparing import duration
from counterfoil.store.presenting import without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.viewing import Viewer, safe
from counterfoil.store.writing import caller_text

__all__ = ["Bearer", "Tokening"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_SCOPES = 20


class Bearer(Struct, frozen=True, kw_only=True):
    """Whom a token stands for, in which namespace, and how far it goes."""

    namespace: str
    name: str
    scopes: tuple[str, ...]
    expires_at: Instant | None


class Tokening:
    """Keeps the tokens of one namespace."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def issue(
        self, connection: Connection, command: IssueToken, caller: Caller, situation: Situation
    ) -> dict[str, Any]:
        """Put a token on file that counts from now on.

        Raises:
            Forbidden: by somebody who is not shown to be a person.
            InvalidArgument: the name, its scopes or its end cannot be taken; nothing was recorded.
        """
        _refuse_programs(situation, "issues a token")
        if not _NAME.fullmatch(command.name):
            raise InvalidArgument(
                "name",
                "cannot be taken",
                accepted="1 to 100 letters, digits or ._@+- that begin with a letter or digit",
            )
        self._view.prepare.name(command.name, name="name")
        if not _DIGEST.fullmatch(command.sha256) or not 1 <= len(command.scopes) <= _MOST_SCOPES:
            raise InvalidArgument("scopes", "are missing", accepted="at least one scope, and a digest")
        now = situation.now.at
        for token in await self._tokens(connection, command.name):
            if token.name == command.name and self._why_over(token, now) is None:
                raise InvalidArgument(
                    "name",
                    "is that of a token that counts",
                    accepted=f"another name, or revoke {token.id} first",
                )
        lasts = duration(command.lasts_seconds, name="lasts_seconds")
        made: list[Token] = []

        def event(fresh: Any) -> NamespaceEvent:
            made.append(
                Token(
                    id=fresh("token"),
                    name=command.name,
                    sha256=command.sha256,
                    scopes=tuple(sorted(set(command.scopes))),
                    created_at=now,
                    created_by=caller.principal,
                    expires_at=None if lasts is None else now + micros(lasts),
                )
            )
            return NamespaceEvent(kind=NamespaceEventKind.TOKEN_ISSUED, at=now, data=token_data(made[0]))

        await append(connection, self._view.namespace, event, caller=caller_text(caller))
        return self._shown(made[0], now)

    async def revoke(
        self, connection: Connection, name: str, caller: Caller, situation: Situation
    ) -> dict[str, Any]:
        """Take a token back, by its id or name, from the next request on. One that is over stays as it is.

        Raises:
            Forbidden: by somebody who is not shown to be a person.
            NotFound: there is none.
        """
        _refuse_programs(situation, "takes a token back")
        now = situation.now.at
        name = name.strip()
        found = [token for token in await self._tokens(connection, name) if name in (token.id, token.name)]
        if not found:
            raise NotFound(
                "there is no token of that name or id in this namespace; nothing was changed",
                fix="`counterfoil token list` lists them",
            )
        standing = [token for token in found if token.revoked_at is None]
        for token in standing:
            await append(
                connection,
                self._view.namespace,
                lambda _fresh, token=token: NamespaceEvent(  # type: ignore[misc]
                    kind=NamespaceEventKind.TOKEN_REVOKED, at=now, data={"token": token.id}
                ),
                caller=caller_text(caller),
                tokens={token.id: token},
            )
        after = {token.id: token for token in await self._tokens(connection, name)}
        return {
            "revoked": len(standing),
            "tokens": [self._shown(after[token.id], now) for token in found],
        }

    async def listed(self, connection: Connection) -> list[dict[str, Any]]:
        """Give every token of the namespace, oldest first, and whether it counts.

        Behind them stand those that cannot be read.
        """
        now, namespace = self._view.now(connection).at, self._view.namespace
        rows = await connection.fetch_all("read_tokens", {"namespace": namespace})
        tokens, damaged = rebuilt(rows, token_from_row)
        return [self._shown(token, now) for token in tokens] + [
            unreadable("token", row, namespace=namespace, holds=UNREADABLE) for row in damaged
        ]

    async def bearer(self, connection: Connection, sha256: str) -> Bearer | None:
        """Tell whom a token stands for, in whichever namespace; None where it counts for nobody now."""
        row = await connection.fetch_one("token_by_digest", {"digest": sha256})
        if row is None:
            return None
        token = token_from_row(row)
        if self._why_over(token, self._view.now(connection).at) is not None:
            return None
        return Bearer(
            namespace=row["namespace"], name=token.name, scopes=token.scopes, expires_at=token.expires_at
        )

    async def _tokens(self, connection: Connection, name: str) -> list[Token]:
        """Give the tokens that can be read.

        Raises:
            RowDamaged: one that cannot is of this id or name.
        """
        rows = await connection.fetch_all("read_tokens", {"namespace": self._view.namespace})
        tokens, damaged = rebuilt(rows, token_from_row)
        for row in damaged:
            if name in (row["id"], row["name"]):
                token_from_row(row)
        return tokens

    def _why_over(self, token: Token, now: Instant) -> str | None:
        return why_over(token, now=now, history_lost_at=self._view.policy.history_lost_at)

    def _shown(self, token: Token, now: Instant) -> dict[str, Any]:
        why = self._why_over(token, now)
        return without_none(
            {
                "token": token.id,
                "name": token.name,
                "namespace": self._view.namespace,
                "scopes": list(token.scopes),
                "created_at": rfc3339(token.created_at),
                "created_by": safe(token.created_by),
                "expires_at": None if token.expires_at is None else rfc3339(token.expires_at),
                "revoked_at": None if token.revoked_at is None else rfc3339(token.revoked_at),
                "holds": "yes" if why is None else f"no: {why}",
            }
        )


def _refuse_programs(situation: Situation, what: str) -> None:
    if not situation.is_person:
        raise Forbidden(
            f"only a person {what}; nothing was changed",
            fix="answer at a terminal, or bring the operator's secret",
        )
