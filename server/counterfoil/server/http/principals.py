"""Says who sent a request: the principal and namespace that a token stands for, and nothing else does."""

import hashlib
import secrets

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from msgspec import Struct
from pydantic import InstanceOf
from starlette.requests import HTTPConnection

from counterfoil.server.callers import ClientInfo
from counterfoil.server.http.sessions import SESSION_HEADER, session_of
from counterfoil.server.scopes import READ, WRITE

__all__ = ["Principal", "PrincipalToken", "client_of", "local_principal", "principal_of"]


class Principal(Struct, frozen=True, kw_only=True):
    """Who acts, and in which tenant. `is_from_oauth`: the client can go and get another scope by itself."""

    name: str
    namespace: str
    scopes: frozenset[str]
    is_from_oauth: bool = False


class PrincipalToken(AccessToken):
    """A token that was verified, as the SDK carries it, with whom it stands for."""

    principal: InstanceOf[Principal]


def local_principal(namespace: str) -> Principal:
    """Give whoever reaches a server without authentication: anybody on this machine, and so no person."""
    return Principal(name="local", namespace=namespace, scopes=frozenset((READ, WRITE)))


def principal_of(connection: HTTPConnection) -> Principal:
    """Give the principal of a request that was let in.

    Raises:
        LookupError: it was not: no layer said who it is.
    """
    user = connection.scope.get("user")
    if isinstance(user, AuthenticatedUser) and isinstance(user.access_token, PrincipalToken):
        return user.access_token.principal
    principal = connection.scope.get("state", {}).get("principal")
    if not isinstance(principal, Principal):
        raise LookupError("a request without a principal")
    return principal


def client_of(connection: HTTPConnection, principal: Principal) -> ClientInfo:
    """Give what the transport knows of whoever sends a request.

    A connection is what the session's id names, within its principal; it is told as a digest, since the name
    itself is its client's alone. A request without one is a connection
    of its own: a holder is then known by its conversation only, and never taken for another that has the
    same token.
    """
    session = session_of(connection.headers.get(SESSION_HEADER))
    if session is None:
        return ClientInfo(
            connection=f"http-call-{secrets.token_hex(8)}", is_lasting=False, principal=principal.name
        )
    return ClientInfo(
        connection=f"http-{hashlib.sha256(session.name.encode()).hexdigest()[:32]}",
        principal=principal.name,
        client=session.client,
        client_version=session.client_version,
    )
