"""Cursors: where a page ended, in a form that only its own list takes back."""

import base64
import binascii
import json
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.instants import Instant
from counterfoil.store.errors import InvalidArgument

__all__ = [
    "Cursor",
    "FoundCursor",
    "RunsCursor",
    "read_cursor",
    "read_found_cursor",
    "read_runs_cursor",
    "write_cursor",
    "write_found_cursor",
    "write_runs_cursor",
]


class Cursor(Struct, frozen=True, kw_only=True):
    place: tuple[int, int]
    seq: int
    as_of: Instant


class RunsCursor(Struct, frozen=True, kw_only=True):
    """Where a page of runs ended, and when the first page was true."""

    touched_at: Instant
    run: str
    as_of: Instant


class FoundCursor(Struct, frozen=True, kw_only=True):
    """Where a page of found operations ended, and when the first page was true."""

    changed_at: Instant
    operation: str
    as_of: Instant


def _encode(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def _decode(cursor: str) -> Any:
    try:
        return json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        return None


def _not_ours() -> InvalidArgument:
    return InvalidArgument(
        "cursor",
        "is not one of this list",
        accepted="next_cursor of the page before, with the same run and include",
    )


def write_cursor(place: tuple[int, int], seq: int, as_of: Instant, run: str, include: str) -> str:
    return _encode([*place, seq, as_of, run, include])


def read_cursor(cursor: str | None, run: str, include: str) -> Cursor | None:
    if cursor is None:
        return None
    match _decode(cursor):
        case [int(rank), int(position), int(seq), int(as_of), str(name), str(which)] if (
            name == run and which == include
        ):
            return Cursor(place=(rank, position), seq=seq, as_of=as_of)
        case _:
            raise _not_ours()


def read_runs_cursor(cursor: str | None, include: str) -> RunsCursor | None:
    """Read where the next page of runs begins.

    Raises:
        InvalidArgument: it is none of this list.
    """
    if cursor is None:
        return None
    match _decode(cursor):
        case [int(touched_at), str(run), int(as_of), str(which)] if which == include:
            return RunsCursor(touched_at=touched_at, run=run, as_of=as_of)
        case _:
            raise _not_ours()


def write_runs_cursor(cursor: RunsCursor, include: str) -> str:
    """Name the run after which the next page of runs begins."""
    return _encode([cursor.touched_at, cursor.run, cursor.as_of, include])


def read_found_cursor(cursor: str | None, wanted: str) -> FoundCursor | None:
    """Read where the next page of found operations begins; `wanted` is the digest of what is asked for.

    Raises:
        InvalidArgument: it is none of this list.
    """
    if cursor is None:
        return None
    match _decode(cursor):
        case [int(changed_at), str(operation), int(as_of), str(which)] if which == wanted:
            return FoundCursor(changed_at=changed_at, operation=operation, as_of=as_of)
        case _:
            raise InvalidArgument(
                "cursor",
                "is not one of this list",
                accepted="next_cursor of the page before, with everything else as it was",
            )


def write_found_cursor(cursor: FoundCursor, wanted: str) -> str:
    """Name the operation after which the next page of found ones begins."""
    return _encode([cursor.changed_at, cursor.operation, cursor.as_of, wanted])
