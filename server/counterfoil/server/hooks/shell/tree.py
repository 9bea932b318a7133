"""Finds what is asked of the tree of a script, without walking it as the shell would."""

from collections.abc import Iterator, Sequence
from typing import Any

from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["READING", "assigned_in", "errors_in", "last_command", "names_read", "substitutions"]

READING = frozenset(("read", "mapfile", "readarray", "getopts", "let", "printf"))
"""Builtins that give variables values which nobody knows beforehand."""

_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMING = ("variable_assignment", "declaration_command", "unset_command", "for_statement")
_INNER = frozenset(("command_substitution", "process_substitution"))


def last_command(node: Any) -> Any:
    """Give the program that a redirection behind a list or a pipe is of; None where it is of a group."""
    while node.type in ("list", "pipeline") and node.named_children:
        node = node.named_children[-1]
    return node if node.type == "command" else None


def substitutions(node: Any) -> Iterator[Any]:
    """Give the commands that stand inside words."""
    waiting = list(node.children)
    while waiting:
        child = waiting.pop()
        if child.type in _INNER:
            yield child
        else:
            waiting.extend(child.children)


def errors_in(root: Any) -> list[str]:
    """Give the texts that the grammar has no place for; the whole where something is missing somewhere."""
    found: list[str] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "ERROR":
            found.append(node.text.decode("utf-8", "replace"))
        else:
            waiting.extend(child for child in node.children if child.has_error)
    return found or [root.text.decode("utf-8", "replace")]


def assigned_in(node: Any) -> frozenset[str]:
    """Give the names of the variables that something in a part of a script may give another value."""
    names: set[str] = set()
    waiting = [node]
    while waiting:
        child = waiting.pop()
        if child.type == "command":
            names.update(names_read(child.text.decode("utf-8", "replace").split()))
        elif child.type in _NAMING or (child.type == "compound_statement" and child.text.startswith(b"((")):
            waiting_names = [*child.named_children]
            while waiting_names:
                part = waiting_names.pop()
                if part.type == "variable_name":
                    names.add(part.text.decode("utf-8", "replace"))
                elif part.type in ("subscript", *_NAMING) or child.type == "compound_statement":
                    waiting_names.extend(part.named_children)
        waiting.extend(child.named_children)
    return frozenset(names)


def names_read(words: Sequence[str]) -> list[str]:
    """Give the variables that a builtin fills with what nobody knows beforehand."""
    if not words or words[0] not in READING or (words[0] == "printf" and "-v" not in words):
        return []
    return [name for word in words[1:] for name in _NAME.findall(word)]
