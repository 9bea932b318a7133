"""Logs to stderr, at the level of COUNTERFOIL_LOG, and never what a caller sent.

An exception is written as its type and the lines of code it passed through, without its message: messages
of libraries quote values, and a value may be a secret. So is a line of a library without the texts in it.
"""

import copy
import logging
import sys
import traceback
from collections.abc import Mapping
from types import TracebackType

__all__ = ["LEVELS", "configure_logs", "logger"]

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

logger = logging.getLogger("counterfoil")

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class _WithoutValues(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        if record.name.partition(".")[0] != logger.name and record.args:
            record = copy.copy(record)
            if isinstance(record.args, Mapping):
                record.args = {name: _told(value) for name, value in record.args.items()}
            else:
                record.args = tuple(map(_told, record.args or ()))
        return super().format(record)

    def formatException(self, ei: _ExceptionInfo) -> str:
        error, lines = ei[1], []
        while error is not None:
            lines.append(type(error).__qualname__)
            lines.extend(
                f"  {frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)
            )
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\n".join(lines)


def _told(value: object) -> object:
    """Give what a library's line may say of `value`: a number, or that something stood there."""
    return value if isinstance(value, int | float) else "…"


def configure_logs(level: str) -> None:
    """Send this program's log lines to stderr from `level` on, and the libraries' from warning on.

    Libraries stay at warning: below it some of them log whole messages.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_WithoutValues("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logger.setLevel(LEVELS[level])
    # A stderr that nobody reads any more must not become a traceback on it.
    logging.raiseExceptions = False
