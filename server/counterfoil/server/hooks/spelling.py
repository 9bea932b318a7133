"""The one spelling of a command: however its options are written, and in whichever order, it is the same one.

Only what a rule declares is moved. An option that stands in no table stays where it is, with the word behind
it: what merely may be the same counts as another command.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.server.hooks.rules.rule import CommandRule, names_in
from counterfoil.server.hooks.shell.options import (
    ALWAYS_FLAGS,
    aliases_before,
    is_any_long,
    options_in,
    values_before,
)
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.shell.secret_words import told_words
from counterfoil.server.hooks.shell.words import Word

__all__ = ["Spelling", "spelled"]

_ONLY_SHOW = ALWAYS_FLAGS - {"-h", "--help", "--version"}
"""Flags that mean the same everywhere: how much is printed, and that nobody need be asked."""

_FILE_MARKS = ("@", "file://", "fileb://")

_BY_FILE = "@"
"""Marks a name that means the same as the others only where its value is not read from a file."""

_IN_ORDER: Mapping[str, str] = {"--var-file": "--var", "--field": "--raw-field"}
"""Options of which the later one counts for more, or adds to what the other began: their order tells."""


class _Option(Struct, frozen=True):
    """One option: its one name, the name that was written, its value, and whether that is a text."""

    name: str
    written: str
    value: Word | None
    is_text: bool


class Spelling(Struct, frozen=True, kw_only=True):
    """A program's words apart: those that stay as they stand, and the declared options among them.

    `called` are the words that stand for the program and its subcommand, `program` is what was run. `shown`
    are options that say nothing of what is done.
    """

    program: str
    called: tuple[str, ...]
    left: tuple[Word, ...]
    options: tuple[_Option, ...]
    folder: str | None
    shown: frozenset[str] = frozenset()

    @property
    def may_name_files(self) -> tuple[Word, ...]:
        """The words that may name a file that is sent: all but the values of options that take a text."""
        values = (
            one.value
            for one in self.options
            if one.value is not None and not (one.is_text and _says_no_file(one.value))
        )
        return (*self.left, *values)

    def told(self, *, said: Collection[str], operand: Word | None) -> dict[str, Any]:
        """Give the words as they are compared, secrets marked.

        `said` are options, and `operand` a word, that the target of the effect tells wholly.
        """
        left = [_plain_path(word, self.folder) for word in self.left if word is not operand]
        told: dict[str, Any] = {"words": [*self.called, *told_words(self.program, left)]}
        options = [
            [one.name, *self._value(one)]
            for one in self.options
            if one.written not in said and not self._only_shows(one)
        ]
        if options:
            told["options"] = sorted(options, key=lambda one: _group(one[0]))
        return told

    def _only_shows(self, option: _Option) -> bool:
        """Tell whether an option says nothing of what is done."""
        return option.written in self.shown or (option.value is None and option.written in _ONLY_SHOW)

    def _value(self, option: _Option) -> list[Any]:
        value = option.value
        if value is None:
            return []
        if not option.is_text:
            value = _plain_path(value, self.folder)
        # A secret is known by the option in front of it, or by the one that it is joined to; `-p` is a
        # password in one subcommand and a project in another.
        name = option.name if option.name.startswith("--") else option.written
        is_joined = name.startswith("--") and value.text.startswith("-")
        words = (Word(f"{name}={value.text}"),) if is_joined else (Word(name), value)
        return told_words(self.program, words)[1:]


def _says_no_file(value: Word) -> bool:
    return not value.reads and not value.text.startswith(_FILE_MARKS) and "=@" not in value.text


def spelled(invocation: Invocation, rule: CommandRule) -> Spelling:
    """Take a program's words apart as a rule and the program's own table declare them."""
    program = invocation.program
    before, flags = values_before(program), rule.flag_names
    behind = (before | rule.options_with_value) - flags
    own, general = _one_names((*rule.takes, *rule.flags)), aliases_before(program)
    texts = frozenset(own.get(name, name) for name in names_in(rule.texts))
    words = invocation.words[1:]
    left: list[Word] = []
    verbs: list[int] = []
    options: list[_Option] = []
    operands = at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.text == "--":
            rest = words[at:]
            # Without a word that looks like an option it says nothing.
            left += [word, *rest] if any(one.text.startswith("-") for one in rest) else rest
            break
        if not (word.text.startswith("-") and len(word.text) > 1):
            if not word.text.startswith("+"):
                verbs += [len(left)] if operands < len(rule.words) else []
                operands += 1
            left.append(word)
            continue
        is_behind = operands >= len(rule.words)
        takes = behind if is_behind else before
        found, waits = options_in(word, takes=takes, flags=flags)
        known = all(
            name in takes
            or name in flags
            or name in ALWAYS_FLAGS
            or is_any_long(name, takes=takes, flags=flags)
            for name, _ in found
        )
        if not known or not (word.is_static or found[-1][1] is not None):
            if "=" not in word.text and at < len(words):
                if words[at].text.startswith("-"):
                    # It may be the value of this one, or an option: from here on nothing is known.
                    left += [word, *words[at:]]
                    break
                left += [word, words[at]]
                operands += not is_behind
                at += 1
            else:
                left.append(word)
            continue
        if waits and at < len(words):
            found[-1] = (found[-1][0], words[at])
            at += 1
        names = {**general, **own} if is_behind else {**own, **general}
        options += [_option(name, value, names=names, texts=texts, takes=takes) for name, value in found]
    if not all(word.is_static or word.reads for word in left):
        # The shell may make options of them: nothing is moved past them.
        return Spelling(program=program, called=(program,), left=words, options=(), folder=None)
    called: tuple[str, ...] = (program,)
    if rule.known_as is not None and len(verbs) == len(rule.words):
        names_of_one = rule.known_as.split()
        called = tuple(text for text in names_of_one if not text.startswith("-"))
        left = [word for place, word in enumerate(left) if place not in verbs]
        given = {option.name for option in options}
        said = (_option(text, None, names=own, texts=texts, takes=()) for text in names_of_one[len(called) :])
        options += [option for option in said if option.name not in given]
    options += [
        _option(name, Word(value), names=own, texts=texts, takes=behind)
        for name, _, value in (one.partition("=") for one in rule.implied)
        if all(given.name != own.get(name, name) for given in options)
    ]
    folder = None if invocation.is_elsewhere else invocation.folder
    return Spelling(
        program=program,
        called=called,
        left=tuple(left),
        options=tuple(options),
        folder=folder,
        shown=frozenset(names_in(rule.shown)),
    )


def _option(
    written: str,
    value: Word | None,
    *,
    names: Mapping[str, str],
    texts: Collection[str],
    takes: Collection[str],
) -> _Option:
    name = names.get(written, written)
    if name.startswith(_BY_FILE):
        is_file = value is None or value.text.partition("=")[2].startswith("@") or not value.is_static
        name = max(names_in((name,)), key=len) if is_file else names[name]
    is_text = name in texts or written not in takes
    if is_text and value is not None and value.text == "true" and written not in takes:
        value = None  # `--force=true` of what takes no value is `--force`.
    return _Option(name, written, value, is_text)


def _one_names(specs: Sequence[str]) -> dict[str, str]:
    """Give the one name of each option that has several, the longest of them.

    Of names marked by `@` it is the mark with them, under which stands the name that they share with others.
    """
    found: dict[str, str] = {}
    for spec in specs:
        names = spec.split("|")
        plain = [name for name in names if not name.startswith(_BY_FILE)]
        if len(names) < 2:
            continue
        shared = max(plain, key=len)
        found |= dict.fromkeys(plain, shared)
        marked = [name.removeprefix(_BY_FILE) for name in names if name.startswith(_BY_FILE)]
        if marked:
            mark = f"{_BY_FILE}{'|'.join(marked)}"
            found |= {**dict.fromkeys(marked, mark), mark: shared}
    return found


def _group(name: str) -> str:
    """Give the name under which an option is sorted: those of one name keep their order among each other."""
    name = _IN_ORDER.get(name, name)
    return f"--{name[5:]}" if name.startswith("--no-") else name


def _plain_path(word: Word, folder: str | None) -> Word:
    """Give the name of a file that is there in its one spelling: `./a` and `b/../a` are `a`."""
    text = word.text
    if folder is None or not word.is_static or "/" not in text or "://" in text or "\0" in text:
        return word
    path = os.path.join(folder, text)
    return Word(os.path.relpath(path, folder)) if os.path.exists(path) else word
