"""The event log's chain: each event's hash covers the one before it, per run.

Whoever changes, drops, adds or reorders an event of a run breaks every hash after it; the run's row holds
the newest, so that a log cut short is noticed too.
"""

import hashlib
import json
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as quote

from msgspec import Struct

from counterfoil.store.protocol import Row
from counterfoil.store.stored_json import quoted

__all__ = ["ChainFault", "event_hash", "first_fault", "genesis"]


_TYPES = (("operation", str), ("kind", str), ("at", int), ("caller", str), ("data", str))


class ChainFault(Struct, frozen=True, kw_only=True):
    """Where a chain breaks."""

    seq: int
    problem: str


def genesis(namespace: str, run: str) -> str:
    """Give the hash that stands before a run's first event."""
    return hashlib.sha256(json.dumps(["counterfoil-chain-1", namespace, run]).encode()).hexdigest()


def event_hash(previous: str, *, seq: int, operation: str, kind: str, at: int, caller: str, data: str) -> str:
    """Give an event's hash; `caller` and `data` are the JSON texts as stored.

    What is hashed is the list of all seven as `json.dumps` writes it, spelt out because every event of every
    command and of every verification passes here.
    """
    named = f"{quote(previous)}, {seq}, {quote(operation)}, {quote(kind)}, {at}"
    content = f"[{named}, {quoted(caller)}, {quoted(data)}]"
    return hashlib.sha256(content.encode()).hexdigest()


def first_fault(
    events: Iterable[Row],
    *,
    namespace: str,
    run: str,
    last_seq: int,
    head: str,
    after: tuple[int, str] | None = None,
) -> ChainFault | None:
    """Walk a run's whole log and tell where it first breaks, None where it holds.

    With `after`, a number and the hash under it, the log was proved up to there and `events` follow on.
    """
    seq, previous = after or (0, genesis(namespace, run))
    for event in events:
        if event["seq"] != seq + 1:
            return ChainFault(seq=seq + 1, problem=f"event {seq + 1} is missing")
        seq = event["seq"]
        if not all(type(event[name]) is kind for name, kind in _TYPES):
            return ChainFault(seq=seq, problem=f"event {seq} cannot be read: a text in it is garbled")
        found = event_hash(
            previous,
            seq=seq,
            operation=event["operation"],
            kind=event["kind"],
            at=event["at"],
            caller=event["caller"],
            data=event["data"],
        )
        if found != event["hash"]:
            return ChainFault(seq=seq, problem=f"event {seq} was changed: its hash does not fit")
        previous = found
    if seq != last_seq:
        return ChainFault(seq=seq + 1, problem=f"the log ends at {seq}, the run's row says {last_seq}")
    if previous != head:
        return ChainFault(seq=seq, problem="the run's row names another last hash")
    return None
