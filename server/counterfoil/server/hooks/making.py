"""Which programs of a command leave alone what a later one sends, and which files the command makes."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from counterfoil.server.hooks.files import digest_of_text, names_any
from counterfoil.server.hooks.rules.rule import CommandRule
from counterfoil.server.hooks.shell.options import has_option, one_of, plain_words, values_before
from counterfoil.server.hooks.shell.script import Invocation, Script
from counterfoil.server.hooks.shell.words import Word
from counterfoil.server.hooks.told import SENDS_STATE, pairs_of, told_env

if TYPE_CHECKING:
    from counterfoil.server.hooks.effect import Effect

__all__ = ["is_self_contained", "leaves_alone", "note_made", "sends_made"]

_LEAVES_ALONE = one_of(
    "cd pushd popd echo printf true false : test [ [[ ls pwd export set cat head tail date which type hash",
    "command sleep grep rg wc sort jq tee sed awk tr cut basename dirname env uname whoami id read wait",
)

_LEAVE_ALONE = {
    "git": one_of(
        "add status log diff show fetch rev-parse ls-remote ls-files describe push blame shortlog",
        "for-each-ref merge-base cat-file show-ref",
    ),
    "gh": one_of("pr issue release run workflow api search status label browse version"),
    "kubectl": one_of(
        "get describe logs wait diff top version explain api-resources cluster-info",
        "apply create delete rollout",
    ),
}
"""Subcommands that do not change what a later program sends, to whom, or where."""

_ONLY_SHOW = {
    ("git", "remote"): one_of("show get-url"),
    ("git", "config"): one_of("get list"),
    ("gh", "auth"): one_of("status token"),
    ("gh", "repo"): one_of("view list"),
    ("kubectl", "config"): one_of("current-context get-contexts get-clusters view"),
}
"""Subcommands that may choose another place; these words of them only show it."""

_OF_BRANCHES = frozenset(("branch", "commit"))
"""State that only git changes."""

_SOMEWHERE = "*"
"""Stands for a file of which nobody knows where it is made."""


def note_made(invocation: Invocation, made: dict[str, str | None]) -> None:
    """Note the files that a program's output goes to, each with its digest where that is known."""
    for word in invocation.writes:
        if invocation.is_elsewhere:
            continue
        if invocation.folder is None or not word.is_static:
            made[_SOMEWHERE] = None
            continue
        from counterfoil.server.hooks.shell.feeding import printed_text

        path = os.path.normpath(os.path.join(invocation.folder, os.path.expanduser(word.text)))
        text = None if len(invocation.writes) > 1 or path in made else printed_text(invocation)
        made[path] = None if text is None or invocation.appends else digest_of_text(text)


def sends_made(
    invocation: Invocation, rule: CommandRule, words: Sequence[Word], made: Mapping[str, str | None]
) -> bool:
    """Tell whether an effect may send a file that the same call makes, and whose content nobody knows."""
    if not made or invocation.folder is None:
        return bool(made) and not invocation.is_elsewhere
    if rule.files or rule.state:
        inside = f"{invocation.folder.rstrip('/')}/"
        if any(path.startswith(inside) or path == _SOMEWHERE for path in made):
            return bool(set(rule.state) - {"head", "branch", "kube-context"}) or bool(rule.files)
    unknown = [path for path, digest in made.items() if digest is None]
    return _SOMEWHERE in unknown or names_any(words, unknown, folder=invocation.folder)


def leaves_alone(invocation: Invocation) -> bool:
    """Tell whether a program surely does not change what a later one sends, but for where its output goes."""
    if invocation.program in _LEAVES_ALONE:
        return not _writes_itself(invocation)
    reading = _LEAVE_ALONE.get(invocation.program)
    if reading is None:
        return False
    plain = plain_words(invocation.words[1:], takes=values_before(invocation.program))
    words = [word.text for word in plain[:2]]
    showing = _ONLY_SHOW.get((invocation.program, words[0] if words else ""))
    if showing is not None:
        only_lists = any(has_option(invocation.words[1:], name) for name in ("--get", "--list", "-l"))
        return only_lists or len(words) == 1 or words[1] in showing
    return not words or words[0] in reading


def _writes_itself(invocation: Invocation) -> bool:
    words = invocation.words[1:]
    match invocation.program:
        case "sed" | "awk":
            return any(word.text.startswith(("-i", "--in-place")) for word in words)
        case "sort":
            return has_option(words, "-o") or has_option(words, "--output")
        case "tee":
            return any(not word.text.startswith(("-", "/dev/")) for word in words)
        case _:
            return False


def is_self_contained(
    effect: "Effect", rule: CommandRule, script: Script, *, is_passing: bool = False
) -> bool:
    """Tell whether an effect's words say all of it, so that no program in front makes it another one.

    `is_passing`: a part of its target is what the repository now has it to be.
    """
    invocation = effect.invocation
    if invocation is None or rule.kind in SENDS_STATE or rule.files:
        return False
    if not effect.names and not effect.former_target:
        return False
    if set(effect.state or ()) - _OF_BRANCHES:
        return False
    if (effect.state or is_passing) and any(
        part.program in ("git", "gh") and not leaves_alone(part) for part in script.invocations
    ):
        return False
    if invocation.fed_by or invocation.stdin is not None or invocation.reads is not None:
        return False
    if not all(word.is_static for word in (*invocation.words, *(value for _, value in told_env(invocation)))):
        return False
    if rule.form == "http":
        return not any("@" in text or "<" in text or "file" in name for name, text in pairs_of(effect.sent))
    # What looks like a file may be made by what stands in front.
    return not any(mark in word.text for word in invocation.words[1:] for mark in "/.@")
