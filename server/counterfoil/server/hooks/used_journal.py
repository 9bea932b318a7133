"""Remembers which journal was used at a place, so that one that is gone is never silently made anew.

The mark is a small file in the user's state folder: it outlives a journal that is deleted with its folder.
It holds the journal's id and nothing that was recorded.
"""

import hashlib
import os
from typing import TYPE_CHECKING

from counterfoil.server.places import state_folder

if TYPE_CHECKING:
    from counterfoil.server.settings import Settings

__all__ = ["UsedJournal"]

_LONGEST_ID = 200


class UsedJournal:
    """The journal that hooks used at the place that the settings name.

    Where the state folder cannot be used, none was: a first journal needs no setup.
    """

    def __init__(self, settings: "Settings") -> None:
        self._file = settings.journal_path
        place = settings.journal if self._file is None else os.path.realpath(self._file)
        name = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self.mark = os.path.join(state_folder(os.environ), "journals", name)

    @property
    def id(self) -> str | None:
        """The id of the journal that was used last; None where none was."""
        try:
            with open(self.mark, encoding="utf-8") as file:
                return file.read(_LONGEST_ID).strip() or None
        except (OSError, UnicodeDecodeError):
            return None

    @property
    def is_gone(self) -> bool:
        """Tell whether a journal was used here whose file is no longer there."""
        if self._file is None or os.path.lexists(self._file):
            return False
        return self.id is not None

    def note(self, journal_id: str) -> bool:
        """Note the journal that is used now; give True where another one was used here before."""
        before = self.id
        if before == journal_id:
            return False
        temporary = f"{self.mark}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self.mark), mode=0o700, exist_ok=True)
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(f"{journal_id}\n")
            os.replace(temporary, self.mark)
        except OSError:
            # A journal that can be used is used, whether or not its loss could be noticed later.
            return before is not None
        return before is not None
