"""Which rule a program of a command is an effect by, and why it is none."""

from counterfoil.server.hooks.http_request import is_graphql_read, read_request
from counterfoil.server.hooks.rules.rule import CommandRule, EffectRules
from counterfoil.server.hooks.shell.options import (
    Parsed,
    has_option,
    option_values,
    parsed,
    plain_words,
    values_before,
    without_values,
)
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import matches_glob

__all__ = [
    "excused_by",
    "is_word",
    "only_reads",
    "parsed_by",
    "rule_for",
    "subcommands",
    "why_left_alone",
]


def rule_for(invocation: Invocation, rules: EffectRules) -> CommandRule | None:
    """Give the rule by which a program is an effect; None where it is left alone."""
    program = invocation.program
    if not program:
        return None
    for rule in rules.commands:
        if is_word(program, rule.program) and _fits(invocation, rule):
            return rule if rule.effect else None
    return None


def why_left_alone(invocation: Invocation, rules: EffectRules) -> str:
    """Say why a program is no effect."""
    if not invocation.words[0].is_static:
        return "only the running shell knows what runs here, and no words of a rule stand around it"
    if invocation.is_fed:
        return "what this shell reads as its script is not known, and no words of a rule stand around it"
    of_program = [rule for rule in rules.commands if is_word(invocation.program, rule.program)]
    said = [rule for rule in of_program if _has_words(invocation, rule)]
    for rule in said:
        if not rule.effect and _fits(invocation, rule):
            return "a rule says that it is no effect"
        option = excused_by(invocation, rule)
        if option is not None:
            return f"with {option} it is none"
        if rule.needs:
            return f"it would be an effect with {' or '.join(rule.needs)}"
    if of_program:
        return "the rules for this program name other words"
    if invocation.program in ("source", ".") or "." in invocation.program:
        return "no rule names it, and what a script in a file does is not read"
    return "no rule names this program"


def only_reads(invocation: Invocation, rule: CommandRule) -> bool:
    """Tell whether a request that a rule names changes nothing, and so is no effect."""
    return rule.form == "http" and read_request(invocation) is None


def _fits(invocation: Invocation, rule: CommandRule) -> bool:
    if not _has_words(invocation, rule) or excused_by(invocation, rule) is not None:
        return False
    if rule.form == "graphql" and not _only_asks(invocation):
        return False
    if rule.remote and not _goes_elsewhere(invocation, rule):
        return False
    return not rule.needs or any(has_option(invocation.words[1:], option) for option in rule.needs)


def _only_asks(invocation: Invocation) -> bool:
    """Tell whether what a forge's program asks of GraphQL only reads, as far as its words say all of it."""
    words = invocation.words[1:]
    names = ("-f", "--raw-field", "-F", "--field")
    said = [
        value for name in names for value in option_values(words, name) if value.text.startswith("query=")
    ]
    if has_option(words, "--input") or not said:
        return False
    return all(value.is_static and is_graphql_read(value.text.partition("=")[2]) for value in said)


def _goes_elsewhere(invocation: Invocation, rule: CommandRule) -> bool:
    """Tell whether the last operand is on another machine: `host:path`, `host::module`, an address."""
    operands = parsed_by(invocation, rule).operands
    last = operands[-1].text if operands else ""
    place, is_named, _ = last.partition(":")
    return bool(is_named and place) and "/" not in place


def _has_words(invocation: Invocation, rule: CommandRule) -> bool:
    plain = subcommands(invocation)
    return len(plain) >= len(rule.words) and all(
        is_word(word.text, wanted) for word, wanted in zip(plain, rule.words, strict=False)
    )


def excused_by(invocation: Invocation, rule: CommandRule) -> str | None:
    """Give the option of a program with which a rule's command is no effect."""
    words = invocation.words[1:]
    # What an option says is no option, whatever it looks like: `--body --help`.
    said = words if rule.form == "http" else without_values(words, takes=rule.options_with_value)
    excuses = (one for one in rule.unless if has_option(words if "=" in one else said, one))
    return next(excuses, None) or _among_letters(invocation, rule)


def _among_letters(invocation: Invocation, rule: CommandRule) -> str | None:
    """Find an excuse among many letters in one word, `-avzn`, where the rule says what each of them is."""
    clusters = [word for word in invocation.words[1:] if word.text[:1] == "-" and word.text[1:5].isalpha()]
    letters = [one for one in rule.unless if len(one) == 2]
    if not (letters and rule.flags) or not any(len(word.text) > 4 for word in clusters):
        return None
    options = parsed_by(invocation, rule)
    return next((one for one in letters if options.has(one)), None)


def subcommands(invocation: Invocation) -> list[Word]:
    """Give the words of a program that are no options and no values of those in front of its subcommand."""
    plain = plain_words(invocation.words[1:], takes=values_before(invocation.program))
    return [word for word in plain if not word.text.startswith("+")]


def parsed_by(invocation: Invocation, rule: CommandRule) -> Parsed:
    """Take the words of a program apart as a rule says; `operands` are those behind the rule's own words.

    A word that may be an option's value counts as operand where there would be none without it and the
    target names one.
    """
    words = [word for word in invocation.words[1:] if not word.text.startswith("+")]
    verbs = len(rule.words)
    flags = rule.flag_names
    takes = (values_before(invocation.program) | rule.options_with_value) - flags
    found = parsed(words, takes=takes, flags=flags, verbs=verbs)
    operands = found.operands[verbs:]
    needs_one = any(spec in ("1", "*") for spec in rule.target)
    return Parsed(operands=operands or (found.doubtful if needs_one else ()), options=found.options)


def is_word(text: str, wanted: str) -> bool:
    """Tell whether a word is the one that a rule wants, or one of several: `create|new`."""
    return any(matches_glob(text, one) for one in wanted.split("|"))
