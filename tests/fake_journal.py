"""A journal that answers by rote, keeps what it was asked, and stores nothing."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

AS_OF = "2026-11-29T12:00:00.000000Z"


class FakeJournal:
    """Gives `answer` to every command, or raises it; `asked` keeps each command with its caller."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, Any]] = []

    async def _ask(self, command: Any, caller: Any) -> dict[str, Any]:
        self.asked.append((command, caller))
        answer = self.answer(command) if callable(self.answer) else self.answer
        if isinstance(answer, BaseException):
            raise answer
        if answer is None:
            answer = {"as_of": AS_OF, "next": "continue", "reason": "recorded", "guidance": "Carry on."}
        return dict(answer)

    begin_operation = record_receipt = record_failure = reconcile_operation = resume_plan = _ask
    begin_run = record_progress = close_operation = finish_run = find_operations = _ask
    request_authority = verify_operation = _ask

    def vouch(self, text: str) -> str:
        """Vouch for anything."""
        return f"vouched {text}"

    async def suggest(self, kind: str, beginning: str) -> tuple[list[str], bool]:
        """Give back what was asked, and say that there is no more."""
        await self._ask(kind, None)
        return [f"{kind} {beginning}"], False

    async def check_operation(self, command: Any, caller: Any) -> dict[str, Any]:
        """Wait as long as asked, then answer."""
        await anyio.sleep(command.wait_seconds)
        return await self._ask(command, caller)


def opener_of(journal: FakeJournal) -> Callable[[], Any]:
    """Give what opens `journal`."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[FakeJournal]:
        try:
            yield journal
        finally:
            print("the journal was closed", file=sys.stderr)

    return opened
