"""What recording works with: a call as it came, the permission to pass it on, the journal's part in it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from counterfoil.server.gateway.outcomes import Expected
from counterfoil.server.gateway.wish import NO_WISH, Wish
from counterfoil.server.rules.tool_rule import ToolRule
from counterfoil.store.attending import Attendance, Mark, Recorded
from counterfoil.store.domain.commands import BeginOperation, Caller, Json, OperationRef
from counterfoil.tools.protocol import Journal

__all__ = ["CONNECTION_PREFIX", "GatewayJournal", "Grant", "Send", "ToolCall"]

CONNECTION_PREFIX = "gateway-"
"""How the connection of a gateway begins: what one began itself is never taken for an agent's own attempt."""


class Send(Protocol):
    """Passes a call on with these arguments, and gives its result as it came.

    Where its server asks for input, `holds` is asked before the input is sent (see `holding`).
    """

    async def __call__(
        self, arguments: dict[str, Any], *, holds: Callable[[], Awaitable[bool]] | None = None
    ) -> dict[str, Any]:
        """Pass it on."""
        ...


class GatewayJournal(Journal, Protocol):
    """What recording calls needs of the journal beside the tools' commands."""

    def hidden(self, value: Json) -> Json:
        """Give a value with its secrets replaced."""
        ...

    async def attendance(
        self, caller: Caller, *, mark: Mark | None = None, run: str | None = None
    ) -> Attendance:
        """Tell where the caller's conversation stands; `run` is its run where that is known."""
        ...

    async def begin_unattended(
        self,
        begin: Callable[[str | None], BeginOperation],
        caller: Caller,
        *,
        mark: Mark,
        run: str | None,
        apart_from: str,
    ) -> dict[str, Any] | Attendance:
        """Begin an operation, or give the caller's attendance where the call may be its own attempt's."""
        ...

    async def recorded(self, ref: OperationRef) -> Recorded:
        """Give what is on record of an operation, whole."""
        ...


class ToolCall(Struct, frozen=True, kw_only=True):
    """One call as it came: `tool` is the server's own name, `shown` the one that the client knows.

    `arguments` are without the gateway's own. `is_continued`: it brings the input that the server asked for.
    `misfit` says why the server has to refuse it, where that can be seen.
    """

    server: str
    tool: str
    shown: str
    rule: ToolRule
    arguments: Mapping[str, Any]
    wish: Wish = NO_WISH
    is_idempotent_by_hint: bool = False
    is_continued: bool = False
    shown_lookup: str | None = None
    is_listed: bool = True
    misfit: str | None = None

    @property
    def expected(self) -> Expected:
        """What its server is expected to make of it."""
        return Expected(rule=self.rule, tool=self.tool, is_listed=self.is_listed, misfit=self.misfit)

    @property
    def repeat(self) -> str | None:
        """What its rule says that a second performance would do, or the server where it is trusted."""
        if self.rule.repeat is None and self.rule.trust_idempotent_hint and self.is_idempotent_by_hint:
            return "safe"
        return self.rule.repeat


class Grant(Struct, frozen=True, kw_only=True):
    """The permission that a call is passed on under. `told` is what `_meta` will say of it."""

    place: str
    operation: str
    attempt: int
    arguments: dict[str, Any]
    lease_seconds: float
    told: Mapping[str, Any]
