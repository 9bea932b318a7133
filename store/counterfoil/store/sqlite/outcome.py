"""What became of a function that was run elsewhere, for whoever waits for it."""

from typing import Any, Generic, TypeVar

from counterfoil.store.errors import JournalUnavailable

__all__ = ["Outcome", "closed"]

Result = TypeVar("Result")


class Outcome(Generic[Result]):
    """What a function that ran in another thread returned or raised, once it did."""

    __slots__ = ("_error", "_result", "is_known", "is_withdrawn")

    def __init__(self) -> None:
        self.is_known = False
        self.is_withdrawn = False
        """Nobody waits any more: what has not begun need not begin."""
        self._error: BaseException | None = None
        self._result: Any = None

    def succeed(self, result: Result) -> None:
        """Note what was returned."""
        self._result, self._error, self.is_known = result, None, True

    def fail(self, error: BaseException) -> None:
        """Note what was raised."""
        self._result, self._error, self.is_known = None, error, True

    def give(self) -> Result:
        """Return or raise what was noted."""
        if self._error is not None:
            raise self._error
        result: Result = self._result
        return result


def closed() -> JournalUnavailable:
    """Give the fault of a call that came after `close`."""
    return JournalUnavailable("the journal was closed; nothing was recorded", fix="start the server again")
