"""Under which names a client sees the tools and prompts of several servers, and whose a name is.

One server's names stay as they are. Of several each is shown as `SERVER__name`, so that a tool's name does
not change when another server gets one of the same; `prefix = false` leaves a server's names alone, and then
of two equal names the one of the server that stands first counts.
"""

from collections.abc import Sequence

from counterfoil.server.gateway.servers import ServerSpec

__all__ = ["Naming"]

_MARK = "__"


class Naming:
    """The names of one gateway."""

    def __init__(self, specs: Sequence[ServerSpec]) -> None:
        is_one = len(specs) == 1
        self._prefixes = {
            spec.name: f"{spec.name}{_MARK}"
            if spec.is_prefixed or (spec.is_prefixed is None and not is_one)
            else ""
            for spec in specs
        }

    def shown(self, server: str, name: str) -> str:
        """Give the name under which a client sees a server's tool or prompt."""
        return f"{self._prefixes[server]}{name}"

    def candidates(self, shown: str) -> list[tuple[str, str]]:
        """Give the servers whose name this may be, the likeliest first, each with its own name for it."""
        prefixed = [
            (server, shown.removeprefix(prefix))
            for server, prefix in self._prefixes.items()
            if prefix and shown.startswith(prefix)
        ]
        plain = [(server, shown) for server, prefix in self._prefixes.items() if not prefix]
        return sorted(prefixed, key=lambda found: len(found[1])) + plain
