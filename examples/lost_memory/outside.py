"""The outside system: a mail server that sends the same mail twice if it is told to, and can be searched."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from shared.book import Book


class MailServer:
    def __init__(self, folder: Path) -> None:
        self._book = Book(folder / "sent")

    def send(self, *, to: str, subject: str, body: str, reference: str) -> str:
        """Send a mail under a reference of the sender's and give its message id."""
        self._book.add(to=to, subject=subject, body=body, reference=reference)
        return f"<{reference}@mail>"

    def find(self, reference: str) -> str | None:
        """Give the message id of a mail that was sent under this reference."""
        found = self._book.entries(reference=reference)
        return f"<{reference}@mail>" if found else None

    def sent(self) -> list[dict]:
        return self._book.entries()
