"""The programs of a command in the form that is compared, with the files that they name and read."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from counterfoil.server.hooks.files import digests_of
from counterfoil.server.hooks.making import leaves_alone
from counterfoil.server.hooks.rules.rule import CommandRule
from counterfoil.server.hooks.shell.script import Invocation, Script
from counterfoil.server.hooks.shell.secret_words import told_words
from counterfoil.server.hooks.shell.words import Word
from counterfoil.server.hooks.told import told_env

if TYPE_CHECKING:
    from counterfoil.server.hooks.git_push import Answers

__all__ = ["WholeCommand", "canonical", "files_of", "input_of"]


class WholeCommand(Struct, kw_only=True):
    """What is found out about a whole command once, however many effects it has."""

    script: Script
    made: dict[str, str | None] = field(default_factory=dict)
    answers: "Answers" = field(default_factory=dict)
    compared: list[dict[str, Any]] | None = None
    made_from: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def programs(self) -> list[dict[str, Any]]:
        """All programs in the form that is compared."""
        if self.compared is None:
            self.compared = [canonical(part) for part in self.script.invocations]
        return self.compared

    def from_files(self, invocation: Invocation) -> dict[str, str]:
        """Give the digests of the files that the programs in front of an effect name."""
        found: dict[str, str] = {}
        for at, part in enumerate(self.script.invocations):
            if part.words == invocation.words and part.folder == invocation.folder:
                break
            if at not in self.made_from:
                words = () if leaves_alone(part) else (*part.words[1:], *input_of(part))
                self.made_from[at] = digests_of(words, folder=part.folder)
            found |= self.made_from[at]
        return found


def canonical(invocation: Invocation) -> dict[str, Any]:
    """Give a program's call in the form that is compared: without quotes and white space, secrets marked."""
    first = invocation.program or invocation.words[0].text
    call: dict[str, Any] = {"words": [first, *told_words(invocation.program, invocation.words[1:])]}
    env = {name: word.text for name, word in told_env(invocation)}
    if env:
        call["env"] = env
    if invocation.folder is not None:
        call["folder"] = invocation.folder
    if invocation.stdin is not None:
        call["stdin"] = invocation.stdin.text
    if invocation.reads is not None:
        call["reads"] = invocation.reads.text
    if invocation.fed_by:
        call["fed_by"] = [canonical(part) for part in invocation.fed_by if not part.fed_by] or [
            part.program for part in invocation.fed_by
        ]
    return call


def files_of(
    words: Sequence[Word],
    rule: CommandRule,
    invocation: Invocation,
    made: Mapping[str, str | None],
    *,
    folder: str | None = None,
) -> dict[str, str] | None:
    """Give the digests of what a program names, and of what a rule names in the folder where it works."""
    found = digests_of(words, folder=invocation.folder, made=made)
    if rule.files:
        found |= digests_of((), folder=folder or invocation.folder, patterns=rule.files)
    return dict(sorted(found.items())) or None


def input_of(invocation: Invocation) -> tuple[Word, ...]:
    """Give what a program reads from its input: a file, and the files that a text given to it holds."""
    return tuple(word for word in (invocation.reads, _reading(invocation.stdin)) if word is not None)


def _reading(word: Word | None) -> Word | None:
    """Give the files that a text holds, and not what stands in it."""
    return None if word is None or not word.reads else Word("", is_static=False, reads=word.reads)
