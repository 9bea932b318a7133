"""Find every path at which two JSON values differ."""

from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from counterfoil.store.domain.json_numbers import Json, same_number

__all__ = ["ABSENT", "Absent", "Difference", "Differences", "differences", "pointer_token"]


def pointer_token(name: str | int) -> str:
    """Give one `/step` of an RFC 6901 JSON pointer."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


class Absent(Enum):
    """The mark of a member or item that one side does not have; null is a value and not this."""

    ABSENT = "absent"

    def __str__(self) -> str:
        return self.value

    __repr__ = __str__


ABSENT: Final = Absent.ABSENT


class Difference(NamedTuple):
    """One path (RFC 6901) and what each side has there."""

    path: str
    recorded: Json | Literal[Absent.ABSENT]
    given: Json | Literal[Absent.ABSENT]

    def as_dict(self) -> dict[str, Json]:
        """Give `{path, recorded, given}` without the side that has nothing there."""
        sides = {"recorded": self.recorded, "given": self.given}
        return {"path": self.path, **{name: side for name, side in sides.items() if side is not ABSENT}}


class Differences(list[Difference]):
    """The differences in the order of the values; `cut` says that there were more than were listed."""

    cut: bool = False


_Pair = tuple[str, Any, Any]


def _inner(path: str, recorded: Json, given: Json) -> list[_Pair] | None:
    """Give the pairs to compare inside two containers of one kind, None for anything else."""
    if type(recorded) is dict and type(given) is dict:
        names = sorted(recorded.keys() | given.keys())
        return [(path + pointer_token(n), recorded.get(n, ABSENT), given.get(n, ABSENT)) for n in names]
    if type(recorded) is list and type(given) is list:
        longest = max(len(recorded), len(given))
        return [
            (
                path + pointer_token(at),
                recorded[at] if at < len(recorded) else ABSENT,
                given[at] if at < len(given) else ABSENT,
            )
            for at in range(longest)
        ]
    return None


def _same(recorded: Json, given: Json) -> bool:
    kinds = {type(recorded), type(given)}
    if kinds <= {int, float}:
        return same_number(recorded, given)
    return len(kinds) == 1 and bool(recorded == given)


def differences(recorded: Json, given: Json, *, root: str = "", limit: int = 50) -> Differences:
    """List where `recorded` and `given` differ, at most `limit` places.

    Values are compared as their canonical forms are: numbers by value, arrays item by item, true is not 1.
    `root` names the value that is compared: with "args" the paths begin with `/args`. What one side lacks is
    `ABSENT`.
    """
    found = Differences()
    to_compare: list[_Pair] = [(pointer_token(root) if root else "", recorded, given)]
    while to_compare:
        path, one, other = to_compare.pop()
        inner = _inner(path, one, other)
        if inner is not None:
            to_compare.extend(reversed(inner))
        elif not _same(one, other):
            if len(found) == limit:
                found.cut = True
                break
            found.append(Difference(path, one, other))
    return found
