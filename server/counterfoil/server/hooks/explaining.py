"""Says what a hook would do about a call, and why; nothing is run and nothing recorded."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from counterfoil.server.hooks.call import Call, call_of, identity_of, script_of
from counterfoil.server.hooks.effects import Effect, rule_for
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.journaling import HookJournal
from counterfoil.server.hooks.rules.rule import CommandRule, EffectRules
from counterfoil.server.hooks.rules.tools import OWN_TOOLS
from counterfoil.server.hooks.shell.secret_words import shown_words
from counterfoil.store.domain.model import State

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["explained", "foreseen"]

_STANDING: Mapping[State, tuple[str, str]] = {
    State.PLANNED: ("begin", "it is planned and was not attempted"),
    State.IN_PROGRESS: ("block", "it is under way, or was interrupted"),
    State.IN_DOUBT: ("block", "it may have happened: it has to be looked up first"),
    State.FAILED: ("begin", "no attempt so far had an effect"),
    State.SUCCEEDED: ("block", "it is done"),
    State.TIMED_OUT: ("block", "it was given up"),
    State.CANCELLED: ("block", "it was cancelled"),
    State.COMPENSATED: ("block", "it was undone"),
    State.DISPUTED: ("block", "evidence on it contradicts itself"),
}


def explained(event: HookEvent, rules: EffectRules, *, own: EffectRules) -> dict[str, Any]:
    """Give what each program of a command is, or what a tool is, and the rule that says so."""
    call = call_of(event, rules)
    told: dict[str, Any] = {"is_effect": call is not None}
    if event.is_shell:
        script = script_of(event)
        told["understood"] = script is not None and script.is_whole
        told["programs"] = [
            {
                "program": shown_words(invocation.program, invocation.words),
                "folder": invocation.folder,
                "rule": _rule_told(rule_for(invocation, rules), own),
            }
            for invocation in (() if script is None else script.invocations)
        ]
    elif call is None:
        told["why"] = (
            "it is one of Counterfoil's own"
            if event.tool.rpartition("__")[2] in OWN_TOOLS
            else "neither a rule nor its name says that it acts on the outside"
        )
    if call is not None:
        told["effects"] = [_effect_told(effect) for effect in call.effects]
        told["action"], told["target"] = call.action, call.target
        told["identity_is_known"] = call.is_known
        told["fail_closed"] = rules.fail_closed or call.fails_closed
        told["lookup"] = call.lookup
    return {name: value for name, value in told.items() if value is not None}


def _rule_told(rule: CommandRule | None, own: EffectRules) -> str:
    if rule is None:
        return "left alone"
    words = " ".join((rule.program, *rule.words))
    return f"{'your rule' if rule in own.commands else 'default rule'}: {words}"


def _effect_told(effect: Effect) -> dict[str, Any]:
    told = {
        "action": effect.action,
        "target": effect.target,
        "state": effect.state,
        "end_of_the_command_tells": effect.decides,
        "kind": effect.rule.kind,
    }
    return {name: value for name, value in told.items() if value is not None}


async def foreseen(hooks: HookJournal, call: Call) -> dict[str, Any]:
    """Give what would be done about a call now: begun, or blocked, under which run and key."""
    run = await hooks.run()
    on_file = await hooks.on_file(call, run=run)
    told: dict[str, Any] = {"run": run, "key": _key(call, hooks.journal.hidden)}
    if not on_file:
        return {**told, "would": "begin", "why": "nothing is on record of it"}
    known = max(on_file, key=lambda one: _STANDING[one.state][0] == "block")
    would, why = _STANDING[known.state]
    return {
        **told,
        "would": would,
        "why": why,
        "operation": known.operation,
        "operation_state": known.state.value,
    }


def _key(call: Call, redact: "Callable[[Any], Any]") -> str:
    return identity_of(call, redact=redact)[0]
