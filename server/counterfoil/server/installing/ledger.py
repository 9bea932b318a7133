"""Remembers what was installed into a client, so that exactly that is taken back.

One JSON file for each client, in the user's data folder. It is written before the client's files are: what
stands in it may not have been put there, which taking back finds out; what was put there stands in it.
"""

import json
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from counterfoil.server.installing.files import write_whole
from counterfoil.server.installing.placing import Addition

__all__ = ["Installed", "InstalledFile", "forget", "keep", "read"]

_VERSION = 1


class InstalledFile(Struct, frozen=True, kw_only=True):
    """What was put into one file.

    `digest` is that of the whole file afterwards, `backup` the name of the file as it was before. `folders`
    are those that were made for it, outermost first; `was_there` tells whether the file was.
    """

    additions: tuple[Addition, ...]
    digest: str
    was_there: bool
    backup: str | None = None
    folders: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Give it as it is kept."""
        return {
            "additions": [one.as_json() for one in self.additions],
            "digest": self.digest,
            "was_there": self.was_there,
            "backup": self.backup,
            "folders": list(self.folders),
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> "InstalledFile":
        """Read it as it is kept."""
        return cls(
            additions=tuple(Addition.from_json(one) for one in kept["additions"]),
            digest=kept["digest"],
            was_there=kept["was_there"],
            backup=kept["backup"],
            folders=tuple(kept["folders"]),
        )


class Installed(Struct, frozen=True, kw_only=True):
    """What was put into each file of a client."""

    files: dict[str, InstalledFile] = field(default_factory=dict)


def _place(folder: str, client: str) -> Path:
    return Path(folder) / "installed" / f"{client}.json"


def read(folder: str, client: str) -> Installed:
    """Read what was installed into a client; nothing where nothing was.

    Raises:
        ValueError: the ledger cannot be read.
    """
    try:
        text = _place(folder, client).read_text(encoding="utf-8")
    except FileNotFoundError:
        return Installed()
    try:
        kept = json.loads(text)
        if kept["version"] != _VERSION:
            raise ValueError(f"it is of version {kept['version']}")
        return Installed(files={name: InstalledFile.from_json(one) for name, one in kept["files"].items()})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("it has another shape") from error


def keep(folder: str, client: str, installed: Installed) -> None:
    """Remember what is installed into a client from now on."""
    files = {name: one.as_json() for name, one in installed.files.items()}
    text = json.dumps({"version": _VERSION, "client": client, "files": files}, indent=2)
    write_whole(_place(folder, client), f"{text}\n")


def forget(folder: str, client: str) -> None:
    """Remember nothing of a client any more."""
    _place(folder, client).unlink(missing_ok=True)
