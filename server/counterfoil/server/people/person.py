"""Tells a person from a program: somebody at a terminal who types what is asked, or the operator's secret.

Over stdio this guards against mistakes. It is no boundary against whoever has the same user's shell: a
terminal can be forged, and the journal's file can be written. Only a secret that another user keeps is one.
"""

import hashlib
import hmac
import os
import sys
import termios
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from counterfoil.server.settings import Settings, SettingsError
from counterfoil.store.errors import Forbidden

__all__ = ["SECRET_FILE_VARIABLE", "answers_at_terminal", "brings_secret", "is_at_terminal"]

SECRET_FILE_VARIABLE = "COUNTERFOIL_OPERATOR_SECRET_FILE"

_TERMINAL = "/dev/tty"
_LONGEST_SECRET_BYTES = 4_096


def brings_secret(settings: Settings, *, secret_file: str | None) -> bool:
    """Tell whether the operator's secret is brought, in the file named or in the one of the environment.

    White space around the secret does not count.

    Raises:
        SettingsError: a file is named and cannot be read, or the configuration says nothing to compare with.
        Forbidden: it is another secret.
    """
    name = secret_file or os.environ.get(SECRET_FILE_VARIABLE)
    if not name:
        return False
    if settings.operator_secret_sha256 is None:
        raise SettingsError(
            "operator.secret_sha256",
            "a secret is given, and the configuration has none to compare it with; "
            "`counterfoil doctor` prints how to make one",
        )
    try:
        with Path(name).expanduser().open("rb") as file:
            secret = file.read(_LONGEST_SECRET_BYTES).strip()
    except OSError as error:
        raise SettingsError("operator-secret-file", f"it cannot be read: {error.strerror}") from error
    if not hmac.compare_digest(hashlib.sha256(secret).hexdigest(), settings.operator_secret_sha256):
        raise Forbidden(
            "the secret given is not the operator's; nothing was recorded",
            fix="give the file with the operator's secret, or answer at a terminal",
        )
    return True


def is_at_terminal() -> bool:
    """Tell whether somebody may be sitting there: all three streams are a terminal that can be opened."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def answers_at_terminal(question: str, *, accepted: Iterable[str]) -> bool:
    """Ask at the terminal itself and tell whether one of `accepted` was typed.

    What was typed before the question stood there does not count.
    """
    with (
        open(_TERMINAL, encoding="utf-8", errors="replace") as keyboard,
        open(_TERMINAL, "w", encoding="utf-8", errors="backslashreplace") as screen,
    ):
        with suppress(termios.error):
            termios.tcflush(keyboard.fileno(), termios.TCIFLUSH)
        screen.write(question)
        screen.flush()
        typed = keyboard.readline()
    return _normal(typed) in {_normal(text) for text in accepted}


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
