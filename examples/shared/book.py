"""The book of an outside system: a line for each thing that it did, on disk before it answers."""

import json
import os
from pathlib import Path


class Book:
    """What really happened, whatever anybody wrote down about it elsewhere."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, **entry: object) -> None:
        """Write down one thing that was done; a repeat is a second line."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, json.dumps(entry).encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def entries(self, **like: object) -> list[dict]:
        """Give every entry that has these values."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        entries = [json.loads(line) for line in lines]
        return [entry for entry in entries if all(entry[name] == value for name, value in like.items())]
