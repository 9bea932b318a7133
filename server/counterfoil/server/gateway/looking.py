"""Looks an operation in doubt up itself, with the read-only tool that a rule names."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from mcp import MCPError
from msgspec import Struct

from counterfoil.server.gateway.servers import Unreachable
from counterfoil.server.gateway.upstream import BadAnswer
from counterfoil.server.probes.probe import Inconclusive, Seen
from counterfoil.server.probes.template import fill_json
from counterfoil.server.rules.call import result_document
from counterfoil.server.rules.tool_rule import LookupRule
from counterfoil.store.domain.commands import Json, Lookup
from counterfoil.store.probing import ProbeSubject

__all__ = ["Look", "declared_lookup", "look"]

_MOST_SECONDS = 30
"""Clients give a call up after a minute; the look has to be recorded, and the call made, by then."""

Ask = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Calls a tool of the same server by its own name."""


class Look(Struct, frozen=True, kw_only=True):
    """What looking showed. `seen` None: it cannot be told, and `why` says what stood in the way."""

    seen: Seen | None
    why: str = ""


def declared_lookup(rule: LookupRule, subject: ProbeSubject, *, tool: str) -> Lookup:
    """Give the lookup as begin_operation takes it; `tool` is the name that an agent knows it by."""
    try:
        args: Json = fill_json(rule.args, subject)
    except Inconclusive:
        args = None
    return Lookup(
        tool=tool,
        args=args,
        instructions=rule.instructions,
        conclusive=rule.conclusive or None,
        settle_seconds=rule.settle_seconds,
    )


async def look(rule: LookupRule, subject: ProbeSubject, ask: Ask) -> Look:
    """Look once; nothing that goes wrong is taken for "not there"."""
    try:
        with anyio.fail_after(_MOST_SECONDS):
            result = await ask(rule.tool, fill_json(rule.args, subject))
    except TimeoutError:
        return Look(seen=None, why=f"the lookup was not answered within {_MOST_SECONDS} s")
    except (MCPError, Unreachable, BadAnswer) as error:
        return Look(seen=None, why=f"the lookup failed ({type(error).__name__})")
    except Inconclusive as cannot_tell:
        return Look(seen=None, why=cannot_tell.why)
    if result.get("isError") is True or result.get("resultType") not in (None, "complete"):
        return Look(seen=None, why="the lookup answered with an error")
    try:
        return Look(seen=rule.reading.seen(result_document(result), subject, {"lookup_tool": rule.tool}))
    except Inconclusive as cannot_tell:
        return Look(seen=None, why=cannot_tell.why)
