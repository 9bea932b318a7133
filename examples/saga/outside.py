"""The outside system: an office that books and cancels as often as it is told to, and has no cars left."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from shared.book import Book


class SoldOut(Exception):
    """Nothing was booked, and nothing will be."""


class Office:
    def __init__(self, folder: Path) -> None:
        self._book = Book(folder / "office")

    def book(self, what: str, *, reference: str) -> str:
        """Book something under a reference of the customer's and give the number of the entry.

        Raises:
            SoldOut: nothing was done.
        """
        if what == "car":
            raise SoldOut
        return self._enter("booked", what, reference)

    def cancel(self, what: str, *, reference: str) -> str:
        """Cancel a booking, which costs a fee each time, and give the number of the entry."""
        return self._enter("cancelled", what, reference)

    def find(self, reference: str) -> str | None:
        """Give the number of the entry that was made under this reference."""
        return next((entry["number"] for entry in self._book.entries(reference=reference)), None)

    def done(self, what: str) -> list[str]:
        """Give what was done with a booking, in its order."""
        return [entry["done"] for entry in self._book.entries(what=what)]

    def _enter(self, done: str, what: str, reference: str) -> str:
        number = f"{done}-{len(self._book.entries()) + 1}"
        self._book.add(number=number, done=done, what=what, reference=reference)
        return number
