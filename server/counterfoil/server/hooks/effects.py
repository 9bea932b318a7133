"""Tells which programs of a command are effects."""

from typing import Any

from msgspec.structs import replace

from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.files import digest_of_text
from counterfoil.server.hooks.fitting import only_reads, rule_for, subcommands
from counterfoil.server.hooks.making import leaves_alone, note_made
from counterfoil.server.hooks.programs import WholeCommand, canonical
from counterfoil.server.hooks.rules.rule import CommandRule, EffectRules
from counterfoil.server.hooks.shell.script import Invocation, Script
from counterfoil.server.hooks.unread import open_rule, rule_around, rule_in, sends_openly
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["TooMuch", "effects_of", "unread_rule"]

_MOST_EFFECTS = 100
"""Each is looked up and noted on its own: for more, a call would wait for its hook, not for its work."""
_MOST_PROGRAMS = 1_000

_BETWEEN_COMMANDS = lazy_pattern(r"[\n;|&]+")


class TooMuch(Exception):
    """More stands in a call than is read before it runs: it says what, in words for the model."""


def effects_of(script: Script, rules: EffectRules) -> tuple[Effect, ...]:
    """Give the effects of a command, in the order in which they stand.

    Raises:
        TooMuch: it runs more programs than are looked at, or has more effects than are put on record at once.
    """
    if len(script.invocations) > _MOST_PROGRAMS:
        raise TooMuch(f"a command of more than {_MOST_PROGRAMS} programs")
    found: list[Effect] = []
    whole = WholeCommand(script=script)
    made, counted = whole.made, 0
    is_known = script.is_whole
    for invocation in script.invocations:
        rule = rule_for(invocation, rules)
        unread = unread_rule(invocation, rule, script, rules)
        effect: Effect | None = None
        if unread is not None:
            effect = _unread_effect(invocation, unread, whole)
        elif rule is not None and not _is_unread(invocation):
            effect = _effect(invocation, rule, whole, is_known=is_known)
        if effect is not None:
            found.append(effect)
            counted += len(effect.pieces) or 1
        if counted > _MOST_EFFECTS:
            raise TooMuch(f"a command of more than {_MOST_EFFECTS} effects")
        is_known = is_known and (effect is not None or leaves_alone(invocation))
        note_made(invocation, made)
    return tuple(found) or _of_errors(whole, rules)


def _of_errors(whole: WholeCommand, rules: EffectRules) -> tuple[Effect, ...]:
    """Give the effect that may be in what is no shell script: all words of a rule stand on one line of it.

    Mostly a shell refuses such a command, and says so; the grammar here may also be behind a shell's.
    """
    for text in whole.script.unread:
        for line in _BETWEEN_COMMANDS.split(text):
            rule = rule_in(line, rules)
            if rule is not None:
                call = {"unread": digest_of_text(text)}
                return (_unknown(rule, {"of": call, "in": whole.programs}, call),)
    return ()


def _effect(
    invocation: Invocation, rule: CommandRule, whole: WholeCommand, *, is_known: bool
) -> Effect | None:
    """Give the effect of a program that a rule is about; None where it only reads after all."""
    base = Effect(
        rule=rule,
        action=rule.action or ".".join((invocation.program, *rule.words)),
        target=None,
        sent=None,
        decides=invocation.decides,
        invocation=invocation,
        words=tuple(word.text for word in (invocation.words[0], *subcommands(invocation)[: len(rule.words)])),
        is_known=is_known,
    )
    effect: Effect | None
    # Loaded here: a command mostly has effects of one form.
    if rule.form == "http":
        from counterfoil.server.hooks.http_effect import http_effect

        effect = http_effect(base, rule, invocation, whole)
    elif rule.form == "git-push":
        from counterfoil.server.hooks.push_effect import push_effect

        effect = push_effect(base, rule, invocation, whole)
    else:
        from counterfoil.server.hooks.program_effect import program_effect

        effect = program_effect(base, rule, invocation, whole)
    if effect is None:
        return None
    beside: dict[str, Any] = {}
    if not effect.is_known:
        # What is sent is made by this very call: it is told apart by all that the call does, and out of what.
        beside = {"in": whole.programs}
        made_from = whole.from_files(invocation)
        if made_from:
            beside["from"] = made_from
    pieces = tuple(_told_apart(piece, beside) for piece in effect.pieces)
    return _told_apart(replace(effect, pieces=pieces), beside)


def _told_apart(effect: Effect, beside: dict[str, Any]) -> Effect:
    """Keep what an effect's own words say, and tell it by `beside` too, what else the call does."""
    own, former, written = effect.sent, effect.former_sent, effect.written_sent
    return replace(
        effect,
        own=own,
        sent={"of": own, **beside} if beside else own,
        written_sent=None if written is None else {"of": written, **beside} if beside else written,
        former_sent=None if former == own else {"of": former, **beside} if beside else former,
    )


def _is_unread(invocation: Invocation) -> bool:
    """Tell whether only the running shell knows which program it is, or what a shell is fed with."""
    return invocation.is_fed or not invocation.words[0].is_static


def unread_rule(
    invocation: Invocation, rule: CommandRule | None, script: Script, rules: EffectRules
) -> CommandRule | None:
    """Give the rule by which a program may be an effect that only the running shell can tell; None: by none.

    `rule` is the one by which it is an effect as it is written.
    """
    if _is_unread(invocation):
        return rule_around(invocation, script, rules)
    if rule is None:
        return open_rule(invocation, script, rules)
    return rule if sends_openly(invocation, script) and only_reads(invocation, rule) else None


def _unread_effect(invocation: Invocation, rule: CommandRule, whole: WholeCommand) -> Effect:
    """Give the effect that may be in what cannot be read.

    Its end tells nothing, and nothing is known of what it would send.
    """
    call = canonical(invocation)
    return _unknown(rule, {"of": call, "in": whole.programs}, call)


def _unknown(rule: CommandRule, sent: Any, own: Any) -> Effect:
    """Give an effect of a rule of which nothing is known but the words that stand around it."""
    return Effect(
        rule=rule,
        action=rule.action or ".".join((rule.program, *rule.words)),
        target=None,
        sent=sent,
        decides=False,
        lookup=_lookup(rule),
        words=(rule.program, *rule.words),
        is_known=False,
        is_readable=False,
        own=own,
    )


def _lookup(rule: CommandRule) -> str | None:
    """Give a rule's lookup where nothing is known of the target."""
    if rule.lookup is None or "{" not in rule.lookup:
        return rule.lookup
    from counterfoil.server.hooks.acted_on import filled

    return filled(rule.lookup, {})
