"""Writes to a person's terminal or to a program: whole, inert, and quiet when nobody reads any more."""

import json
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

from counterfoil.store.domain.untrusted import escape_untrusted

__all__ = ["AnswerLost", "as_json_text", "is_read", "prepare_streams", "tell", "write", "write_json"]

_LONGEST_LINE = 4_000

_gone: list[TextIO] = []
"""The streams that nobody reads any more."""


class AnswerLost(Exception):
    """What was to be written to stdout could not be, though somebody may be waiting for it."""


def prepare_streams() -> None:
    """Let the standard streams write any character, escaped where their encoding has none for it.

    One that was closed before the command began is one that nobody reads.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as we run
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write `text` and a line break to stdout; a reader that has gone away is no error.

    Raises:
        AnswerLost: it cannot be written, say because the disk is full.
    """
    try:
        sys.stdout.write(text.rstrip("\n") + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        raise AnswerLost(error.strerror or type(error).__name__) from error


def is_read() -> bool:
    """Tell whether somebody may still be reading stdout."""
    return sys.stdout not in _gone


def write_json(value: Any, *, compact: bool = False) -> None:
    """Write one JSON document to stdout."""
    write(as_json_text(value, compact=compact))


def as_json_text(value: Any, *, compact: bool = False) -> str:
    r"""Give `value` as JSON in which every character that could act on a terminal is a \u escape."""
    layout: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 2}
    text = json.dumps(value, ensure_ascii=False, **layout)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def tell(text: str) -> None:
    """Write a line to stderr: what is not the answer itself."""
    lines = text.expandtabs(2).splitlines()
    with suppress(OSError):
        sys.stderr.write("".join(f"{escape_untrusted(line, limit=_LONGEST_LINE)}\n" for line in lines))
        sys.stderr.flush()


def _silence(stream: TextIO) -> None:
    """Send what is still buffered to nowhere, so that the interpreter's last flush finds no closed pipe."""
    _gone.append(stream)
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
