"""What a shell reads as its script, where the command itself says what that is."""

from collections.abc import Sequence

from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.shell.words import Word

__all__ = ["fed_script", "printed_text"]

_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "r": "\r"}


def fed_script(shell: Invocation) -> str | None:
    """Give the script that a shell reads from its input; None where only the running programs can tell.

    What only the running shell can fill in stands in it as an expansion.
    """
    if shell.stdin is not None:
        return shell.stdin.script
    if shell.reads is not None or not shell.fed_by:
        return None
    printed = [
        _printed(part) for part in shell.fed_by if not (part.fed_by and part.program in ("cat", "tee"))
    ]
    if any(text is None for text in printed):
        return None
    return "".join(text or "" for text in printed)


def printed_text(part: Invocation) -> str | None:
    """Give the very text that a program prints; None where it is not written in the command."""
    words = (*part.words, *(() if part.stdin is None else (part.stdin,)))
    if not all(word.is_static for word in words) or part.program not in ("echo", "printf", "cat"):
        return None
    return _printed(part)


def _printed(part: Invocation) -> str | None:
    """Give what a program prints; None where that is not written in the command."""
    if part.fed_by or part.reads is not None:
        return None
    words = part.words[1:]
    if part.program == "cat":
        plain = [word for word in words if word.text != "-"]
        return part.stdin.script if part.stdin is not None and not plain else None
    if part.program == "echo":
        flags = 0
        while flags < len(words) and words[flags].text in ("-n", "-e", "-E", "-ne", "-en"):
            flags += 1
        text = " ".join(word.script for word in words[flags:])
        return f"{_unescaped(text) if any('e' in word.text for word in words[:flags]) else text}\n"
    if part.program == "printf":
        return _formatted(words)
    return "" if part.program in (":", "true", "cd", "set") else None


def _formatted(words: Sequence[Word]) -> str | None:
    if not words or words[0].text.startswith("-"):
        return None
    pieces = _unescaped(words[0].script).replace("%%", "\0").split("%s")
    if any("%" in piece for piece in pieces):
        return None
    rest, text = [word.script for word in words[1:]], ""
    while True:
        for at, piece in enumerate(pieces):
            text += piece
            if at + 1 < len(pieces):
                text += rest.pop(0) if rest else ""
        if not rest or len(pieces) == 1:
            return text.replace("\0", "%")


def _unescaped(text: str) -> str:
    import re

    return re.sub(r"\\([ntr\\])", lambda match: _ESCAPES[match[1]], text)
