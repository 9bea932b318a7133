"""Points in time as the journal keeps them: whole microseconds since the epoch, UTC.

Whole numbers compare exactly, travel through any database unchanged, and come back from RFC 3339 text
as they went out, so that an `as_of` copied by a caller is the instant that it was.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated

from msgspec import Meta, Struct

from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.errors import InvalidArgument

__all__ = ["Instant", "Reading", "is_instant", "micros", "parse_rfc3339", "rfc3339", "seconds"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_UTC = _EPOCH.replace(tzinfo=None)
"""Without its zone, which is written at a third of the cost."""
_FIRST = -62_135_596_800_000_000
_LAST = 253_402_300_799_999_999
"""What RFC 3339 can name: the years 1 to 9999. Nothing that is stored lies outside it."""

Instant = Annotated[int, Meta(ge=_FIRST, le=_LAST)]
"""Microseconds since 1970-01-01T00:00:00Z."""

_RFC3339 = lazy_pattern(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,12}))?(?:([Zz])|([+-]\d{2}:\d{2}))", re.ASCII
)
_ACCEPTED = "an RFC 3339 time with its offset, such as 2026-11-29T17:04:45Z"


class Reading(Struct, frozen=True, kw_only=True):
    """What the clocks say at one moment.

    `monotonic` counts microseconds of the boot named by `boot`; None where no such clock can be had, and
    then a wall clock that jumps cannot be noticed.
    """

    at: Instant
    monotonic: Instant | None = None
    boot: str | None = None


def is_instant(value: object) -> bool:
    """Tell whether a value can be an instant at all."""
    return type(value) is int and _FIRST <= value <= _LAST


def micros(duration_seconds: float) -> int:
    """Turn seconds into whole microseconds."""
    return round(duration_seconds * 1_000_000)


def seconds(duration: int) -> float:
    """Turn microseconds into seconds, whole ones as int."""
    whole, rest = divmod(duration, 1_000_000)
    return whole if rest == 0 else duration / 1_000_000


def rfc3339(instant: Instant) -> str:
    """Write an instant as RFC 3339 in UTC, microseconds included; beyond its years, its first or last one."""
    whole, rest = divmod(max(_FIRST, min(instant, _LAST)), 1_000_000)
    return f"{_to_the_second(whole)}.{rest:06d}Z"


@lru_cache(64)
def _to_the_second(whole_seconds: int) -> str:
    """Write the part that the times of one answer share, as do those of the calls around it."""
    return (_EPOCH_UTC + timedelta(seconds=whole_seconds)).isoformat()


def parse_rfc3339(text: str, *, field: str) -> Instant:
    """Read an RFC 3339 time; digits below a microsecond are dropped.

    Raises:
        InvalidArgument: another form, no offset, or a date that does not exist.
    """
    match = _RFC3339.fullmatch(text.strip())
    if match is None:
        raise InvalidArgument(field, "is not an RFC 3339 time with an offset", accepted=_ACCEPTED)
    date, clock, fraction, _zulu, offset = match.groups()
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}{offset or '+00:00'}")
    except ValueError:
        raise InvalidArgument(field, "names a time that does not exist", accepted=_ACCEPTED) from None
    whole = (moment - _EPOCH) // timedelta(microseconds=1)
    return whole + int((fraction or "0").ljust(6, "0")[:6])
