"""Calls a tool as a client does, without the wire: raw arguments in, the answer or the fault out."""

from typing import Any

from counterfoil.server.callers import ClientInfo, caller_of
from counterfoil.store.limits import Limits
from counterfoil.tools.arguments import take_arguments
from counterfoil.tools.catalogue import ALL_TOOLS
from counterfoil.tools.protocol import Journal
from counterfoil.tools.text import bounded

__all__ = ["call_tool"]

_TOOLS = {tool.name: tool for tool in ALL_TOOLS}
_LIMITS = Limits()


async def call_tool(
    journal: Journal, name: str, *, connection: str = "connection-1", **arguments: Any
) -> dict[str, Any]:
    """Carry out one call on `journal`.

    Raises:
        Fault: what the caller would see as a tool error.
    """
    tool = _TOOLS[name]
    taken = take_arguments(tool.input_model, arguments, limits=_LIMITS)
    caller = caller_of(tool=name, meta={}, client=ClientInfo(connection=connection), arguments=taken)
    return bounded(await tool.run(journal, taken, caller), way=tool.way_to_rest)
