"""Asks for a page of a list until it fits one answer, so that its cursor skips nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

from counterfoil.tools.text import LONGEST_ANSWER, length, sendable

__all__ = ["fitting_page"]

_LISTS = ("steps", "runs", "operations")


async def fitting_page(
    ask: Callable[[int | None], Awaitable[dict[str, Any]]],
    *,
    limit: int | None,
    room: int = LONGEST_ANSWER,
) -> dict[str, Any]:
    """Give a page of at most `room` characters of compact JSON, or one with a single entry.

    `ask` gives the page for a limit. One that is too long is asked for again with a smaller limit: cutting
    the list itself would leave a cursor that skips what was cut.
    """
    shown = None
    while True:
        answer = sendable(await ask(limit))
        listed = next((len(answer[name]) for name in _LISTS if answer.get(name)), 0)
        size = length(answer)
        if size <= room or listed <= 1 or listed == shown:
            return answer
        shown = listed
        limit = max(1, min(listed - 1, listed * room * 9 // (size * 10)))
