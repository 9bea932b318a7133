"""The outside system: it takes an order for a call at once, and makes the call much later."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from shared.book import Book


class Telephony:
    def __init__(self, folder: Path) -> None:
        self._orders, self._calls = Book(folder / "orders"), Book(folder / "calls")

    def order(self, number: str) -> str:
        """Accept an order and give its id. Nothing has happened yet."""
        order = f"order-{len(self._orders.entries()) + 1}"
        self._orders.add(order=order, number=number)
        return order

    def make_the_calls(self) -> None:
        """Make every call that was ordered, once each."""
        done = {call["order"] for call in self.calls()}
        for entry in self._orders.entries():
            if entry["order"] not in done:
                self._calls.add(call=f"call-{len(self.calls()) + 1}", **entry)

    def call_of(self, order: str) -> str | None:
        """Give the call that was made for an order, if it was."""
        return next((call["call"] for call in self._calls.entries(order=order)), None)

    def calls(self) -> list[dict]:
        return self._calls.entries()
