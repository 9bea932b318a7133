"""The words of a command as the shell will pass them, as far as that can be told beforehand."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["Known", "Room", "Word", "heredoc_text", "word_of", "words_of"]

_IN_QUOTES = lazy_pattern(r"\\([$`\"\\\n])")
_BARE = lazy_pattern(r"\\(.)", re.DOTALL)
_ANSI = lazy_pattern(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|[0-7]{1,3}|.)", re.DOTALL)
_WHOLE_ARRAY = lazy_pattern(r'("?)\$\{(\w+)\[([@*])\]\}("?)')
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
    """One word. `is_static` off: only the shell can fill in a part of it; it stands as written.

    `reads` are files whose content is all that is filled in: where there are some, nothing else is unknown.
    `items` are the words of the array of which this is the first, where it is the value of one.
    """

    text: str
    is_static: bool = True
    reads: tuple[str, ...] = ()
    items: "tuple[Word, ...] | None" = None

    @property
    def is_told(self) -> bool:
        """Tell whether the word says, with the content of files, all that it will be."""
        return self.is_static or bool(self.reads)

    @property
    def script(self) -> str:
        """The word as a script: what only the shell can fill in stands in it as an expansion."""
        return self.text if self.is_static else _unescaped(self.text)


class Room(Struct):
    """How much of one command may still be filled in, and how many scripts may still be read in it.

    A variable may stand in itself, or a thousand times: whoever writes so is not followed for ever.
    """

    characters: int = 400_000
    scripts: int = 300


class Known(Struct, frozen=True):
    """The variables whose values are known where a word stands."""

    values: Mapping[str, Word]
    room: Room

    def get(self, name: str) -> Word | None:
        """Give the value of a variable; None where it is not known, or where there is no room left."""
        word = self.values.get(name)
        if word is not None:
            self.room.characters -= len(word.text)
        return word if self.room.characters > 0 else None

    def items(self, name: str) -> "tuple[Word, ...] | None":
        """Give the words of an array; None where they are not known, or where there is no room left."""
        word = self.values.get(name)
        if word is None or word.items is None:
            return None
        self.room.characters -= sum(len(item.text) for item in word.items)
        return word.items if self.room.characters > 0 else None


_NOTHING = Known({}, Room())


def word_of(node: Any, known: Known = _NOTHING, *, is_quoted: bool = False) -> Word:
    """Give the word that a node of the syntax tree stands for: quotes and escapes taken off.

    `is_quoted`: nothing is split at it, as in quotes.
    """
    source = _text(node)
    match node.type:
        case "raw_string":
            return Word(source[1:-1])
        case "ansi_c_string":
            return Word(_ANSI.sub(_ansi, source[2:-1]))
        case "string" | "translated_string":
            return _text_of(node, known, start=source.index('"') + 1, end=-1)
        case "concatenation" | "command_name":
            parts = [
                word_of(child, known, is_quoted=is_quoted)
                for child in node.children
                if not _is_translating(child)
            ]
            return _joined(parts)
        case kind if kind in _DYNAMIC:
            found = _filled(node, known)
            if found is not None and found.is_static and not is_quoted and _is_split(found.text):
                return Word(source, is_static=False)
            return found or Word(source, is_static=False)
        case _:
            return Word(_BARE.sub(lambda match: "" if match[1] == "\n" else match[1], source))


def words_of(node: Any, known: Known) -> list[Word]:
    """Give the words that a node stands for: a known value is split at white space where no quotes are."""
    if node.type == "command_name" and len(node.children) == 1:
        return words_of(node.children[0], known)
    if node.type in ("string", "expansion"):
        items = _items(_text(node), known)
        if items is not None:
            return items
    if node.type in ("simple_expansion", "expansion"):
        found = _filled(node, known)
        if found is not None and found.is_static and not any(mark in found.text for mark in "*?["):
            return [Word(part) for part in found.text.split()]
    return [word_of(node, known)]


def _items(text: str, known: Known) -> list[Word] | None:
    """Give the words of a whole array, `"${A[@]}"`; None where a word is none, or is not known."""
    match = _WHOLE_ARRAY.fullmatch(text)
    items = None if match is None or match[1] != match[4] else known.items(match[2])
    if match is None or items is None:
        return None
    if match[1] and match[3] == "*":
        return [Word(" ".join(item.text for item in items))]
    if match[1]:
        return list(items)
    if any(mark in item.text for item in items for mark in "*?["):
        return None
    return [Word(part) for item in items for part in item.text.split()]


def _text_of(
    node: Any, known: Known, *, start: int = 0, end: int | None = None, escapes: re.Pattern[str] = _IN_QUOTES
) -> Word:
    """Give the text in which a node holds expansions: a string, or the body of a here-document."""
    raw = node.text
    limit = len(raw) + end if end else len(raw)
    parts: list[Word] = []
    at = start
    for child in node.children:
        if child.type in _DYNAMIC:
            begin = child.start_byte - node.start_byte
            if begin > at:
                parts.append(Word(_unescaped(raw[at:begin].decode("utf-8", "replace"), escapes)))
            parts.append(word_of(child, known, is_quoted=True))
            at = child.end_byte - node.start_byte
    parts.append(Word(_unescaped(raw[at:limit].decode("utf-8", "replace"), escapes)))
    if all(part.is_static for part in parts):
        return _joined(parts)
    # As written, so that what is escaped in it stays apart from what is not; known values stand in it.
    written = "".join(_escaped(part.text) if part.is_static else part.text for part in parts)
    return Word(written, is_static=False, reads=_joined(parts).reads)


def _is_translating(node: Any) -> bool:
    """Tell whether a node is the `$` of `$"…"` inside a word, of which nothing is left."""
    behind = node.next_sibling
    return node.type == "$" and behind is not None and behind.type == "string"


def _is_split(text: str) -> bool:
    """Tell whether a value makes several words, or other ones, where no quotes stand around it."""
    return any(character.isspace() or character in "*?[" for character in text)


def _joined(parts: Sequence[Word]) -> Word:
    is_told = all(part.is_told for part in parts)
    return Word(
        "".join(part.text for part in parts),
        all(part.is_static for part in parts),
        tuple(name for part in parts for name in part.reads) if is_told else (),
    )


def _filled(node: Any, known: Known) -> Word | None:
    """Give what the shell will fill in, where that can be told beforehand."""
    if node.type == "command_substitution":
        return _printed(node, known)
    if node.type == "arithmetic_expansion":
        # What counts nothing but numbers is the same each time.
        text = _text(node)[len("$((") :]
        is_counted = not any(character.isalpha() or character in "_$`" for character in text)
        return Word(_text(node)) if is_counted else None
    if node.type not in ("simple_expansion", "expansion"):
        return None
    names = [child for child in node.named_children if child.type == "variable_name"]
    if len(names) != 1 or _text(node) not in (f"${_text(names[0])}", f"${{{_text(names[0])}}}"):
        return None
    found = known.get(_text(names[0]))
    return found if found is None or found.items is None else Word(found.text)


def _printed(node: Any, known: Known) -> Word | None:
    """Give what `$(cat FILE)`, `$(< FILE)` or `$(cat <<E …)` prints."""
    (child, *others) = node.named_children or (None,)
    if child is None or others or _has_inner(node):
        return None
    if child.type == "file_redirect":
        target = child.child_by_field_name("destination")
        is_read = target is not None and any(part.type == "<" for part in child.children)
        return _content(node, [word_of(target, known)]) if is_read else None
    if child.type == "command":
        words = [word for part in child.named_children for word in words_of(part, known)]
        if any(
            "_redirect" in part.type or part.type == "variable_assignment" for part in child.named_children
        ):
            return None
        return _content(node, words[1:]) if words[:1] == [Word("cat")] else None
    body = child.child_by_field_name("body")
    redirects = [part for part in child.named_children if part != body]
    if child.type != "redirected_statement" or body is None or _text(body) != "cat" or len(redirects) != 1:
        return None
    if redirects[0].type != "heredoc_redirect":
        return None
    told = ("heredoc_start", "heredoc_body", "heredoc_end")
    if any(part.type not in told for part in redirects[0].named_children):
        return None
    found = heredoc_text(redirects[0], known)
    return Word(found.text.rstrip("\n"), found.is_static, found.reads)


def _has_inner(node: Any) -> bool:
    """Tell whether a substitution holds another one."""
    waiting = [*node.children]
    while waiting:
        child = waiting.pop()
        if child.type in ("command_substitution", "process_substitution"):
            return True
        waiting.extend(child.children)
    return False


def _content(node: Any, files: Sequence[Word]) -> Word | None:
    if not files or not all(word.is_static and not word.text.startswith("-") for word in files):
        return None
    return Word(_text(node), is_static=False, reads=tuple(word.text for word in files))


def heredoc_text(node: Any, known: Known) -> Word:
    """Give the text of a here-document: as it stands where its delimiter is quoted."""
    is_raw = any(
        child.type == "heredoc_start" and any(mark in _text(child) for mark in "'\"\\")
        for child in node.children
    )
    bodies = [child for child in node.named_children if child.type == "heredoc_body"]
    parts = [
        Word(_text(body)) if is_raw else _text_of(body, known, escapes=re.compile(r"\\([$`\\\n])"))
        for body in bodies
    ]
    if any(child.type == "<<-" for child in node.children):
        parts = [Word(re.sub(r"(?m)^\t+", "", part.text), part.is_static, part.reads) for part in parts]
    return _joined(parts)


def _unescaped(text: str, escapes: re.Pattern[str] = _IN_QUOTES) -> str:
    return escapes.sub(lambda match: "" if match[1] == "\n" else match[1], text)


def _escaped(text: str) -> str:
    return re.sub(r"([$`\\])", r"\\\1", text)


def _ansi(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xu" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _ANSI_LETTERS.get(code, code)


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))
