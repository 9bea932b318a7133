"""The outside system: it sends each invoice that it is told to send, as often as it is told."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from shared.book import Book


class Mail:
    def __init__(self, folder: Path) -> None:
        self._book = Book(folder / "mail")

    def send(self, to: str) -> str:
        """Send an invoice and give its message id."""
        self._book.add(to=to)
        return f"<{len(self.sent())}@mail>"

    def sent(self) -> list[str]:
        return [entry["to"] for entry in self._book.entries()]
