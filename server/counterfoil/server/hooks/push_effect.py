"""The effect of a git push, and of each of its refs alone."""

from typing import Any

from msgspec.structs import replace

from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.git_push import Pushed, read_push
from counterfoil.server.hooks.programs import WholeCommand, canonical
from counterfoil.server.hooks.rules.rule import CommandRule
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.told import is_place_told

__all__ = ["push_effect"]


def push_effect(base: Effect, rule: CommandRule, invocation: Invocation, whole: WholeCommand) -> Effect:
    """Complete what every effect has by what is pushed where, as far as that can be told."""
    pushed = read_push(invocation, whole.answers)
    if pushed is None or not is_place_told(invocation):
        return replace(
            base,
            pushed=pushed,
            lookup=rule.lookup,
            sent=canonical(invocation),
            is_known=False,
            is_readable=False,
        )
    effect = replace(base, **_told(pushed, is_known=base.is_known))
    if len(pushed.refs) < 2:
        return effect
    alone = tuple(replace(base, **_told(one, is_known=base.is_known)) for one in pushed.by_ref)
    return replace(effect, pieces=alone)


def _told(pushed: Pushed, *, is_known: bool) -> dict[str, Any]:
    """Give what makes a push the one that it is."""
    refs = [ref for ref, _ in pushed.refs]
    return {
        "pushed": pushed,
        "target": pushed.target,
        "written_target": pushed.written_target,
        "written_sent": None if pushed.written_target is None else {"remote": pushed.written, "refs": refs},
        "sent": {"remote": pushed.remote, "refs": refs},
        "state": [{"ref": ref, "commit": commit} for ref, commit in pushed.refs],
        "names": pushed.names,
        "is_named": True,
        "reference": pushed.commit,
        "lookup": f"git ls-remote {pushed.remote} {' '.join(refs)}: it happened when what was pushed stands "
        f"there ({pushed.commit if is_known else 'the commit of this call'})",
    }
