"""The effect of a request that a program of the shell sends."""

from msgspec.structs import replace

from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.http_request import read_request
from counterfoil.server.hooks.making import is_self_contained, sends_made
from counterfoil.server.hooks.programs import WholeCommand, canonical, files_of, input_of
from counterfoil.server.hooks.rules.rule import CommandRule
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.told import is_around_told, is_request_told

__all__ = ["http_effect"]

_AROUND = ("env", "stdin", "fed_by")


def http_effect(
    base: Effect, rule: CommandRule, invocation: Invocation, whole: WholeCommand
) -> Effect | None:
    """Complete what every effect has by what a request says; None where it is none, or only reads."""
    request = read_request(invocation)
    if request is None:
        return None
    call = canonical(invocation)
    around = tuple(word for part in invocation.fed_by for word in (*part.words[1:], *input_of(part)))
    words = (*request.bodies, *input_of(invocation), *around)
    effect = replace(
        base,
        lookup=rule.lookup,
        target=request.url or None,
        sent={**request.sent, **{name: call[name] for name in _AROUND if name in call}},
        state=files_of(words, rule, invocation, whole.made),
        is_known=base.is_known and not sends_made(invocation, rule, words, whole.made),
        names=(request.url,),
        is_named=True,
        is_readable=is_request_told(invocation) and is_around_told(invocation),
    )
    return replace(effect, is_known=effect.is_known or is_self_contained(effect, rule, whole.script))
