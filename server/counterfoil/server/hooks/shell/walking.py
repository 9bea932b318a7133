"""Reads a command line of the shell: which programs it runs, where, with which words, and what its end tells.

The parsing is tree-sitter's. What only the running shell can know (variables, aliases, scripts in files)
is not guessed.
"""

import os
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.server.hooks.shell.feeding import fed_script
from counterfoil.server.hooks.shell.grammar import shell_parser
from counterfoil.server.hooks.shell.script import Invocation, Script
from counterfoil.server.hooks.shell.tree import (
    READING,
    assigned_in,
    errors_in,
    last_command,
    names_read,
    substitutions,
)
from counterfoil.server.hooks.shell.variables import Variables
from counterfoil.server.hooks.shell.words import Word, heredoc_text, word_of, words_of
from counterfoil.server.hooks.shell.wrappers import Inner, program_of, unwrapped

__all__ = ["read_script", "read_words", "within"]

_DEEPEST = 12
"""Scripts in scripts in scripts: whoever nests deeper is not followed."""

_UNSURE = frozenset(
    (
        "if_statement",
        "while_statement",
        "for_statement",
        "c_style_for_statement",
        "case_statement",
        "case_item",
        "elif_clause",
        "else_clause",
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
_GROUPS = frozenset(("subshell", "compound_statement"))
_KEYWORDS = frozenset(("{", "!", "then", "do", "else"))
"""What stands in front of a program where the grammar did not understand the whole."""

_BRANCHES = frozenset(("case_item", "elif_clause", "else_clause"))
_NOTHING: frozenset[int] = frozenset()


def read_script(text: str, *, folder: str | None) -> Script:
    """Read a command line that is run in `folder`."""
    reader = _Reader(folder, Variables.of_this_process())
    return _finished(reader, reader.script(text, depth=0))


def read_words(words: tuple[str, ...], *, folder: str | None) -> Script:
    """Read a command that is given as words, and run without a shell."""
    reader = _Reader(folder, Variables.of_this_process())
    return _finished(reader, reader.run(tuple(map(Word, words)), (), depth=0))


def _finished(reader: "_Reader", decided: frozenset[int], *, depth: int = 0) -> Script:
    """Give what was found, with what is in the scripts that shells read from their input."""
    found: list[Invocation] = []
    for index, invocation in enumerate(reader.found):
        decides, text = index in decided, None
        if invocation.is_fed and depth <= _DEEPEST:
            text = fed_script(invocation)
        if text is None:
            # Whether there is an effect in what cannot be read is told by the words around it.
            found.append(replace(invocation, decides=decides))
            continue
        is_elsewhere = reader.is_elsewhere or invocation.is_elsewhere
        inner = _Reader(
            invocation.folder,
            reader.variables.handed_on(invocation.env, is_elsewhere=is_elsewhere),
            is_elsewhere=is_elsewhere,
        )
        script = _finished(inner, inner.script(text, depth=depth + 1), depth=depth + 1)
        reader.is_whole = reader.is_whole and script.is_whole
        reader.unread += script.unread
        found += [
            replace(part, env=(*invocation.env, *part.env), decides=decides and part.decides)
            for part in script.invocations
        ]
    return Script(
        invocations=tuple(found),
        is_whole=reader.is_whole,
        assigned=tuple(reader.variables.assigned),
        unread=tuple(reader.unread),
    )


class _Reader(Struct):
    """Walks the tree; each method gives the programs (by number) that succeeded if its part ends with 0.

    `behind` are the words of a program among its redirections, until it is walked, and `begins` is where in
    `found` it then stands; both by the number of its part of the tree.
    """

    folder: str | None
    variables: Variables
    found: list[Invocation] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    behind: dict[int, list[Word]] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    is_elsewhere: bool = False
    is_whole: bool = True
    stops_at_errors: bool = False
    pipes_fail: bool = False

    def script(self, text: str, *, depth: int) -> frozenset[int]:
        self.variables.room.scripts -= 1
        if depth > _DEEPEST or self.variables.room.scripts < 0:
            self.is_whole = False
            return _NOTHING
        root = shell_parser().parse(text.encode("utf-8", "replace")).root_node
        if root.has_error:
            self.is_whole = False
            self.unread += errors_in(root)
        return self.sequence(root, depth)

    def sequence(self, node: Any, depth: int) -> frozenset[int]:
        """The last one's status is the whole's; under `set -e` every one before counts as well."""
        decided = _NOTHING
        children = node.children
        for at, child in enumerate(children):
            if not child.is_named or child.type in ("comment", "heredoc_body"):
                continue
            told = self.walk(child, depth)
            if child.type == "list":
                # What stands behind the first may not have run.
                self.variables.forget(assigned_in(child))
            if at + 1 < len(children) and children[at + 1].type == "&":
                told = _NOTHING
                self.variables.forget(assigned_in(child))
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
                if node.children and node.children[0].type == "((":
                    self.variables.forget(assigned_in(node))
                return self.sequence(node, depth + 1)
            case "variable_assignment":
                self.inner(node, depth)
                self.variables.assign(node, folder=self.folder)
                return _NOTHING
            case "variable_assignments" | "declaration_command":
                self.inner(node, depth)
                self.variables.declare(node, folder=self.folder)
                return _NOTHING
            case "unset_command":
                self.variables.forget(assigned_in(node))
                return _NOTHING
            case "negated_command":
                self.each(node, depth)
                return _NOTHING
            case "function_definition":
                name = node.child_by_field_name("name")
                self.functions.add("" if name is None else str(name.text.decode("utf-8", "replace")))
                kept = self.variables
                self.variables = kept.without_values()
                self.apart(node, depth)
                self.variables = kept
                self.variables.forget(assigned_in(node))
                return _NOTHING
            case "ERROR":
                self.each(node, depth)
                return _NOTHING
            case kind if kind in _UNSURE:
                names = assigned_in(node)
                if kind == "for_statement":
                    given = node.children_by_field_name("value")
                    self.variables.assigned += [
                        word.script for child in given for word in words_of(child, self.variables.known)
                    ]
                for child in node.named_children:
                    # Each branch may be the only one that runs.
                    self.variables.forget(
                        names if child.type in _BRANCHES or child == node.named_children[0] else ()
                    )
                    self.walk(child, depth + 1)
                self.variables.forget(names)
                return _NOTHING
            case _:
                self.inner(node, depth)
                return _NOTHING

    def each(self, node: Any, depth: int) -> None:
        for child in node.named_children:
            self.walk(child, depth + 1)

    def apart(self, node: Any, depth: int) -> frozenset[int]:
        """A subshell: where it goes is not where the rest goes."""
        kept = self.folder, self.stops_at_errors, self.pipes_fail, self.is_elsewhere
        variables = self.variables
        self.variables = variables.copied()
        decided = self.sequence(node, depth + 1)
        self.folder, self.stops_at_errors, self.pipes_fail, self.is_elsewhere = kept
        self.variables = variables
        return decided

    def chain(self, node: Any, depth: int) -> frozenset[int]:
        parts = node.named_children
        if len(parts) != 2:
            self.each(node, depth)
            return _NOTHING
        is_and = any(child.type == "&&" for child in node.children)
        if not is_and:
            self.variables.forget(assigned_in(node))
        first = self.walk(parts[0], depth + 1)
        if not is_and:
            self.variables.forget(assigned_in(node))
        second = self.walk(parts[1], depth + 1)
        return first | second if is_and else first & second

    def pipeline(self, node: Any, depth: int) -> frozenset[int]:
        feeding: tuple[Invocation, ...] = ()
        told, all_told = _NOTHING, _NOTHING
        kept, variables = self.folder, self.variables
        for child in node.named_children:
            start = len(self.found)
            self.variables = variables.copied()
            told = self.walk(child, depth + 1)
            all_told |= told
            self.variables = variables
            for at in range(start, len(self.found)):
                self.found[at] = replace(self.found[at], fed_by=(*feeding, *self.found[at].fed_by))
            feeding = (*feeding, *self.found[start:])
            self.folder = kept
        return all_told if self.pipes_fail else told

    def redirected(self, node: Any, depth: int) -> frozenset[int]:
        body = node.child_by_field_name("body")
        last = None if body is None else last_command(body)
        if last is not None:
            self.behind[last.id] = self.among_redirects(node)
        start = len(self.found)
        decided = _NOTHING if body is None else self.walk(body, depth + 1)
        end = len(self.found)
        if last is not None:
            # Of a list, it is the last program's alone.
            start = self.begins.pop(last.id, start)
        for child in node.named_children:
            if child == body:
                continue
            decided = self.redirect(child, range(start, end), decided, depth)
        return decided

    def among_redirects(self, node: Any) -> list[Word]:
        """Give the words of a program that stand behind its first redirection: `git push 2>&1 origin`.

        The grammar has them as parts of the redirections, and a `-` in front of one as part of nothing.
        """
        found: list[Word] = []
        ends_at: int = node.start_byte
        for child in node.children:
            between = node.text[ends_at - node.start_byte : child.start_byte - node.start_byte]
            if between.strip() == b"-" or (child.children and child.children[0].text.startswith(b"-<<")):
                found.append(Word("-"))
            ends_at = child.end_byte
            given = child.named_children
            if child.type == "file_redirect":
                given = child.children_by_field_name("destination")[1:]
            elif child.type != "heredoc_redirect":
                continue
            for part in given:
                inside = part.named_children if part.type == "ERROR" else (part,)
                found += [
                    word
                    for one in inside
                    if one.type in _WORDS
                    for word in words_of(one, self.variables.known)
                ]
        return found

    def redirect(self, node: Any, of: range, decided: frozenset[int], depth: int) -> frozenset[int]:
        """Note what the programs `of` read; what stands behind a here-document on its line goes on."""
        change: dict[str, Any] = {}
        if node.type == "heredoc_redirect":
            change["stdin"] = heredoc_text(node, self.variables.known)
        elif node.type == "herestring_redirect":
            texts = [word_of(child, self.variables.known, is_quoted=True) for child in node.named_children]
            change["stdin"] = texts[-1] if texts else Word("")
        elif node.type == "file_redirect" and any(child.type == "<" for child in node.children):
            target = node.child_by_field_name("destination")
            change["reads"] = None if target is None else word_of(target, self.variables.known)
        elif node.type == "file_redirect":
            target = node.child_by_field_name("destination")
            written = None if target is None else word_of(target, self.variables.known, is_quoted=True)
            if written is not None and not (written.text.isdigit() or written.text.startswith("/dev/")):
                change["appends"] = any(child.type in (">>", "&>>") for child in node.children)
                for at in of:
                    self.found[at] = replace(self.found[at], writes=(*self.found[at].writes, written))
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
                    told = Word("") if value is None else word_of(value, self.variables.known, is_quoted=True)
                    env.append((name.text.decode(), told))
                    self.variables.assigned.append(told.script)
            elif child.type == "command_name" or child.type in _WORDS:
                words += words_of(child, self.variables.known)
            elif child.type.endswith("_redirect"):
                change.append(child)
            elif child.type in _GROUPS:
                # What `time` measures may be a group.
                self.apart(child, depth + 1)
        is_redirected = node.id in self.behind
        words += self.behind.pop(node.id, ())
        self.inner(node, depth)
        start = len(self.found)
        if is_redirected:
            self.begins[node.id] = start
        decided = self.run(tuple(words), tuple(env), depth=depth)
        for redirect in change:
            decided = self.redirect(redirect, range(start, len(self.found)), decided, depth)
        return decided

    def run(
        self, words: tuple[Word, ...], env: tuple[tuple[str, Word], ...], *, depth: int
    ) -> frozenset[int]:
        """Note a program, or what a wrapper of it runs."""
        folder, is_elsewhere = self.folder, self.is_elsewhere
        is_sure = True
        env = (*self.variables.exported.items(), *env)
        for _ in range(_DEEPEST):
            while words and words[0].text in _KEYWORDS:
                words = words[1:]
            inner = unwrapped(words)
            if inner is None:
                break
            env = (*env, *inner.env)
            is_sure = is_sure and not inner.is_unsure
            if inner.is_elsewhere:
                folder, is_elsewhere = None, True
            elif inner.folder is not None:
                folder = None if is_elsewhere else within(folder, inner.folder)
            if inner.is_fed:
                words = words or (Word("sh"),)
                self.found.append(
                    Invocation(words=words, env=env, folder=folder, is_fed=True, is_elsewhere=is_elsewhere)
                )
                return frozenset((len(self.found) - 1,)) if is_sure else _NOTHING
            if inner.script is not None:
                decided = self.enclosed(inner, env, folder, depth=depth, is_elsewhere=is_elsewhere)
                return decided if is_sure else _NOTHING
            kept, self.folder = self.folder, folder
            for command in inner.others:
                self.run(command, (), depth=depth + 1)
            self.folder = kept
            words = inner.words
        if not words:
            return _NOTHING
        self._heed(words)
        self.found.append(Invocation(words=words, env=env, folder=folder, is_elsewhere=is_elsewhere))
        return frozenset((len(self.found) - 1,)) if is_sure else _NOTHING

    def enclosed(
        self,
        inner: Inner,
        env: tuple[tuple[str, Word], ...],
        folder: str | None,
        *,
        depth: int,
        is_elsewhere: bool,
    ) -> frozenset[int]:
        """Walk a script that stands in words: in a shell of its own, where it is one."""
        if not inner.is_apart:
            return self.script(inner.script or "", depth=depth + 1)
        kept = self.folder, self.variables
        how = self.stops_at_errors, self.pipes_fail, self.is_elsewhere
        self.folder, self.is_elsewhere = folder, is_elsewhere
        self.stops_at_errors = self.pipes_fail = False
        # Such a shell knows what is exported, and no other variable.
        self.variables = self.variables.handed_on(env, is_elsewhere=is_elsewhere)
        start = len(self.found)
        decided = self.script(inner.script or "", depth=depth + 1)
        self.folder, self.variables = kept
        self.stops_at_errors, self.pipes_fail, self.is_elsewhere = how
        for at in range(start, len(self.found)):
            self.found[at] = replace(self.found[at], env=(*env, *self.found[at].env))
        return decided

    def _heed(self, words: tuple[Word, ...]) -> None:
        """Follow the few builtins that change what the words after them mean."""
        program = program_of(words)
        given = words.index(Word("--")) if program == "set" and Word("--") in words else 0
        if program in self.functions or given:
            # They stand in "$1" and "$@" from here on.
            self.variables.assigned += [word.script for word in words[given + 1 :]]
        if program in READING:
            self.variables.forget(names_read([word.text for word in words]))
        elif program in ("source", "."):
            self.variables.forget_all()
        elif program in ("cd", "pushd"):
            target = next((word for word in words[1:] if not word.text.startswith("-")), None)
            is_here = target is not None and not self.is_elsewhere
            self.folder = within(self.folder, target) if target is not None and is_here else None
        elif program == "popd":
            self.folder = None
        elif program == "set":
            options = [word.text for word in words[1:]]
            clusters = [text for text in options if text.startswith("-") and not text.startswith("--")]
            self.stops_at_errors |= any("e" in text for text in clusters) or "errexit" in options
            self.pipes_fail |= "pipefail" in options

    def inner(self, node: Any, depth: int) -> None:
        """Walk the commands inside words: their ends are lost in the word."""
        for child in substitutions(node):
            self.apart(child, depth + 1)


def within(folder: str | None, word: Word) -> str | None:
    """Give the folder that a word names, seen from another one."""
    if not word.is_static:
        return None
    path = os.path.expanduser(word.text)
    if os.path.isabs(path):
        return os.path.normpath(path)
    return None if folder is None else os.path.normpath(os.path.join(folder, path))
