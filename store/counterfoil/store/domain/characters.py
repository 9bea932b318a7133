"""Characters that print as nothing, as space, or turn text around: data, the same under every Python.

The ranges are those of the Unicode properties Default_Ignorable_Code_Point and White_Space (14.0 to 16.0
agree), written out here because `unicodedata` knows neither and changes from one Python to the next.
"""

import unicodedata

from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["IGNORABLE", "INVISIBLE", "WHITE_SPACE", "describe", "first_surrogate"]

WHITE_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White_Space, as the inside of a character class."""

IGNORABLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
"""Default_Ignorable_Code_Point: bidirectional controls, variation selectors, tags, Hangul fillers, …"""

# Not default-ignorable, but they print as nothing or as a blank: braille blank, annotation marks, the
# object replacement character, hieroglyph format controls and blanks, Khitan filler, null notehead.
_BLANK = "\u2800\ufff9-\ufffc\U00013430-\U00013442\U00016fe4\U0001d159"

INVISIBLE = IGNORABLE + _BLANK
"""All that prints as nothing or as a blank without being white space, as the inside of a character class."""

_SURROGATE = lazy_pattern("[\ud800-\udfff]")


def first_surrogate(text: str) -> str | None:
    """Give the first lone surrogate in `text`, if there is one."""
    if text.isascii():
        return None
    found = _SURROGATE.search(text)
    return found[0] if found else None


def describe(character: str) -> str:
    """Give `U+XXXX` and, where Unicode names it, the name."""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" ({name.lower()})" if name else "")
