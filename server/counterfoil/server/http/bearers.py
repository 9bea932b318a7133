"""Tells whose a bearer token is, anew for each request: one of this journal, or a JWT.

Nothing is remembered of a token of the journal, so a revocation counts from the next request on. A JWT
counts until it expires: what its issuer revokes before that, only the issuer knows.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials, AuthenticationError, BaseUser
from starlette.requests import HTTPConnection
from starlette.responses import Response

from counterfoil.server.bearer_tokens import is_bearer_token, token_digest
from counterfoil.server.http.answers import not_now
from counterfoil.server.http.jwt_tokens import JwtTokens
from counterfoil.server.http.principals import Principal, PrincipalToken
from counterfoil.store.errors import Fault

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["Bearers", "CannotTell", "TellingBackend", "answer_cannot_tell"]


class CannotTell(AuthenticationError):
    """Whose a request is cannot be told, since what would tell cannot be reached."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Bearers:
    """The SDK's `TokenVerifier`. `journal` is None where the journal's tokens do not count."""

    def __init__(
        self, journal: "Callable[[], Awaitable[Journal]] | None", jwt_tokens: JwtTokens | None
    ) -> None:
        self._journal = journal
        self._jwt_tokens = jwt_tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Give whom a token stands for; None where it counts for nobody.

        Raises:
            Fault: it cannot be told now.
        """
        if is_bearer_token(token):
            return await self._of_journal(token)
        return None if self._jwt_tokens is None else await self._jwt_tokens.verify(token)

    async def _of_journal(self, token: str) -> AccessToken | None:
        if self._journal is None:
            return None
        bearer = await (await self._journal()).bearer(token_digest(token))
        if bearer is None:
            return None
        principal = Principal(
            name=f"token:{bearer.name}", namespace=bearer.namespace, scopes=frozenset(bearer.scopes)
        )
        return PrincipalToken(
            token="",
            client_id=principal.name,
            scopes=list(bearer.scopes),
            subject=principal.name,
            principal=principal,
        )


class TellingBackend(BearerAuthBackend):
    """The SDK's backend, which also tells when it cannot tell."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser] | None:
        """Give whose a request is; None where it brings no token that counts.

        Raises:
            CannotTell: it cannot be told now.
        """
        if len(conn.headers.getlist("authorization")) > 1:
            # A proxy and this server could each heed another one.
            return None
        try:
            found: tuple[AuthCredentials, BaseUser] | None = await super().authenticate(conn)
        except Fault as fault:
            raise CannotTell(fault) from fault
        return found


def answer_cannot_tell(conn: HTTPConnection, error: Exception) -> Response:
    """Answer a request of which it cannot be told whose it is: not 401, which would end a good token's use.

    Raises:
        Exception: `error` is something else.
    """
    if not isinstance(error, CannotTell):
        raise error
    return not_now(error.fault)
