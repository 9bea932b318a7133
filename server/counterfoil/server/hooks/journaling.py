"""The journal as a hook uses it: who its caller is, which run the call belongs to, and its marks.

The intent of a call and what came of it are told by two processes. They find each other by the client's id of
the call, and the second is the holder of what the first began because both are of the same conversation.
"""

import hashlib
import os
from typing import TYPE_CHECKING

from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.marks import Marks
from counterfoil.store.domain.commands import Caller

if TYPE_CHECKING:
    from counterfoil.server.settings import Settings
    from counterfoil.store.journal import Journal

__all__ = ["CONNECTION", "HookJournal"]

CONNECTION = "hook-"
"""How the connection of a hook begins: what one began is never taken for an agent's own attempt."""

SHORTEST_CALL_ID = 16


class HookJournal:
    """The journal as one event of one client uses it.

    `conversation`, where it is given, goes before what the environment and the event say.
    """

    def __init__(
        self, journal: "Journal", *, event: HookEvent, settings: "Settings", conversation: str | None = None
    ) -> None:
        self.journal = journal
        self.event = event
        self._settings = settings
        named = conversation or os.environ.get("COUNTERFOIL_CONVERSATION")
        self._named = named or event.session or settings.conversation
        place = self._named or hashlib.sha256((event.folder or "").encode()).hexdigest()[:16]
        call_id = event.call_id if event.call_id and len(event.call_id) >= SHORTEST_CALL_ID else None
        self.caller = Caller(
            connection=f"{CONNECTION}{place}",
            conversation=self._named,
            client="counterfoil hook",
            tool=f"hook {event.name}",
            model=event.model,
            tool_call=event.call_id,
            traceparent=settings.traceparent,
            call_id=call_id,
        )
        # Told apart by what is drawn, where a client gives its calls no ids that last.
        apart = call_id or os.urandom(8).hex()
        self.marks = Marks(journal, event=event, caller=self.caller, apart=apart)

    @property
    def own_run(self) -> str:
        """The run of a conversation that nobody has given one."""
        return f"conversation/{self._named or self.caller.connection.removeprefix(CONNECTION)}"

    @property
    def is_named(self) -> bool:
        """Tell whether anybody said which conversation, or which run, the call belongs to."""
        return self._named is not None or self.fixed_run() is not None

    def fixed_run(self) -> str | None:
        """Give the run that the environment or the configuration says, whatever an agent says."""
        if self._settings.run is not None:
            return self._settings.run
        folder = os.path.realpath(self.event.folder or "/")
        inside = [
            project
            for project in self._settings.projects
            if folder == project.path or folder.startswith(project.path.rstrip("/") + "/")
        ]
        return max(inside, key=lambda project: len(project.path)).run if inside else None

    async def run(self) -> str:
        """Give the run that the call belongs to."""
        fixed = self.fixed_run()
        return fixed or (await self.journal.attendance(self.caller)).run or self.own_run
