"""What came of a call, as far as the client tells: succeeded, refused, under way, or nobody knows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil.server.hooks.call import Call
from counterfoil.server.hooks.effects import Effect
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.rules.results import (
    Found,
    document_of,
    find_reference,
    is_refusal,
    tool_succeeded,
)

__all__ = ["Outcome", "outcome_of"]

_EXIT = re.compile(r"\A\s*(?:Error: )?(?:Command failed with )?[Ee]xit (?:code|status):? (\d{1,3})\b")
_NEVER_STARTED = (126, 127)
"""What a shell answers when it could not start the program at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a result says of a call.

    `came`: "succeeded", "refused" (before any effect, by `evidence`), "under_way" or "unknown". `found` are
    the references by effect, where one was found. `text` is what the call printed, `exit_status` its end.
    """

    came: str
    found: tuple[Found | None, ...]
    text: str = ""
    exit_status: int | None = None
    evidence: Mapping[str, Any] | None = None
    task: str | None = None


def outcome_of(event: HookEvent, call: Call) -> Outcome:
    """Tell what came of a call."""
    if event.name == "PostToolUseFailure":
        return _of_failure(event, call)
    return _of_shell(event, call) if event.is_shell else _of_tool(event, call)


def _of_tool(event: HookEvent, call: Call) -> Outcome:
    text, document = document_of(event.response)
    found = tuple(find_reference(effect.rule, text=text, document=document) for effect in call.effects)
    if not tool_succeeded(event.response, document):
        evidence = is_refusal(call.effects[0].rule, text)
        came = "unknown" if evidence is None else "refused"
        return Outcome(came=came, found=found, text=text, evidence=evidence)
    return Outcome(came="succeeded", found=found, text=text)


def _of_shell(event: HookEvent, call: Call) -> Outcome:
    """A shell's end tells of the effect only where nothing stands between the two; its output may, always."""
    response = event.response
    told = response if isinstance(response, Mapping) else {}
    text = (
        response
        if isinstance(response, str)
        else "\n".join(str(told[name]) for name in ("stdout", "stderr", "output") if told.get(name))
    )
    task = next((told[name] for name in ("backgroundTaskId", "background_task_id") if told.get(name)), None)
    status = _status(told)
    if status is None and event.has_response and isinstance(response, Mapping) and "stdout" in told:
        # The client that answers so tells of a failure by another event.
        status = 0
    found = tuple(_found(effect, text) for effect in call.effects)
    if told.get("interrupted") is True:
        return Outcome(came="unknown", found=found, text=text)
    if task is not None:
        return Outcome(came="under_way", found=found, text=text, task=str(task)[:200])
    has_proof = all(
        effect_found is not None or (status == 0 and effect.decides)
        for effect, effect_found in zip(call.effects, found, strict=True)
    )
    if has_proof:
        return Outcome(came="succeeded", found=found, text=text, exit_status=status)
    if status not in (None, 0):
        return _refused_or_unknown(call, text, status, found)
    if status is None:
        return _refused_or_unknown(call, text, None, found)
    return Outcome(came="unknown", found=found, text=text, exit_status=status)


def _of_failure(event: HookEvent, call: Call) -> Outcome:
    text = event.error or ""
    nothing: tuple[Found | None, ...] = (None,) * len(call.effects)
    if event.is_interrupt:
        return Outcome(came="unknown", found=nothing, text=text)
    match = _EXIT.match(text)
    status = int(match[1]) if match and event.is_shell else None
    found = tuple(_found(effect, text) for effect in call.effects) if event.is_shell else nothing
    return _refused_or_unknown(call, text, status, found)


def _refused_or_unknown(
    call: Call, text: str, status: int | None, found: tuple[Found | None, ...]
) -> Outcome:
    """An effect that has shown its reference is none that was refused, whatever came after it."""
    if all(found):
        return Outcome(came="succeeded", found=found, text=text, exit_status=status)
    if len(call.effects) == 1:
        evidence = is_refusal(call.effects[0].rule, text)
        if evidence is None and status in _NEVER_STARTED and call.effects[0].decides:
            evidence = {"refused": "the program could not be started"}
        if evidence is not None and found[0] is None:
            return Outcome(came="refused", found=found, text=text, exit_status=status, evidence=evidence)
    return Outcome(came="unknown", found=found, text=text, exit_status=status)


def _found(effect: Effect, text: str) -> Found | None:
    """Find what shows an effect; a short reference that is printed is filled up with the known one."""
    found = find_reference(effect.rule, text=text, document=document_of(text)[1])
    known = effect.reference
    if found is None or known is None:
        return found
    if found.external_id is None or known.startswith(found.external_id):
        return Found(external_id=known, url=found.url)
    return found


def _status(told: Mapping[str, Any]) -> int | None:
    for name in ("exit_code", "exitCode", "exit_status", "returncode", "code"):
        value = told.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
