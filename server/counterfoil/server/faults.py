"""Turns faults into what a caller reads: a tool error whose text is exactly one JSON object."""

import json
import secrets
from collections.abc import Mapping
from functools import cache
from typing import Any

from counterfoil.store.errors import Fault, JournalUnavailable
from counterfoil.store.redact import Redactor

__all__ = ["fault_text", "internal_fault", "plain_fault", "without_secrets"]

_UNKNOWN_OUTCOME = (
    "It cannot be told whether this was recorded: send the same call again with the same call_id."
)


class _InternalFault(Fault):
    code = "internal"


def internal_fault() -> Fault:
    """Give the fault for an error of this program itself; its cause is in the log, not in the answer."""
    return _InternalFault(
        "the server failed in a way that it did not foresee",
        fix="see the server's stderr, and check_operation for what is on record",
        recorded=None,
    )


def fault_text(fault: Fault, *, duty: str = "", redactor: Redactor | None = None) -> str:
    """Give the JSON object that a caller sees. `redactor` knows the operator's own secrets.

    `duty` says what the caller must (not) do; it stands first in `fix` wherever the journal may not have
    taken the call for reasons that are not the caller's.
    """
    answer = fault.as_dict()
    duties = []
    if fault.recorded is None:
        duties.append(_UNKNOWN_OUTCOME)
    if duty and (fault.recorded is None or isinstance(fault, JournalUnavailable)):
        duties.append(duty)
    answer["fix"] = " ".join([*duties, str(answer["fix"])])
    return _text(answer, redactor or _redactor())


def plain_fault(code: str, message: str, fix: str) -> str:
    """Give the JSON object for something that was refused before it reached the journal."""
    return _text({"code": code, "message": message, "fix": fix, "recorded": False}, _redactor())


def without_secrets(text: str) -> str:
    """Give `text` with every secret of a well-known form or name replaced."""
    return _redactor().redact_text(text)


@cache
def _redactor() -> Redactor:
    """Replace secrets in faults too, which may quote a name or a path of the call.

    Under a key of this process: a fault may be told before, or because of, a journal that is not there.
    """
    return Redactor(secrets.token_bytes(32))


def _text(answer: Mapping[str, Any], redactor: Redactor) -> str:
    told = {
        name: redactor.redact_text(value) if isinstance(value, str) else value
        for name, value in answer.items()
    }
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))
