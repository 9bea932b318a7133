"""A program that runs, as what finds its target sees it: words, options, folder, and the state read."""

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from counterfoil.server.hooks.shell.options import Parsed
from counterfoil.server.hooks.shell.secret_words import is_secret_name, told_words
from counterfoil.server.hooks.shell.words import Word

__all__ = ["Scene"]


class Scene(Struct, kw_only=True):
    """What a reader sees of a program that runs: its words, its options, its folder, and the state read.

    `verbs` are the words that the rule names, `operands` the other ones.

    A reader notes `facts`, and with `is_exact` off that what it found may stand for several things.
    In `said` it notes the options, by `says_operand` the first operand, which what it gives tells wholly.
    It notes `is_version` where a registry takes that once, `is_vague` where it may be that of any effect of
    the same action. `passing` are parts of a target that a program in front may change (a version, the
    branch), each with what is left of it then; `passing_facts` are not known then. `written` are parts of a
    target that stand in one case, each as its words have it.
    """

    program: str
    verbs: Sequence[str]
    operands: Sequence[Word]
    options: Parsed
    folder: str | None
    env: Mapping[str, str]
    state: Mapping[str, str]
    facts: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    is_exact: bool = True
    is_named: bool = False
    passing: dict[str, str] = field(default_factory=dict)
    passing_facts: tuple[str, ...] = ()
    written: dict[str, str] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    says_operand: bool = False
    is_version: bool = False
    is_vague: bool = False

    def operand(self, number: int = 1) -> str | None:
        """Give an operand, without what of it is a secret; None where there is none."""
        return self.shown(self.operands[number - 1]) or None if len(self.operands) >= number else None

    def values(self, *names: str) -> list[str]:
        """Give the values of an option, without what of them is a secret."""
        if any(is_secret_name(name) for name in names):
            return []
        return [text for word in self.options.values(*names) if (text := self.shown(word))]

    def shown(self, word: Word) -> str:
        """Give a word without the secrets in it, and note that a word of the command was asked."""
        self.is_named = True
        told = told_words(self.program, (word,))
        return "".join(part for part in told if isinstance(part, str)).strip()

    def resolved(self, path: str) -> str:
        """Give a path in its one spelling; what is none, and what only a shell can fill in, as it stands."""
        self.names.append(path)
        if self.folder is None or "://" in path or any(mark in path for mark in "$`"):
            return path
        return os.path.normpath(os.path.join(self.folder, os.path.expanduser(path)))

    def inexact(self, path: str | None = None) -> list[str]:
        """Give a path, or the folder, for what is not told, and note that it may stand for several things."""
        self.is_exact = False
        if path is not None:
            return [path]
        return [] if self.folder is None else [self.folder]
