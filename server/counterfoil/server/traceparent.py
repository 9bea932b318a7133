"""Reads what W3C Trace Context calls a traceparent: the trace and the span that somebody acts in."""

from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["traceparent_or_none"]

_TRACEPARENT = lazy_pattern(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""Neither the version ff nor an id of zeros leads anywhere."""


def traceparent_or_none(value: object) -> str | None:
    """Give a traceparent that is one; what merely stands in its place must not hide the next source."""
    return value if isinstance(value, str) and _TRACEPARENT.fullmatch(value) else None
