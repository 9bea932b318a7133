"""What the end and the output of a command can prove of an effect in it.

A guess is none: where another program may have printed or failed, or where a part may be done and another
not, nothing is proved, and the operation stays in doubt.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from counterfoil.server.hooks.call import Call
from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.http_answer import answered_status
from counterfoil.server.hooks.http_request import read_request
from counterfoil.server.hooks.rules.results import is_refusal
from counterfoil.server.hooks.rules.rule import CommandRule
from counterfoil.server.hooks.shell.options import has_option, one_of, plain_words
from counterfoil.server.hooks.shell.script import Invocation, Script
from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import lazy_pattern

if TYPE_CHECKING:
    from counterfoil.server.hooks.git_push import Pushed

__all__ = [
    "exit_proves",
    "is_one_effect",
    "names_itself",
    "output_proves",
    "is_unparsed",
    "refusal_of",
    "speaks_alone",
]

_SILENT = one_of("cd true false : sleep set export unset test [ wait")
"""Programs that print nothing which an effect's own words could be mistaken for."""

_NEVER_STARTED = (126, 127)
"""What a shell answers when it could not start a program; a program may answer so as well."""

_REPEATS = lazy_pattern(r"(?:^|[\s;&|(])(?:for|while|until|select|find|xargs|parallel|watch)\s")
_GLOB = lazy_pattern(r"[*?{\[]")
_CURL_SEVERAL = ("--next", "-:", "-K", "--config", "-Z", "--parallel")
_CURL_AGAIN = ("-L", "--location", "--location-trusted", "--retry", "--retry-all-errors")
"""With these one request is sent several times, or another one after it."""

_FAILS = frozenset(("--fail", "--fail-with-body", "--check-status"))
_FAILS_CLUSTER = lazy_pattern(r"-[sSkvigLINO#46]*f[sSkvigLINO#46]*")
"""Options by which an HTTP client's end tells of the answer; wget's always does."""

_INNER_SHELL = lazy_pattern(r"\b(?:(?:ba|z|da|k|fi)?sh|eval|source|trap)\b|(?:^|[;&|]\s*)\.\s")
_UNPARSED = lazy_pattern(
    r"(?:\S*/)?(?:\w*sh|\(eval\)|eval)(?::[^:]{0,80}){0,4}:\s*"
    r"(?:syntax error|unexpected EOF|parse error|unmatched|unexpected end of file|`)",
    re.IGNORECASE,
)
_EXIT = lazy_pattern(r"\A\s*(?:Error: )?(?:Command failed with )?[Ee]xit (?:code|status):? \d{1,3}\b:?")
_GIT_SEVERAL = ("--all", "--branches", "--mirror", "--tags", "--follow-tags", "--recurse-submodules")
_GIT_TAKES = frozenset(("-o", "--push-option", "--receive-pack", "--exec", "--repo"))


def exit_proves(effect: Effect, *, printed: str | None) -> bool:
    """Tell whether status 0 of the whole call proves an effect.

    `printed` is what the effect itself wrote to stdout, None where another program may have written there.
    An HTTP client that was not told to fail ends with 0 after a refusal as well: a status of 2xx has to be in
    what it printed.
    """
    if not effect.decides:
        return False
    rule, mine = effect.rule, effect.invocation
    if not isinstance(rule, CommandRule) or rule.form != "http" or mine is None:
        return True
    if mine.program == "wget":
        return True
    if not _is_one_request(mine):
        return False
    words = [word.text for word in mine.words[1:]]
    if any(word in _FAILS for word in words):
        return True
    if mine.program != "curl":
        return False
    if any(_FAILS_CLUSTER.fullmatch(word) for word in words):
        return True
    status = None if printed is None else answered_status(mine.words[1:], printed)
    return status is not None and 200 <= status < 300


def speaks_alone(effect: Effect, script: Script) -> bool:
    """Tell whether all that a command prints is this effect's."""
    mine = effect.invocation
    return mine is not None and all(
        _is_same(part, mine) or part.program in _SILENT for part in script.invocations
    )


def names_itself(effect: Effect, call: Call, script: Script) -> bool:
    """Tell whether a reference in the output can only be this effect's: nothing else prints what looks so."""
    mine = effect.invocation
    if mine is None:
        return False
    others = [part for part in script.invocations if not _is_same(part, mine)]
    programs = {mine.program}
    for part in others:
        if part.program in _SILENT or _passes_on(part) or _is_plain_echo(part, effect):
            continue
        is_other_effect = any(_is_same(part, one.invocation) for one in call.effects)
        if part.program in programs or not (part.program == "git" or is_other_effect):
            return False
    return sum(_is_same(part, mine) for part in script.invocations) == 1


def output_proves(effect: Effect, call: Call, script: Script, *, command: str) -> bool:
    """Tell whether a reference in the output alone proves the effect, whatever the end says."""
    mine = effect.invocation
    return (
        len(call.effects) == 1
        and mine is not None
        and script.is_whole
        and (bool(getattr(effect.rule, "found", ())) or effect.rule.external_id is not None)
        and (effect.decides or _REPEATS.search(command) is None)
        and is_one_effect(effect)
        and all(
            _is_same(part, mine)
            or part.program in _SILENT
            or _passes_on(part)
            or _is_plain_echo(part, effect)
            for part in script.invocations
        )
    )


