"""Reads a command line of the shell: which programs it runs, where, with which words, and what its end tells.

The parsing is tree-sitter's. What only the running shell can know (variables, aliases, scripts in files)
is not guessed.
"""

import os
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.server.hooks.shell.grammar import shell_parser
from counterfoil.server.hooks.shell.words import Word, word_of
from counterfoil.server.hooks.shell.wrappers import program_of, unwrapped
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["Invocation", "Script", "read_script", "read_words"]

_DEEPEST = 12
"""Scripts in scripts in scripts: whoever nests deeper is not followed."""

_UNSURE = frozenset(
    (
        "if_statement",
        "while_statement",
        "for_statement",
        "c_style_for_statement",
        "case_statement",
        "do_group",
    )
)
"""What runs not at all, or many times: the end of the whole says nothing of what is in it."""

_WORDS = frozenset(
    (
        "word",
        "string",
        "raw_string",
        "ansi_c_string",
        "translated_string",
        "concatenation",
        "number",
        "simple_expansion",
        "expansion",
        "command_substitution",
        "process_substitution",
        "arithmetic_expansion",
        "brace_expression",
    )
)
_KNOWN = lazy_pattern(r"\$\{?(HOME|CLAUDE_PROJECT_DIR)\b\}?")
"""Variables that a client's shell and its hooks surely have alike."""

_INNER = frozenset(("command_substitution", "process_substitution"))
_NOTHING: frozenset[int] = frozenset()


class Invocation(Struct, frozen=True, kw_only=True):
    """One program that runs. `folder` is where, None where that cannot be told.

    `decides`: when the whole command ends with status 0, this has succeeded. `fed_by` are the programs whose
    output it reads, `stdin` the text of a here-document, `reads` the file that its input is taken from.
    """

    words: tuple[Word, ...]
    env: tuple[tuple[str, Word], ...] = ()
    folder: str | None = None
    decides: bool = False
    fed_by: tuple["Invocation", ...] = ()
    stdin: str | None = None
    reads: Word | None = None

    @property
    def program(self) -> str:
        """The program's name without its folder."""
        return program_of(self.words)


class Script(Struct, frozen=True, kw_only=True):
    """All programs of a command in their order. `is_whole` off: parts were not understood."""

    invocations: tuple[Invocation, ...]
    is_whole: bool = True


def read_script(text: str, *, folder: str | None) -> Script:
    """Read a command line that is run in `folder`."""
    reader = _Reader(folder)
    decided = reader.script(text, depth=0)
    found = tuple(
        replace(invocation, decides=index in decided) for index, invocation in enumerate(reader.found)
    )
    return Script(invocations=found, is_whole=reader.is_whole)


def read_words(words: tuple[str, ...], *, folder: str | None) -> Script:
    """Read a command that is given as words, and run without a shell."""
    reader = _Reader(folder)
    decided = reader.run(tuple(map(Word, words)), (), depth=0)
    found = tuple(
        replace(invocation, decides=index in decided) for index, invocation in enumerate(reader.found)
    )
    return Script(invocations=found, is_whole=reader.is_whole)


