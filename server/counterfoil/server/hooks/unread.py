"""Finds the rule of an effect where only the running shell can tell which words a command will have.

A command is taken for an effect if all words of a rule stand in what goes in there.
"""

from collections.abc import Iterable, Iterator, Sequence

from counterfoil.server.hooks.fitting import excused_by, is_word, subcommands
from counterfoil.server.hooks.rules.rule import CommandRule, EffectRules
from counterfoil.server.hooks.shell.options import has_option
from counterfoil.server.hooks.shell.script import Invocation, Script
from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["open_rule", "rule_around", "rule_in", "sends_openly"]

_UNSAID = lazy_pattern(r"\$\{[!#]?\w+(?:\[[^\]]*\])?:?[-=+?]?|(?<!\w)\w+://")
"""What stands in front of words that may be filled in: `${TOOL:-`; and what of an address is no word."""

_NAMES = lazy_pattern(r"[\w.][\w.-]*")
_SENDS = lazy_pattern(
    r"(?:^|[\s(])(?:-[a-zA-Z]*[dFTX]\b|--(?:data|form|json|upload|request|post|method|body))"
    r"|\b(?:POST|PUT|PATCH|DELETE)\b"
)
"""Options and methods with which a request writes."""


def rule_around(invocation: Invocation, script: Script, rules: EffectRules) -> CommandRule | None:
    """Give the rule whose words all stand in what a program is called with, fed with, or filled with."""
    texts = [word.text for word in _words_around(invocation)]
    texts += [part.stdin.text for part in (invocation, *invocation.fed_by) if part.stdin is not None]
    return rule_in(" ".join((*texts, *script.assigned)), rules)


def rule_in(text: str, rules: EffectRules) -> CommandRule | None:
    """Give the rule whose words all stand in a text."""
    text = _said((text,))
    found = set(_NAMES.findall(text))
    for rule in rules.commands:
        if not rule.effect or not found.intersection(rule.program.split("|")):
            continue
        if not all(word == "*" or found.intersection(word.split("|")) for word in rule.words):
            continue
        if rule.form == "http" and not _SENDS.search(text):
            continue
        if not rule.needs or any(need.partition("=")[0] in text for need in rule.needs):
            return rule
    return None


def open_rule(invocation: Invocation, script: Script, rules: EffectRules) -> CommandRule | None:
    """Give the rule of a known program whose next words only the running shell knows: `git ${X:-push}`.

    Only what goes in there counts, and what stands behind it: not words that are known to be others.
    """
    words = invocation.words[1:]
    if not invocation.program or all(word.is_static for word in words):
        return None
    own = [rule for rule in rules.commands if is_word(invocation.program, rule.program)]
    if not own:
        return None
    plain = subcommands(invocation)
    text = _said(_filled_in(invocation, script))
    options = {option.partition("=")[0] for option in text.split()}
    for rule in own:
        if not _may_fit(plain, rule.words, text) or excused_by(invocation, rule) is not None:
            continue
        if not rule.needs or any(
            has_option(words, one) or one.partition("=")[0] in options for one in rule.needs
        ):
            return rule if rule.effect else None
    return None


def sends_openly(invocation: Invocation, script: Script) -> bool:
    """Tell whether a request that only reads as it is written may write by what is filled in."""
    if all(word.is_static for word in invocation.words):
        return False
    return _SENDS.search(_said(_filled_in(invocation, script))) is not None


def _may_fit(plain: Sequence[Word], wanted: Sequence[str], text: str) -> bool:
    """Tell whether words may be those that a rule wants: as they stand, up to one that is filled in."""
    for at, one in enumerate(wanted):
        if at >= len(plain):
            return False
        if not plain[at].is_static:
            behind = {*_NAMES.findall(text), *(word.text for word in plain[at:])}
            return all(rest == "*" or behind.intersection(rest.split("|")) for rest in wanted[at:])
        if not is_word(plain[at].text, one):
            return False
    return True


def _filled_in(invocation: Invocation, script: Script) -> Iterator[str]:
    """Give what may come to stand in words that begin with what only the shell fills in."""
    is_filled = False
    for word in invocation.words[1:]:
        if not word.is_static and word.text[:1] in "$`":
            is_filled = True
            yield word.text
        elif word.text == "…":
            # What `xargs` adds is what it is fed with.
            yield from (fed.text for part in invocation.fed_by for fed in part.words[1:])
    if is_filled:
        yield from script.assigned


def _words_around(invocation: Invocation) -> Iterator[Word]:
    yield from invocation.words
    for part in invocation.fed_by:
        yield from part.words[1:]


def _said(texts: Iterable[str]) -> str:
    return _UNSAID.sub(" ", " ".join(texts))
