"""Bearer tokens: whom one stands for, what it may do, and whether it counts now."""

from typing import Any

from msgspec import Struct

from counterfoil.store.domain.instants import Instant

__all__ = ["Token", "token_data", "why_over"]


class Token(Struct, frozen=True, kw_only=True):
    """One token, by its digest; whoever brings what has this digest is `name`.

    A plain SHA-256 is enough, since a token is 256 random bits: there is no dictionary to go through, which
    is what slow hashes are against, and every request has to be checked.
    """

    id: str
    name: str
    sha256: str
    scopes: tuple[str, ...]
    created_at: Instant
    created_by: str
    expires_at: Instant | None = None
    revoked_at: Instant | None = None


def why_over(token: Token, *, now: Instant, history_lost_at: Instant | None) -> str | None:
    """Tell why a token counts no longer; None while it does.

    In a journal put back from a backup none made before counts: that one was revoked meanwhile may be what
    the journal lost.
    """
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is not None and now >= token.expires_at:
        return "expired"
    if history_lost_at is not None and token.created_at <= history_lost_at:
        return "restored"
    return None


def token_data(token: Token) -> dict[str, Any]:
    """Give it as plain JSON for the log, as it is when it is issued."""
    data: dict[str, Any] = {
        "id": token.id,
        "name": token.name,
        "sha256": token.sha256,
        "scopes": list(token.scopes),
        "created_at": token.created_at,
        "created_by": token.created_by,
    }
    return data if token.expires_at is None else {**data, "expires_at": token.expires_at}