class _Reader(Struct):
    """Walks the tree; each method gives the programs (by number) that succeeded if its part ends with 0."""

    folder: str | None
    found: list[Invocation] = field(default_factory=list)
    is_whole: bool = True
    stops_at_errors: bool = False
    pipes_fail: bool = False

    def script(self, text: str, *, depth: int) -> frozenset[int]:
        if depth > _DEEPEST:
            self.is_whole = False
            return _NOTHING
        root = shell_parser().parse(text.encode("utf-8", "replace")).root_node
        self.is_whole = self.is_whole and not root.has_error
        return self.sequence(root, depth)

    def sequence(self, node: Any, depth: int) -> frozenset[int]:
        """The last one's status is the whole's; under `set -e` every one before counts as well."""
        decided = _NOTHING
        children = node.children
        for at, child in enumerate(children):
            if not child.is_named or child.type in ("comment", "heredoc_body"):
                continue
            told = self.walk(child, depth)
            if at + 1 < len(children) and children[at + 1].type == "&":
                told = _NOTHING
            decided = decided | told if self.stops_at_errors else told
        return decided

    def walk(self, node: Any, depth: int) -> frozenset[int]:
        if depth > 8 * _DEEPEST:
            self.is_whole = False
            return _NOTHING
        match node.type:
            case "command":
                return self.command(node, depth)
            case "list":
                return self.chain(node, depth)
            case "pipeline":
                return self.pipeline(node, depth)
            case "redirected_statement":
                return self.redirected(node, depth)
            case "subshell":
                return self.apart(node, depth)
            case "compound_statement":
                return self.sequence(node, depth + 1)
            case "negated_command":
                self.each(node, depth)
                return _NOTHING
            case "function_definition":
                self.apart(node, depth)
                return _NOTHING
            case kind if kind in _UNSURE:
                self.each(node, depth)
                return _NOTHING
            case _:
                self.inner(node, depth)
                return _NOTHING

    def each(self, node: Any, depth: int) -> None:
        for child in node.named_children:
            self.walk(child, depth + 1)

    def apart(self, node: Any, depth: int) -> frozenset[int]:
        """A subshell: where it goes is not where the rest goes."""
        kept = self.folder, self.stops_at_errors, self.pipes_fail
        decided = self.sequence(node, depth + 1)
        self.folder, self.stops_at_errors, self.pipes_fail = kept
        return decided

    def chain(self, node: Any, depth: int) -> frozenset[int]:
        parts = node.named_children
        if len(parts) != 2:
            self.each(node, depth)
            return _NOTHING
        is_and = any(child.type == "&&" for child in node.children)
        first = self.walk(parts[0], depth + 1)
        second = self.walk(parts[1], depth + 1)
        return first | second if is_and else first & second

    def pipeline(self, node: Any, depth: int) -> frozenset[int]:
        feeding: tuple[Invocation, ...] = ()
        told, all_told = _NOTHING, _NOTHING
        kept = self.folder
        for child in node.named_children:
            start = len(self.found)
            told = self.walk(child, depth + 1)
            all_told |= told
            for at in range(start, len(self.found)):
                self.found[at] = replace(self.found[at], fed_by=(*feeding, *self.found[at].fed_by))
            feeding = (*feeding, *self.found[start:])
            self.folder = kept
        return all_told if self.pipes_fail else told

    def redirected(self, node: Any, depth: int) -> frozenset[int]:
        body = node.child_by_field_name("body")
        start = len(self.found)
        decided = _NOTHING if body is None else self.walk(body, depth + 1)
        end = len(self.found)
        for child in node.named_children:
            if child == body:
                continue
            decided = self.redirect(child, range(start, end), decided, depth)
        return decided

    def redirect(self, node: Any, of: range, decided: frozenset[int], depth: int) -> frozenset[int]:
        """Note what the programs `of` read; what stands behind a here-document on its line goes on."""
        change: dict[str, Any] = {}
        if node.type == "heredoc_redirect":
            bodies = [child for child in node.named_children if child.type == "heredoc_body"]
            change["stdin"] = "".join(body.text.decode("utf-8", "replace") for body in bodies)
        elif node.type == "herestring_redirect":
            change["stdin"] = " ".join(word_of(child).text for child in node.named_children)
        elif node.type == "file_redirect" and any(child.type == "<" for child in node.children):
            target = node.child_by_field_name("destination")
            change["reads"] = None if target is None else word_of(target)
        for at in of:
            self.found[at] = replace(self.found[at], **change)
        for child in node.named_children:
            if child.type in _WORDS or child.type.startswith("heredoc_") or child.type == "file_descriptor":
                self.inner(child, depth)
            elif child.type == "pipeline":
                start = len(self.found)
                decided = self.walk(child, depth + 1)
                feeding = tuple(self.found[at] for at in of)
                for at in range(start, len(self.found)):
                    self.found[at] = replace(self.found[at], fed_by=(*feeding, *self.found[at].fed_by))
            else:
                told = self.walk(child, depth + 1)
                is_and = any(part.type == "&&" for part in node.children)
                decided = decided | told if is_and else _NOTHING
        return decided

    def command(self, node: Any, depth: int) -> frozenset[int]:
        env: list[tuple[str, Word]] = []
        words: list[Word] = []
        change: list[Any] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
                if name is not None:
                    env.append((name.text.decode(), Word("") if value is None else word_of(value)))
            elif child.type == "command_name" or child.type in _WORDS:
                words.append(word_of(child))
            elif child.type.endswith("_redirect"):
                change.append(child)
        self.inner(node, depth)
        start = len(self.found)
        decided = self.run(tuple(words), tuple(env), depth=depth)
        for redirect in change:
            decided = self.redirect(redirect, range(start, len(self.found)), decided, depth)
        return decided

    def run(
        self, words: tuple[Word, ...], env: tuple[tuple[str, Word], ...], *, depth: int
    ) -> frozenset[int]:
        """Note a program, or what a wrapper of it runs."""
        folder = self.folder
        for _ in range(_DEEPEST):
            inner = unwrapped(words)
            if inner is None:
                break
            env = (*env, *inner.env)
            if inner.folder is not None:
                folder = _within(folder, inner.folder)
            if inner.script is not None:
                kept, self.folder = self.folder, folder
                start = len(self.found)
                decided = self.script(inner.script, depth=depth + 1)
                self.folder = kept
                for at in range(start, len(self.found)):
                    self.found[at] = replace(self.found[at], env=(*env, *self.found[at].env))
                return decided
            words = inner.words
        if not words:
            return _NOTHING
        self._heed(words)
        self.found.append(Invocation(words=words, env=env, folder=folder))
        return frozenset((len(self.found) - 1,))

    def _heed(self, words: tuple[Word, ...]) -> None:
        """Follow the few builtins that change what the words after them mean."""
        program = program_of(words)
        if program in ("cd", "pushd"):
            target = next((word for word in words[1:] if not word.text.startswith("-")), None)
            self.folder = None if target is None else _within(self.folder, target)
        elif program == "popd":
            self.folder = None
        elif program == "set":
            options = [word.text for word in words[1:]]
            clusters = [text for text in options if text.startswith("-") and not text.startswith("--")]
            self.stops_at_errors |= any("e" in text for text in clusters) or "errexit" in options
            self.pipes_fail |= "pipefail" in options

    def inner(self, node: Any, depth: int) -> None:
        """Walk the commands inside words: their ends are lost in the word."""
        for child in _substitutions(node):
            self.apart(child, depth + 1)


def _substitutions(node: Any) -> Iterator[Any]:
    waiting = list(node.children)
    while waiting:
        child = waiting.pop()
        if child.type in _INNER:
            yield child
        else:
            waiting.extend(child.children)


def _within(folder: str | None, word: Word) -> str | None:
    """Give the folder that a word names, seen from another one."""
    text = (
        word.text if word.is_static else _KNOWN.sub(lambda name: os.environ.get(name[1], name[0]), word.text)
    )
    if not word.is_static and any(mark in text for mark in "$`("):
        return None
    path = os.path.expanduser(text)
    if os.path.isabs(path):
        return os.path.normpath(path)
    return None if folder is None else os.path.normpath(os.path.join(folder, path))
