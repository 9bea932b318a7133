"""A clock that every process of a test reads, and that runs ahead when one of them says so."""

import os
import time
from pathlib import Path

from counterfoil.store.domain.instants import Instant, Reading, micros

__all__ = ["SharedClock"]

_DIGITS = 20


class SharedClock:
    """The monotonic clock of the machine, as a wall clock, plus what the file at `path` says.

    Wall and monotonic clock agree, so for the journal all of that time has simply passed.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_text(f"{0:0{_DIGITS}}{time.time_ns() - time.monotonic_ns():+0{_DIGITS}}")
        self._path = path
        self._file = os.open(path, os.O_RDWR)
        self._epoch = int(path.read_text()[_DIGITS:])

    def close(self) -> None:
        """Let go of the file; whoever reads the clock after that has one of its own."""
        os.close(self._file)

    def __call__(self) -> Reading:
        monotonic = time.monotonic_ns() // 1_000 + self._ahead()
        return Reading(at=self._epoch // 1_000 + monotonic, monotonic=monotonic, boot="this-boot")

    @property
    def now(self) -> Instant:
        """What the wall clock says."""
        return self().at

    def advance(self, duration_seconds: float) -> None:
        """Let so much time pass for everybody."""
        os.pwrite(self._file, f"{self._ahead() + micros(duration_seconds):0{_DIGITS}}".encode(), 0)

    def advance_to(self, moment: Instant) -> None:
        """Let time pass until it is `moment`."""
        late = moment - self.now
        if late > 0:
            self.advance(late / 1_000_000 + 0.001)

    def _ahead(self) -> int:
        return int(os.pread(self._file, _DIGITS, 0))
