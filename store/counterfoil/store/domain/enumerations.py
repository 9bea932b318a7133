"""Keeps the members of an enumeration where Python finds them at once.

Before 3.12 Python makes a call of each member's name that is read, and still makes one of each `value`: more
than a hundred in a begin and its receipt.
"""

from enum import Enum
from operator import attrgetter
from typing import TypeVar

__all__ = ["at_hand"]

Enumeration = TypeVar("Enumeration", bound=type[Enum])


def at_hand(enumeration: Enumeration) -> Enumeration:
    """Make the members of a class, and `value`, plain attributes; all else about them stays as it is."""
    for member in enumeration:
        type.__setattr__(enumeration, member.name, member)
    type.__setattr__(enumeration, "value", property(attrgetter("_value_")))
    return enumeration
