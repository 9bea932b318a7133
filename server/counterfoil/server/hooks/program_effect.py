"""The effect of a program that says by its own words what it acts on."""

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from counterfoil.server.hooks.acted_on import acted_on, filled, sent_told
from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.fitting import parsed_by
from counterfoil.server.hooks.making import is_self_contained, sends_made
from counterfoil.server.hooks.one_wording import in_one_wording
from counterfoil.server.hooks.programs import WholeCommand, canonical, files_of, input_of
from counterfoil.server.hooks.rules.rule import CommandRule
from counterfoil.server.hooks.shell.options import values_before
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.spelling import spelled
from counterfoil.server.hooks.told import is_around_told, is_readable

__all__ = ["program_effect"]


def program_effect(base: Effect, rule: CommandRule, invocation: Invocation, whole: WholeCommand) -> Effect:
    """Complete what every effect has by what a program's words say, and the state that goes with them."""
    call, worded = canonical(invocation), in_one_wording(invocation, rule)
    spelling = spelled(worded, rule)
    others = tuple(word for part in invocation.fed_by for word in (*part.words[1:], *input_of(part)))
    words = (*spelling.may_name_files, *input_of(invocation), *others)
    options = parsed_by(worded, rule)
    states: dict[str, str] | None = {}
    if rule.state:
        from counterfoil.server.hooks.sent_state import read_states

        states = read_states(rule.state, worded, operands=options.operands)
    acted = acted_on(worded, rule, options, state=states or {})
    files = files_of(words, rule, invocation, whole.made, folder=acted.folder) or {}
    takes = frozenset() if rule.words else values_before(invocation.program)
    given = (text for text in call["words"][1 + len(rule.words) :] if isinstance(text, str))
    loose = " ".join(_loose(tuple(given), takes=takes))
    effect = replace(
        base,
        target=acted.target,
        written_target=acted.written,
        sent=canonical(worded) | spelling.told(said=acted.said, operand=acted.operand),
        former_sent=call,
        state={**files, **(states or {})} or None,
        is_known=base.is_known and not sends_made(invocation, rule, words, whole.made),
        is_readable=is_readable(invocation, rule) and is_around_told(invocation) and states is not None,
        names=acted.names if worded is invocation else (*acted.names, *_as_written(invocation, rule)),
        is_named=acted.is_named,
        once=acted.exact if rule.once else None,
        is_version=acted.is_version,
        is_vague=acted.is_vague,
        lookup=filled(rule.lookup, {**acted.facts, "sent": sent_told(files)}),
        former_target=loose[:300] or None,
        has_former_target=True,
    )
    is_passing = acted.lasting != acted.target
    is_known = effect.is_known or is_self_contained(effect, rule, whole.script, is_passing=is_passing)
    if is_known and not acted.is_vague:
        return replace(effect, is_known=True)
    return replace(
        effect,
        is_known=False,
        target=acted.lasting,
        written_target=acted.lasting_written,
        lookup=filled(rule.lookup, {**acted.lasting_facts, "sent": sent_told({})}),
    )


def _as_written(invocation: Invocation, rule: CommandRule) -> Iterator[str]:
    """Give what an agent may call the target by its words as they stand: `deploy/web` and `deploy web`."""
    operands = [word.text for word in parsed_by(invocation, rule).operands if word.is_static]
    yield from operands
    if len(operands) > 1:
        yield from (" ".join(operands), "/".join(operands))


def _loose(words: Sequence[str], *, takes: Collection[str]) -> tuple[str, ...]:
    """Give the words that are neither options nor the values of `takes`, the values of others among them."""
    before = ("", *words)
    return tuple(
        text
        for text, option in zip(words, before, strict=False)
        if not text.startswith("-") and option not in takes
    )
