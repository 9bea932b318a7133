"""Tells whether a result that is not marked as an error calls itself a failure: many servers say it in words.

Hooks and the gateway go by this one rule. It proves nothing of the effect, neither that it happened nor that
it did not: such a call is in doubt.
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["tells_of_failure"]

_ERROR_NAMES = ("isError", "is_error")
_SUCCESS_NAMES = ("ok", "success", "succeeded")
_STATUS_NAMES = ("status", "statusCode", "status_code")
_FAILURE = re.compile(r"\s*(?:error|failed|failure|exception|traceback|timed? ?out)\b", re.IGNORECASE)
"""How a text begins that tells of a failure."""


def tells_of_failure(result: Any, document: Any, text: str = "") -> bool:
    """Tell whether a result calls itself a failure; `document` is the JSON in it, `text` what it says."""
    for told in (result, document):
        if not isinstance(told, Mapping):
            continue
        if any(told.get(name) is True for name in _ERROR_NAMES):
            return True
        if any(told.get(name) is False for name in _SUCCESS_NAMES):
            return True
        if told.get("error") or told.get("errors"):
            return True
        if any(_is_failure(told.get(name)) for name in _STATUS_NAMES):
            return True
    return _FAILURE.match(text) is not None


def _is_failure(status: Any) -> bool:
    if isinstance(status, str):
        return _FAILURE.match(status) is not None
    return isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600
