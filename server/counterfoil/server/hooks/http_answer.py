"""Reads the status of an answer out of what curl was told to print of it."""

import re
from collections.abc import Sequence

from counterfoil.server.hooks.shell.options import has_option, option_values
from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["answered_status"]

_HEAD = lazy_pattern(r"HTTP/[\d.]+ (\d{3})[^\n]*\n(?:[^\r\n]+\r?\n)*\r?\n")


def answered_status(words: Sequence[Word], printed: str) -> int | None:
    """Give the status that curl printed as it was told to: behind the answer, or in its head before it."""
    forms = [*option_values(words, "-w"), *option_values(words, "--write-out")]
    if forms:
        return _written_status(forms[-1], printed)
    if not (has_option(words, "-i") or has_option(words, "--include")):
        return None
    status, at = None, 0
    while (match := _HEAD.match(printed, at)) is not None:
        status, at = int(match[1]), match.end()
        if status >= 200:
            break
    return status


def _written_status(form: Word, printed: str) -> int | None:
    text = form.text.replace("\\n", "\n").replace("%{response_code}", "%{http_code}").rstrip()
    head, mark, tail = text.rpartition("%{http_code}")
    if not form.is_static or not mark or "%" in tail or re.search(r"%\{(?:stderr|output|onerror)", head):
        return None
    before = "" if "%" in head else re.escape(head)
    match = re.search(rf"{before}(\d{{3}}){re.escape(tail)}\s*\Z", printed[-4_000:])
    return int(match[1]) if match else None
