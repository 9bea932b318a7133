"""A frozen fact with some of its fields changed, four times as fast as `dataclasses.replace`.

Every event makes new facts of old ones, and an operation has some forty fields: a frozen dataclass sets each
by a call of `object.__setattr__`. A class of the same slots that may be written sets them plainly,
and what it made is given the frozen class before anybody else sees it.
"""

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["changed"]

if TYPE_CHECKING:
    from dataclasses import replace as changed
else:
    from dataclasses import make_dataclass

    def changed(fact: Any, /, **changes: Any) -> Any:
        """Give a copy of `fact`, a frozen dataclass with slots and no `__post_init__`, with `changes` made.

        Raises:
            AttributeError: the fact has no field of that name.
        """
        kind = fact.__class__
        open_kind, values_of = _layout(kind)
        copy = open_kind(*values_of(fact))
        for name, value in changes.items():
            setattr(copy, name, value)
        copy.__class__ = kind
        return copy

    @cache
    def _layout(kind: type) -> tuple[type, Any]:
        """Give the class that may be written, and what reads all fields in the order it takes them in."""
        names: tuple[str, ...] = vars(kind)["__slots__"]
        open_kind = make_dataclass(f"Open{kind.__name__}", names, slots=True, eq=False, repr=False)
        return open_kind, attrgetter(*names)
