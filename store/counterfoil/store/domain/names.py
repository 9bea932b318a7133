"""Names that any later session would choose again: one spelling for run and key, one folded form for targets.

Look-alike letters (Latin and Cyrillic `a`) are not detected.
"""

import unicodedata
from typing import Final

from counterfoil.store.domain.characters import IGNORABLE, INVISIBLE, WHITE_SPACE, describe
from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.errors import InvalidArgument

__all__ = [
    "MAX_NAME_CHARACTERS",
    "fold_spelling",
    "fold_target",
    "may_be_one_target",
    "normalize_name",
    "targets_overlap",
]

MAX_NAME_CHARACTERS: Final = 200

# Longer text is refused unread: sorting combining marks takes quadratic time.
_LONGEST_READ: Final = 4_000

_ACCEPTED: Final = (
    "1 to 200 characters of visible text; white space counts as one space and is dropped at the ends; "
    "no control, invisible, bidirectional, variation-selector, private-use or unassigned characters"
)

_SPACES: Final = lazy_pattern(f"[{WHITE_SPACE}]+")
_IGNORABLE: Final = lazy_pattern(f"[{IGNORABLE}]+")
_INVISIBLE: Final = lazy_pattern(f"[{INVISIBLE}]")

_REFUSED_KINDS: Final = {
    "Cc": "a control character",
    "Cs": "a lone surrogate",
    "Co": "a private-use character",
    "Cn": "an unassigned character",
}


def _is_plain(text: str) -> bool:
    """Tell whether `text` is printable ASCII with single spaces inside and none at its ends."""
    is_spaced = text[:1] == " " or text[-1:] == " " or "  " in text
    return text != "" and text.isascii() and text.isprintable() and not is_spaced


def _refused_kind(character: str) -> str | None:
    if _INVISIBLE.match(character):
        return "an invisible or direction-changing character"
    return _REFUSED_KINDS.get(unicodedata.category(character))


def normalize_name(text: str, *, field: str) -> str:
    """Give the one spelling of a run's or key's name: NFC, single spaces inside, 1 to 200 characters.

    Normalising a normal name changes nothing. A character that this Python's Unicode does not know is
    refused, so that a later one cannot normalise it to another name.

    Raises:
        InvalidArgument: naming the refused character as U+XXXX, or the length.
    """
    if len(text) <= MAX_NAME_CHARACTERS and _is_plain(text):
        return text
    if len(text) > _LONGEST_READ:
        raise InvalidArgument(field, f"{len(text)} characters long", accepted=_ACCEPTED)
    name = _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip(" ")
    if not name.isascii() or not name.isprintable():
        for character in name:
            kind = _refused_kind(character)
            if kind is not None:
                problem = f"{describe(character)} is {kind}"
                raise InvalidArgument(field, problem, accepted=_ACCEPTED)
    if not name:
        raise InvalidArgument(field, "empty", accepted=_ACCEPTED)
    if len(name) > MAX_NAME_CHARACTERS:
        raise InvalidArgument(field, f"{len(name)} characters long", accepted=_ACCEPTED)
    return name


_SCHEME: Final = lazy_pattern(r"(?:[a-z][a-z0-9+.\-]{0,30}://|mailto:)+")
_SPACE_OR_SLASH: Final = "/" + "".join(filter(str.isspace, map(chr, range(0x3001))))
_DISPLAY_NAME: Final = lazy_pattern(r"[^<>]*<([^<>]+)>")
_LIST_MARK: Final = lazy_pattern(r"([,;])")


def _caseless(text: str) -> str:
    """Fold compatibility forms and case until nothing changes (twice is enough by Unicode's definition)."""
    if text.isascii():
        return text.casefold()
    for _ in range(3):
        folded = _IGNORABLE.sub("", unicodedata.normalize("NFKC", text).casefold())
        folded = unicodedata.normalize("NFKC", folded)
        if folded == text:
            break
        text = folded
    return text


def _address(text: str) -> str:
    """Drop the display name of one address: `alice <alice@x>` is `alice@x`."""
    found = _DISPLAY_NAME.fullmatch(text.strip())
    if found and ("@" in found[1] or "://" in found[1]):
        return found[1].strip()
    return text


def _without_display_names(text: str) -> str:
    single = _address(text)
    if single is not text or "<" not in text:
        return single
    parts = _LIST_MARK.split(text)
    addresses = [_address(part) for part in parts]
    return "".join(
        part if address is part else f" {address}" for part, address in zip(parts, addresses, strict=True)
    )


def fold_spelling(text: str) -> str:
    """Give the form in which actions and targets are held against rules; folding twice changes nothing.

    Case, compatibility forms and characters that do not print do not count: a spelling that looks the same
    and matches no pattern would pass every rule by.
    """
    return _caseless(text).strip()


def fold_target(text: str) -> str:
    """Give the form in which targets are compared to find look-alikes; folding twice changes nothing.

    NFKC, case, ignorable characters, outer white space, URL schemes and `mailto:`, trailing slashes and
    display names do not count.
    """
    folded = _caseless(text)
    while True:
        before = folded
        folded = _without_display_names(folded.strip())
        scheme = _SCHEME.match(folded)
        if scheme:
            folded = folded[scheme.end() :]
        folded = folded.strip().rstrip(_SPACE_OR_SLASH)
        if folded == before:
            return folded


def targets_overlap(one: str | None, other: str | None) -> bool:
    """Tell whether one folded target is missing or contains the other."""
    first, second = fold_target(one or ""), fold_target(other or "")
    return first in second or second in first


_ESCAPED: Final = lazy_pattern(r"%[0-9a-f]{2}")
_SHORT_HASH: Final = lazy_pattern(r"[0-9a-f]{7,}")
_WHOLE_HASH: Final = lazy_pattern(r"(?<![0-9a-z])(?:[0-9a-f]{40}|[0-9a-f]{64})(?![0-9a-z])")


def may_be_one_target(one: str | None, other: str | None) -> bool:
    """Tell whether two wordings can name one target: one is missing, or stands as a whole in the other.

    `o/r` stands in `https://forge.example/o/r/issues/1`, and `a@x` in `mailto:a@x`; but `user-1` does not in
    `user-12`, nor `a@x` in `aa@x`. Where that is unsure it is yes, since evidence that is taken for another's
    leaves its effect to be performed again: a word of letters alone may be shortened at its end (`prod` for
    `production`), so may a commit's hash, and letters without case (Chinese, Arabic, …) part no words.
    """
    short, long = sorted((fold_target(one or ""), fold_target(other or "")), key=len)
    if not short:
        return True
    if _SHORT_HASH.fullmatch(short) and any(
        found[0].startswith(short) for found in _WHOLE_HASH.finditer(long)
    ):
        return True
    is_word = short.isalpha()
    start = long.find(short)
    while start >= 0:
        before, after = long[max(0, start - 3) : start], long[start + len(short) : start + len(short) + 1]
        begins = not _runs_on(before[-1:], short[0]) or _ESCAPED.fullmatch(before) is not None
        if begins and (is_word or not _runs_on(short[-1], after)):
            return True
        start = long.find(short, start + 1)
    return False


def _runs_on(left: str, right: str) -> bool:
    """Tell whether two neighbouring characters are of one word or of one number."""
    return (left.isdecimal() and right.isdecimal()) or (_has_case(left) and _has_case(right))


def _has_case(character: str) -> bool:
    """Tell whether a folded character is a letter of a script that parts its words."""
    return character.islower()
