"""The outside system: a hosting service that keeps its releases in a file, and was closed at first."""

from pathlib import Path


class Closed(Exception):
    """The service refuses every release, and has done nothing."""


class Hosting:
    def __init__(self, folder: Path) -> None:
        self._closed, self._ledger = folder / "closed", folder / "releases"

    def close(self) -> None:
        self._closed.touch()

    def open(self) -> None:
        self._closed.unlink()

    def release(self, version: str) -> str:
        """Put a version on air and give its release number.

        Raises:
            Closed: nothing was done.
        """
        if self._closed.exists():
            raise Closed
        with self._ledger.open("a") as ledger:
            ledger.write(version + "\n")
        return f"release-{len(self.releases())}"

    def releases(self) -> list[str]:
        return self._ledger.read_text().splitlines() if self._ledger.exists() else []
