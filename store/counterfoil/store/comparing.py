"""Compares effects where a secret was replaced: a placeholder of another journal is not comparable.

Placeholders carry a digest under the key of the journal that made them, so that one secret has another
placeholder in every journal. Such a difference is none.
"""

from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.redact import Redactor
from counterfoil.store.secret_spans import PLACEHOLDER

__all__ = ["hides_the_same", "is_same_but_for_secrets"]


def is_same_but_for_secrets(recorded: Json, given: Json, redactor: Redactor) -> bool:
    """Tell whether two values are equal, taking each placeholder of another journal for whatever is opposite.

    The values are bodies or texts as they are stored: every secret in them was replaced.
    """
    if isinstance(recorded, str) or isinstance(given, str):
        return _fits(recorded, given, redactor) or _fits(given, recorded, redactor)
    if isinstance(recorded, dict) and isinstance(given, dict):
        return recorded.keys() == given.keys() and all(
            is_same_but_for_secrets(recorded[name], given[name], redactor) for name in recorded
        )
    if isinstance(recorded, list) and isinstance(given, list):
        return len(recorded) == len(given) and all(
            is_same_but_for_secrets(ours, theirs, redactor)
            for ours, theirs in zip(recorded, given, strict=True)
        )
    # 10 and 10.0 are one number, true and 1 are not one value.
    return recorded == given and (isinstance(recorded, bool) == isinstance(given, bool))


def hides_the_same(recorded: str | None, given: str | None, redactor: Redactor) -> bool:
    """Tell whether two texts, or canonical JSON texts, are equal but for whose placeholders they hold.

    Stricter than `is_same_but_for_secrets`: where one side holds a placeholder of another journal, the other
    has to hold a secret of that very kind.
    """
    if recorded == given:
        return True
    if recorded is None or given is None or _labels_only(recorded) != _labels_only(given):
        return False
    return all(
        ours[0] == theirs[0]
        or not (redactor.is_own_placeholder(ours[0]) and redactor.is_own_placeholder(theirs[0]))
        for ours, theirs in zip(PLACEHOLDER.finditer(recorded), PLACEHOLDER.finditer(given), strict=True)
    )


def _labels_only(text: str) -> str:
    return PLACEHOLDER.sub(lambda found: found[0].rsplit(":", 1)[0], text)


def _fits(pattern: Json, value: Json, redactor: Redactor) -> bool:
    """Tell whether a value has the form of a text, in which what is not comparable stands for anything."""
    if pattern == value:
        return True
    if not isinstance(pattern, str):
        return False
    foreign = [found for found in PLACEHOLDER.finditer(pattern) if not redactor.is_own_placeholder(found[0])]
    if not foreign:
        return False
    if len(foreign) == 1 and foreign[0][0] == pattern:
        # The whole value was a secret, of whatever type.
        return True
    if not isinstance(value, str):
        return False
    parts, end = [], 0
    for found in foreign:
        parts.append(pattern[end : found.start()])
        end = found.end()
    return _stand_in_order([*parts, pattern[end:]], value)


def _stand_in_order(parts: list[str], text: str) -> bool:
    """Tell whether a text begins with the first part, ends with the last and has the others in between."""
    first, *between, last = parts
    if len(first) + len(last) > len(text) or not (text.startswith(first) and text.endswith(last)):
        return False
    place, end = len(first), len(text) - len(last)
    for part in between:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
