"""Records how calls ended, and keeps what the journal did not take, to try again while the process lives.

An effect that happened and whose receipt is not on record is in doubt for everybody else. So nothing else is
recorded before it, and the next call begins with it.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from msgspec import Struct

from counterfoil.server.logs import logger
from counterfoil.store.errors import Fault, JournalUnavailable

__all__ = ["Command", "Unrecorded", "is_stored"]

Command = Callable[[], Awaitable[dict[str, Any]]]

_TRIES = 3
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 30.0
_LAST_TRY_SECONDS = 10.0
_MOST_KEPT = 200
"""Each may hold a whole result; what comes beyond is in doubt, and said to be."""


class _End(Struct, frozen=True):
    """What to record; `otherwise` where the journal does not take the first as it is."""

    command: Command
    otherwise: Command | None

    async def record(self) -> dict[str, Any]:
        """Record it.

        Raises:
            JournalUnavailable: the journal takes nothing now.
            Fault: it takes neither of both.
        """
        try:
            return await self.command()
        except JournalUnavailable:
            raise
        except Fault as fault:
            logger.error("the end of a call was not recorded as it came: %s", fault.code)
            if self.otherwise is None:
                raise
            return await self.otherwise()


def is_stored(after: dict[str, Any]) -> bool:
    """Tell whether what `record` gave is the journal's answer."""
    return after.get("recorded") is not False


def _not_stored(code: str, *, is_tried_again: bool) -> dict[str, Any]:
    return {"state": "in_progress", "reason": code, "recorded": False, "is_tried_again": is_tried_again}


class Unrecorded:
    """The ends of one client's calls, oldest first, that the journal has still to take."""

    def __init__(self) -> None:
        self._kept: deque[_End] = deque()
        self._has_come = anyio.Event()
        self._one_at_a_time = anyio.Lock()

    async def record(self, command: Command, otherwise: Command | None = None) -> dict[str, Any]:
        """Record what has happened, whoever gives up meanwhile; see `is_stored`."""
        end, code = _End(command, otherwise), JournalUnavailable.code
        with anyio.CancelScope(shield=True):
            for left in reversed(range(_TRIES)):
                try:
                    return await end.record()
                except JournalUnavailable as fault:
                    if not fault.retryable or left == 0:
                        break
                    await anyio.sleep(_PAUSE_SECONDS)
                except Fault as fault:
                    logger.error("the end of a call was NOT recorded: %s", fault.code)
                    return _not_stored(fault.code, is_tried_again=False)
        logger.error("the end of a call is NOT recorded yet: %s", code)
        is_kept = len(self._kept) < _MOST_KEPT
        if is_kept:
            self._kept.append(end)
            self._has_come.set()
        return _not_stored(code, is_tried_again=is_kept)

    async def catch_up(self) -> None:
        """Record what is kept.

        Raises:
            JournalUnavailable: the journal takes nothing now; what is left stays kept.
        """
        if not self._kept:
            return
        async with self._one_at_a_time:
            while self._kept:
                try:
                    await self._kept[0].record()
                    logger.warning("the end of a call is recorded late")
                except JournalUnavailable:
                    raise
                except Fault as fault:
                    logger.error("the end of a call was NOT recorded: %s", fault.code)
                self._kept.popleft()

    async def keep_trying(self) -> None:
        """Catch up whenever something is kept, with longer and longer pauses; ends when it is cancelled."""
        while True:
            await self._has_come.wait()
            self._has_come, pause = anyio.Event(), _PAUSE_SECONDS
            while self._kept:
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                try:
                    await self.catch_up()
                except JournalUnavailable:
                    continue
                except Exception:
                    logger.exception("the end of a call was not recorded")

    async def close(self) -> None:
        """Try a last time."""
        if not self._kept:
            return
        with anyio.move_on_after(_LAST_TRY_SECONDS):
            try:
                await self.catch_up()
            except Fault as fault:
                logger.debug("the journal still takes nothing: %s", fault.code)
        if self._kept:
            logger.error("the ends of %d calls were NOT recorded; they are in doubt", len(self._kept))
