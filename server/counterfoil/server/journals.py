"""Opens the journal when it is first needed, keeps it open, and tries again after each failure.

A server whose journal is broken still starts: a server that is not there leaves the agent unguarded.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup, TaskStatus

from counterfoil.server.logs import logger
from counterfoil.store.errors import Fault, JournalUnavailable
from counterfoil.tools.protocol import Journal

__all__ = ["JournalOpener", "Journals"]

JournalOpener = Callable[[], AbstractAsyncContextManager[Journal]]
"""Gives a fresh context that opens the journal on entry and closes it on exit."""


class Journals:
    """The one journal of this process, opened lazily.

    The context of `opener` is entered and left in one task of its own, so that it may hold task groups,
    whichever call happens to need it first.
    """

    def __init__(self, opener: JournalOpener, tasks: TaskGroup) -> None:
        self._opener = opener
        self._tasks = tasks
        self._lock = anyio.Lock()
        self._closing = anyio.Event()
        self._closed = anyio.Event()
        self._journal: Journal | None = None

    @classmethod
    @asynccontextmanager
    async def holding(cls, opener: JournalOpener) -> AsyncIterator["Journals"]:
        """Hold whatever is opened until the end of this context, then close it, cancelled or not."""
        async with anyio.create_task_group() as tasks:
            journals = cls(opener, tasks)
            try:
                yield journals
            finally:
                with anyio.CancelScope(shield=True):
                    await journals._close()

    async def get(self) -> Journal:
        """Give the journal, opening it if it is not open.

        Raises:
            Fault: it cannot be opened now; the next call tries again.
        """
        if self._journal is not None:
            return self._journal
        async with self._lock:
            if self._journal is not None:
                return self._journal
            if self._closing.is_set():
                raise JournalUnavailable("the server is ending", fix="call again once it runs again")
            try:
                # Opening is bounded and serves all; a caller that gives up must not break it off.
                with anyio.CancelScope(shield=True):
                    journal: Journal = await self._tasks.start(self._keep)
            except Fault as fault:
                logger.warning("the journal could not be opened: %s", fault.code)
                raise
            except Exception as error:
                logger.exception("the journal could not be opened")
                raise JournalUnavailable(
                    f"the journal could not be opened ({type(error).__name__})",
                    fix="a person can see the cause with `counterfoil doctor`",
                ) from error
            self._journal = journal
            return journal

    async def open_early(self) -> None:
        """Open the journal before the first call needs it; a failure is logged, and told by that call."""
        with suppress(Fault):
            await self.get()

    async def _keep(self, *, task_status: TaskStatus[Journal] = anyio.TASK_STATUS_IGNORED) -> None:
        is_open = False
        try:
            with anyio.CancelScope(shield=True):
                async with self._opener() as journal:
                    is_open = True
                    task_status.started(journal)
                    await self._closing.wait()
        except Exception:
            if not is_open:
                raise
            logger.exception("the journal could not be closed in order")
        finally:
            self._closed.set()

    async def _close(self) -> None:
        self._closing.set()
        if self._journal is not None:
            self._journal = None
            await self._closed.wait()
