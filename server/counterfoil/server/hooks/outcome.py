"""What came of a call, as far as the client tells: succeeded, refused, under way, or nobody knows."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from counterfoil.server.hooks.call import Call, script_of
from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.evidence import (
    exit_proves,
    is_unparsed,
    names_itself,
    output_proves,
    refusal_of,
    speaks_alone,
)
from counterfoil.server.hooks.rules.results import (
    Found,
    document_of,
    find_reference,
    is_refusal,
)
from counterfoil.server.rules.failures import tells_of_failure
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["Outcome", "outcome_of"]

_EXIT = lazy_pattern(r"\A\s*(?:Error: )?(?:Command failed with )?[Ee]xit (?:code|status):? (\d{1,3})\b")


class Outcome(Struct, frozen=True, kw_only=True):
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
    if tells_of_failure(event.response, document, text):
        evidence = is_refusal(call.effects[0].rule, text)
        came = "unknown" if evidence is None else "refused"
        return Outcome(came=came, found=found, text=text, evidence=evidence)
    return Outcome(came="succeeded", found=found, text=text)


def _of_shell(event: HookEvent, call: Call) -> Outcome:
    """A shell's end tells of an effect only where nothing stands between the two, its output where none else
    speaks.
    """
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
    found = _shown(event, call, text)
    if told.get("interrupted") is True:
        return Outcome(came="unknown", found=found, text=text)
    if task is not None:
        return Outcome(came="under_way", found=found, text=text, task=str(task)[:200])
    if status == 0:
        printed = told.get("stdout") if isinstance(told.get("stdout"), str) else text
        script = script_of(event)
        proved = (
            exit_proves(
                effect, printed=printed if script is not None and speaks_alone(effect, script) else None
            )
            for effect in call.effects
        )
        if all(proved):
            return Outcome(came="succeeded", found=found, text=text, exit_status=status)
    if status in (None, 0) and _is_proved_by_output(event, call, found):
        return Outcome(came="succeeded", found=found, text=text, exit_status=status)
    if status != 0:
        return _refused_or_unknown(event, call, text, status, found)
    return Outcome(came="unknown", found=found, text=text, exit_status=status)


def _of_failure(event: HookEvent, call: Call) -> Outcome:
    text = event.error or ""
    nothing: tuple[Found | None, ...] = (None,) * len(call.effects)
    if event.is_interrupt:
        return Outcome(came="unknown", found=nothing, text=text)
    match = _EXIT.match(text)
    status = int(match[1]) if match and event.is_shell else None
    found = _shown(event, call, text) if event.is_shell else nothing
    return _refused_or_unknown(event, call, text, status, found)


def _refused_or_unknown(
    event: HookEvent, call: Call, text: str, status: int | None, found: tuple[Found | None, ...]
) -> Outcome:
    """A reference is no proof against a failure, and no refusal stands against a reference."""
    evidence: Mapping[str, Any] | None = None
    if not any(found):
        script = script_of(event) if event.is_shell else None
        command = event.command
        if isinstance(command, str) and is_unparsed(command, text=text, status=status):
            evidence = {"refused": "the shell did not take it for a command"}
        elif script is not None:
            evidence = refusal_of(call, script, text=text, status=status)
        elif not event.is_shell:
            evidence = is_refusal(call.effects[0].rule, text)
    came = "unknown" if evidence is None else "refused"
    return Outcome(came=came, found=found, text=text, exit_status=status, evidence=evidence)


def _is_proved_by_output(event: HookEvent, call: Call, found: tuple[Found | None, ...]) -> bool:
    script = script_of(event)
    if script is None or not all(found):
        return False
    command = event.command if isinstance(event.command, str) else " ".join(event.command or ())
    return all(output_proves(effect, call, script, command=command) for effect in call.effects)


def _shown(event: HookEvent, call: Call, text: str) -> tuple[Found | None, ...]:
    """Give the references that a command printed, each only where nobody else can have printed it."""
    script = script_of(event)
    return tuple(
        _found(effect, text) if script is not None and names_itself(effect, call, script) else None
        for effect in call.effects
    )


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
