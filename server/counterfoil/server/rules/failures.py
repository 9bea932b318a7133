"""Tells whether a result that is not marked as an error calls itself a failure: many servers say it in words.

Hooks and the gateway go by this one rule. It proves nothing of the effect, neither that it happened nor that
it did not: such a call is in doubt.
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["failure_marks", "tells_of_failure"]

_ERROR_NAMES = ("isError", "is_error")
_SUCCESS_NAMES = ("ok", "success", "succeeded")
_STATUS_NAMES = ("status", "statusCode", "status_code")
_FAILURE = re.compile(r"\s*(?:error|failed|failure|exception|traceback|timed? ?out)\b", re.IGNORECASE)
"""How a text begins that tells of a failure."""


def tells_of_failure(result: Any, document: Any, text: str = "") -> bool:
    """Tell whether a result calls itself a failure; `document` is the JSON in it, `text` what it says."""
    for told in (result, document):
        if failure_marks(told):
            return True
        if isinstance(told, Mapping) and any(_is_failure(told.get(name)) for name in _STATUS_NAMES):
            return True
    return _FAILURE.match(text) is not None


def failure_marks(document: Any) -> frozenset[str]:
    """Give the top members by which a document says that it is no success, its status apart.

    A status may be that of a record which was found, and not of the search.
    """
    if not isinstance(document, Mapping):
        return frozenset()
    return frozenset(
        {name for name in _ERROR_NAMES if document.get(name) is True}
        | {name for name in _SUCCESS_NAMES if document.get(name) is False}
        | {name for name in ("error", "errors") if document.get(name)}
    )


def _is_failure(status: Any) -> bool:
    if isinstance(status, str):
        return _FAILURE.match(status) is not None
    return isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600
