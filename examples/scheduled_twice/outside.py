"""The outside system: a feed that takes whatever is posted, as often as it is posted."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from shared.book import Book


class Feed:
    def __init__(self, folder: Path) -> None:
        self._book = Book(folder / "feed")

    def post(self, *, title: str, text: str) -> str:
        """Publish a post and give its number."""
        self._book.add(title=title, text=text)
        return f"post-{len(self.posts())}"

    def posts(self) -> list[str]:
        return [entry["title"] for entry in self._book.entries()]
