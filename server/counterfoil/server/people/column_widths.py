"""Decides how wide the columns of a table are: what people copy is broken over lines last of all."""

import re
from collections.abc import Collection, Sequence
from itertools import chain

from rich.cells import cell_len

__all__ = ["column_widths"]

_LONGEST_WORD, _BROKEN_FOR_A_NAME, _SHORTEST_WORD = 18, 12, 5
"""A word is kept whole up to the first; up to the second for the sake of a name; at last up to the third."""

_COPIED = re.compile(r"\b(?:[a-z]+_[a-z2-7]{20}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
"""Ids of the journal, and idempotency keys."""


def column_widths(
    columns: Sequence[Sequence[str]], *, room: int, narrow: Collection[int], whole: Sequence[int]
) -> list[int]:
    """Give each of `columns`, which come as their lines, a width; together `room` at most, if that can be.

    Columns in `narrow` are as wide as their longest line, and those in `whole` where words of the others can
    be broken for it. Ids are kept whole, and words that are not too long. Of what is left the columns in
    `whole` take what their lines need, in this order, and the others share the rest.
    """
    natural = [max(map(cell_len, lines), default=0) for lines in columns]
    if sum(natural) <= room:
        return natural
    words = [max((cell_len(word) for line in lines for word in line.split()), default=1) for lines in columns]
    copied = [
        max((cell_len(found[0]) for line in lines for found in _COPIED.finditer(line)), default=1)
        for lines in columns
    ]

    def least(longest: int, kept: Collection[int]) -> list[int]:
        return [
            natural[index] if index in kept else max(min(words[index], longest), copied[index])
            for index in range(len(columns))
        ]

    kept_whole = (
        least(longest, {*narrow, *whole}) for longest in range(_LONGEST_WORD, _BROKEN_FOR_A_NAME - 1, -1)
    )
    folded = (least(longest, narrow) for longest in range(_LONGEST_WORD, _SHORTEST_WORD - 1, -1))
    fitting = (widths for widths in chain(kept_whole, folded) if sum(widths) <= room)
    widths = next(fitting, least(_SHORTEST_WORD, narrow))
    while sum(widths) > room and max(widths) > 1:
        # Nothing fits: rather is an id broken than another column lost.
        widths[widths.index(max(widths))] -= 1
    left = max(0, room - sum(widths))
    for index in whole:
        left -= _widen(widths, index, natural[index], left)
    others = sorted(set(range(len(columns))) - set(whole), key=lambda index: natural[index] - widths[index])
    for position, index in enumerate(others):
        left -= _widen(widths, index, natural[index], left // (len(others) - position))
    return widths


def _widen(widths: list[int], index: int, natural: int, most: int) -> int:
    """Give a column what it needs, `most` at most; say how much that was."""
    more = min(natural - widths[index], most)
    widths[index] += more
    return more
