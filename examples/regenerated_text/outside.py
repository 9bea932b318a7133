"""A post office: it keeps one letter for each idempotency key, on disk, whoever asks and however often."""

import os
from pathlib import Path


class PostOffice:
    """A folder of letters, named by idempotency key, and a book of every request."""

    def __init__(self, folder: Path) -> None:
        self.letters_folder, self.book = folder / "letters", folder / "requests"
        self.letters_folder.mkdir(parents=True, exist_ok=True)

    def post(self, *, to: str, text: str, key: str) -> str:
        """Take a letter, once for each key, and give its number.

        Raises:
            ValueError: another letter was posted under this key.
        """
        letter = f"To: {to}\n\n{text}".encode()
        self._append(self.book, f"{key} {letter.hex()}\n".encode())
        path = self.letters_folder / key
        try:
            # Creating the file is what makes a repeat harmless: only one request can.
            self._append(path, letter, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            if path.read_bytes() != letter:
                raise ValueError(f"another letter was posted under the key {key}") from None
        return f"letter-{path.stat().st_ino}"

    def letters(self) -> list[bytes]:
        """Give every letter that was taken."""
        return [path.read_bytes() for path in sorted(self.letters_folder.iterdir())]

    def requests(self) -> list[tuple[str, bytes]]:
        """Give every request, with its key."""
        lines = (line.split() for line in self.book.read_text().splitlines())
        return [(key, bytes.fromhex(letter)) for key, letter in lines]

    def _append(self, path: Path, data: bytes, flags: int = os.O_CREAT) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | flags, 0o600)
        try:
            os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
