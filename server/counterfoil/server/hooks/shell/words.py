"""The words of a command as the shell will pass them, as far as that can be told beforehand."""

import re
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["Word", "word_of"]

_IN_QUOTES = lazy_pattern(r"\\([$`\"\\\n])")
_BARE = lazy_pattern(r"\\(.)", re.DOTALL)
_ANSI = lazy_pattern(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}

_DYNAMIC = frozenset(
    ("simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion")
)


class Word(Struct, frozen=True):
    """One word. `is_static` off: only the shell can fill in a part of it; it stands as written."""

    text: str
    is_static: bool = True


def word_of(node: Any) -> Word:
    """Give the word that a node of the syntax tree stands for: quotes and escapes taken off."""
    source = _text(node)
    match node.type:
        case "raw_string":
            return Word(source[1:-1])
        case "ansi_c_string":
            return Word(_ANSI.sub(_ansi, source[2:-1]))
        case "string" | "translated_string":
            inner = source[source.index('"') + 1 : -1]
            if any(child.type in _DYNAMIC for child in node.children):
                return Word(inner, is_static=False)
            return Word(_IN_QUOTES.sub(lambda match: "" if match[1] == "\n" else match[1], inner))
        case "concatenation" | "command_name":
            parts = [word_of(child) for child in node.children]
            return Word("".join(part.text for part in parts), all(part.is_static for part in parts))
        case kind if kind in _DYNAMIC:
            return Word(source, is_static=False)
        case _:
            return Word(_BARE.sub(lambda match: "" if match[1] == "\n" else match[1], source))


def _ansi(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xu" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _ANSI_LETTERS.get(code, code)


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))