def refusal_of(call: Call, script: Script, *, text: str, status: int | None) -> Mapping[str, Any] | None:
    """Give the evidence that the one effect of a command was refused, or never started; None: there is none.

    Only of one simple command with one effect: nothing else in the line could have failed or printed it.
    """
    effect = call.effects[0]
    mine = effect.invocation
    if len(call.effects) != 1 or mine is None or not script.is_whole or not effect.decides:
        return None
    if (
        not speaks_alone(effect, script)
        or not is_one_effect(effect)
        or not all(word.is_static for word in mine.words)
    ):
        return None
    if status in _NEVER_STARTED:
        return {"refused": "the program could not be started"} if _was_not_started(mine, text) else None
    return is_refusal(effect.rule, text, status=status)


def is_unparsed(command: str, *, text: str, status: int | None) -> bool:
    """Tell whether a shell says that it refused a command because it is none, so that nothing of it ran.

    A shell reads a line wholly before it runs any of it; of several lines the first ones may have run. Where
    the command has another shell or `eval` in it, that one may have said it.
    """
    if not status or "\n" in command.strip() or _INNER_SHELL.search(command):
        return False
    lines = [line for line in _EXIT.sub("", text, count=1).splitlines() if line.strip()]
    return bool(lines) and all(_UNPARSED.match(line) for line in lines)


def is_one_effect(effect: Effect) -> bool:
    """Tell whether a command does one thing: where it does several, some may be done and others not."""
    rule, mine = effect.rule, effect.invocation
    if mine is None or not isinstance(rule, CommandRule):
        return False
    words = mine.words[1:]
    if any(has_option(words, option) for option in rule.several):
        return False
    if rule.form == "http":
        return _is_one_request(mine) and not (
            any(has_option(words, option) for option in _CURL_AGAIN) or _has_letter(words, "L", mine)
        )
    if any(_GLOB.search(word.text) and not any(map(str.isspace, word.text)) for word in words):
        return False
    return rule.form != "git-push" or _is_one_ref(mine, effect.pushed)


def _is_one_request(invocation: Invocation) -> bool:
    words = invocation.words[1:]
    if any(has_option(words, option) for option in _CURL_SEVERAL):
        return False
    if _has_letter(words, "K:Z", invocation):
        return False
    request = read_request(invocation)
    urls = [] if request is None else request.sent["urls"]
    return len(urls) == 1 and not any(mark in urls[0] for mark in "[]{}")


def _has_letter(words: Sequence[Word], letters: str, invocation: Invocation) -> bool:
    """Tell whether curl's short options, of which several may stand in one word, have one of some letters."""
    if invocation.program != "curl":
        return False
    return any(
        re.match(rf"-[a-zA-Z:#0]*[{letters}]", word.text)
        for word in words
        if not word.text.startswith(("-d", "-H", "-u", "-o", "-X", "-F", "-A", "-b", "-e", "-w", "-T"))
    )


def _is_one_ref(invocation: Invocation, pushed: "Pushed | None") -> bool:
    words = list(invocation.words)
    at = next((at for at, word in enumerate(words) if word.text == "push"), len(words))
    after = words[at + 1 :]
    if any(has_option(after, option) for option in _GIT_SEVERAL):
        return False
    named = plain_words(after, takes=_GIT_TAKES)
    if len(named) > 2:
        return False
    is_quiet = has_option(after, "-q") or has_option(after, "--quiet")
    if len(named) < 2 and is_quiet:
        # By its configuration git may push several, and it does not say which.
        return False
    return pushed is None or (len(pushed.refs) == 1 and not any(map(str.isspace, pushed.remote)))


def _is_same(part: Invocation, other: Invocation | None) -> bool:
    return other is not None and part.words == other.words and part.folder == other.folder


def _passes_on(part: Invocation) -> bool:
    """Tell whether a program only passes on what the effect prints."""
    if not part.fed_by:
        return False
    plain = [word.text for word in part.words[1:] if not word.text.startswith("-")]
    return (
        part.program == "tee"
        or (part.program == "cat" and not plain)
        or (part.program in ("head", "tail") and all(text.isdigit() for text in plain))
    )


def _is_plain_echo(part: Invocation, effect: Effect) -> bool:
    if part.program not in ("echo", "printf") or part.fed_by:
        return False
    text = " ".join(word.text.replace("$?", "") for word in part.words[1:])
    return not re.search(r"[$`]", text) and not any(
        re.search(pattern, text.replace("\\n", "\n"), re.MULTILINE) for pattern in effect.rule.found
    )


def _was_not_started(invocation: Invocation, text: str) -> bool:
    """Tell whether all that was printed is a shell's word that it could not start this very program."""
    lines = [line for line in _EXIT.sub("", text, count=1).splitlines() if line.strip()]
    name = re.escape(invocation.words[0].text)
    said = rf"(?:.*: )?{name}: (?:command not found|not found|No such file or directory|Permission denied)"
    return len(lines) == 1 and bool(
        re.fullmatch(said, lines[0].strip())
        or re.fullmatch(rf"(?:.*: )?command not found: {name}", lines[0].strip())
    )
