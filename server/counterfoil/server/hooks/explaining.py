"""Says what a hook would do about a call, and why; nothing is run and nothing recorded."""

from collections.abc import Mapping
from typing import Any

from counterfoil.server.faults import without_secrets
from counterfoil.server.hooks.call import Call, call_of, script_of
from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.effects import unread_rule
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.fitting import only_reads, rule_for, why_left_alone
from counterfoil.server.hooks.journaling import HookJournal
from counterfoil.server.hooks.permitting import unresolved
from counterfoil.server.hooks.rules.rule import CommandRule, EffectRules
from counterfoil.server.hooks.rules.tools import OWN_TOOLS
from counterfoil.server.hooks.shell.script import Invocation, Script
from counterfoil.server.hooks.shell.secret_words import shown_words
from counterfoil.store.attending_calls import HeldAttempt
from counterfoil.store.domain.model import State

__all__ = ["explained", "foreseen"]

_MOST_ELSEWHERE = 5

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


def explained(
    event: HookEvent, rules: EffectRules, *, own: EffectRules, is_seen: bool = True
) -> dict[str, Any]:
    """Give what each program of a command is, or what a tool is, and the rule that says so.

    `is_seen` off: a hook's first look does not find the words of a rule, and nothing looks closer.
    """
    call = call_of(event, rules)
    if call is not None and not is_seen:
        return {"is_effect": False, "why": "the words of no rule stand in it as it is written"}
    told: dict[str, Any] = {"is_effect": call is not None}
    if event.is_shell:
        script = script_of(event)
        told["understood"] = script is not None and script.is_whole
        told["programs"] = (
            []
            if script is None
            else [
                {
                    "program": shown_words(invocation.program, invocation.words),
                    "folder": invocation.folder,
                    "rule": _rule_told(invocation, script, rules, own),
                }
                for invocation in script.invocations
            ]
        )
        if call is None:
            told["why"] = _why_none(event, script)
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
        told["identity_is_readable"] = call.is_readable
        told["fail_closed"] = rules.fail_closed or call.fails_closed
        told["lookup"] = call.lookup
    shown: dict[str, Any] = _without_secrets(
        {name: value for name, value in told.items() if value is not None}
    )
    return shown


def _without_secrets(told: Any) -> Any:
    """Hide what by its form is a secret: options and names tell only some of them."""
    match told:
        case str():
            return without_secrets(told)
        case dict():
            return {name: _without_secrets(part) for name, part in told.items()}
        case list():
            return [_without_secrets(part) for part in told]
        case _:
            return told


def _rule_told(invocation: Invocation, script: Script, rules: EffectRules, own: EffectRules) -> str:
    rule = rule_for(invocation, rules)
    unread = unread_rule(invocation, rule, script, rules)
    if unread is not None:
        return f"an effect, as far as can be told before it runs ({_rule_named(unread, own)})"
    if rule is None:
        return f"left alone: {why_left_alone(invocation, rules)}"
    told = _rule_named(rule, own)
    return f"left alone: this request only reads ({told})" if only_reads(invocation, rule) else told


def _rule_named(rule: CommandRule, own: EffectRules) -> str:
    words = " ".join((rule.program, *rule.words))
    return f"{'your rule' if rule in own.commands else 'default rule'}: {words}"


def _why_none(event: HookEvent, script: Script | None) -> str:
    """Say why a command as a whole is left alone."""
    if script is None:
        return "there is no command in it"
    if not script.is_whole:
        return (
            "it is no whole command of the shell, which a shell refuses to run, and no words of a rule stand "
            "in what could not be read"
        )
    if not script.invocations:
        return "it runs no program"
    return "none of its programs is an effect by a rule; what scripts in files do is not read"


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
    """Give what would be done about a call now: begun, or blocked, in which run and under which key.

    `run_is_known` off: nobody said which conversation it would be, so that none of its calls can be found. A
    call that only the client's id tells apart has no key before it is made.
    """
    run = await hooks.run()
    told: dict[str, Any] = {"run": run, "run_is_known": hooks.is_named}
    identity = hooks.marks.identity(call, run)
    on_file: tuple[HeldAttempt, ...] = ()
    elsewhere: tuple[HeldAttempt, ...] = ()
    if call.is_readable:
        on_file = await hooks.marks.on_file(identity)
        elsewhere = await hooks.marks.elsewhere(identity)
        told["key"] = identity.key
    if elsewhere:
        told["elsewhere"] = [
            {"run": one.run, "operation": one.operation, "state": one.state.value}
            for one in elsewhere[:_MOST_ELSEWHERE]
        ]
    if on_file:
        known = max(on_file, key=lambda one: _STANDING[one.state][0] == "block")
        would, why = _STANDING[known.state]
        found = {"operation": known.operation, "operation_state": known.state.value}
        return {**told, "would": would, "why": why, **found}
    parts = await hooks.marks.parts_on_file(call, identity) if call.is_readable else []
    if parts:
        known, part = parts[0]
        _, why = _STANDING[known.state]
        found = {"operation": known.operation, "operation_state": known.state.value}
        return {**told, "would": "block", "why": f"{part.target or part.action}: {why}", **found}
    if call.may_be_another:
        step, _ = await unresolved(hooks, call, run=run)
        if step is not None:
            why = "an earlier effect on the same target is not settled, and may be this one"
            found = {"operation": step["operation"], "operation_state": step["state"]}
            return {**told, "would": "block", "why": why, **found}
    why = (
        "nothing is on record of it in this run"
        if call.is_readable
        else "each call of it is one of its own, and none that is not settled stands in its way"
    )
    return {**told, "would": "begin", "why": why}
