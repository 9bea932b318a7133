"""A frozen fact with some of its fields changed, three times as fast as `dataclasses.replace`.

Every event makes new facts of old ones, and an operation has some thirty fields: calling `__init__` by
keyword for each copy took a tenth of a whole command.
"""

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["changed"]

if TYPE_CHECKING:
    from dataclasses import replace as changed
else:

    def changed(fact: Any, /, **changes: Any) -> Any:
        """Give a copy of `fact`, a frozen dataclass with slots and no `__post_init__`, with `changes` made.

        Raises:
            KeyError: the fact has no field of that name.
        """
        kind = fact.__class__
        setters, values_of = _layout(kind)
        copy = object.__new__(kind)
        for put, value in zip(setters.values(), values_of(fact), strict=True):
            put(copy, value)
        for name, value in changes.items():
            setters[name](copy, value)
        return copy


@cache
def _layout(kind: type) -> tuple[dict[str, Any], Any]:
    """Give the setter of every slot by name, and what reads them all at once, in the same order."""
    names: tuple[str, ...] = vars(kind)["__slots__"]
    return {name: getattr(kind, name).__set__ for name in names}, attrgetter(*names)
