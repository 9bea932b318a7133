"""Says what one request reaches: which journal, as whom, and how far.

Over stdio that is the same for every request of a process. Over HTTP it follows from the token that a request
brings, and from nothing that it says.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.context import ServerRequestContext
from msgspec import Struct

from counterfoil.server.callers import ClientInfo
from counterfoil.server.scopes import READ, SCOPES, WRITE
from counterfoil.store.errors import Forbidden
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = [
    "Access",
    "AccessOf",
    "Context",
    "JournalProvider",
    "scope_of_method",
    "scope_of_tool",
]

_READING_METHODS = ("resources/read", "completion/complete")

Context = ServerRequestContext[Any, Any]

JournalProvider = Callable[[], Awaitable[Journal]]
"""Gives the open journal, or raises the fault that says why there is none now."""


class Access(Struct, frozen=True, kw_only=True):
    """What whoever sent a request reaches. `client` is what is known of them before they say a word."""

    journals: JournalProvider
    client: ClientInfo
    scopes: frozenset[str] = frozenset(SCOPES)

    def require(self, scope: str) -> None:
        """Go on only where the request may do what needs `scope`.

        Raises:
            Forbidden: it may not; nothing was recorded.
        """
        if scope not in self.scopes:
            raise Forbidden(
                f"this token does not carry the scope {scope}; nothing was recorded",
                fix=f"do not perform the effect; ask whoever gave you the token for one with {scope}",
            )


AccessOf = Callable[[Context], Access]
"""Tells what a request reaches."""


def scope_of_tool(tool: ToolSpecification) -> str:
    """Give the scope that a call of this tool needs."""
    return READ if tool.reads_only else WRITE


def scope_of_method(method: str) -> str | None:
    """Give the scope that a request other than a tool's call needs; None where any caller may send it."""
    return READ if method in _READING_METHODS else None
