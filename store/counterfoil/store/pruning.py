"""Pruning: old bodies of settled operations go, everything that decides stays.

What an operation was (action, target, fingerprint, keyed digests), its state, its receipts with their
references and its whole log remain: a begin is answered as before. The log holds digests only, so that no
chain breaks. Nothing that may still be needed to find out or to repeat is touched.
"""

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Operation, State
from counterfoil.store.domain.states import state_of
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.rows import load_operation
from counterfoil.store.viewing import Viewer

__all__ = ["Pruned", "bodies_of", "prune_run"]

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Pruned(Struct, frozen=True, kw_only=True):
    """What was removed, or would be: bodies, their characters, and the operations that they belonged to."""

    runs: int = 0
    operations: int = 0
    bodies: int = 0
    characters: int = 0

    def __add__(self, other: "Pruned") -> "Pruned":
        return replace(
            self,
            runs=self.runs + other.runs,
            operations=self.operations + other.operations,
            bodies=self.bodies + other.bodies,
            characters=self.characters + other.characters,
        )


_SETTLED = frozenset(state for state in State if state.is_settled)


async def prune_run(
    connection: Connection, view: Viewer, run: Row, *, before: Instant, now: Instant, is_dry: bool
) -> Pruned:
    """Remove the bodies of a run that only operations settled before `before` refer to.

    A body is kept where anything else refers to it: an operation that is not settled or was touched since,
    however long ago the event was, or the run itself (its criteria, its checkpoints).
    """
    place = {"namespace": run["namespace"], "run": run["run"]}
    old = {
        row["digest"]: row["characters"]
        for row in await connection.fetch_all("old_bodies", {**place, "before": before})
    }
    if not old:
        return Pruned()
    settled, kept_ids = [], set()
    for row in await connection.fetch_all("read_operations", place):
        # One that is damaged cannot be read and keeps what it has.
        operation = await load_operation(connection, row) if row["state"] in _SETTLED else None
        if operation is not None and operation.updated_at < before and state_of(operation, now).is_settled:
            settled.append(operation)
        else:
            kept_ids.add(row["id"])
    for digest in await _referred_to(connection, place, {*kept_ids, ""}):
        old.pop(digest, None)
    if not old:
        return Pruned()
    bereft = [operation for operation in settled if not old.keys().isdisjoint(bodies_of(operation))]
    if not is_dry:
        for digest in old:
            await connection.execute("remove_body", {**place, "digest": digest})
        for operation in bereft:
            await connection.execute("mark_pruned", {**place, "id": operation.id, "pruned_at": now})
    return Pruned(runs=1, operations=len(bereft), bodies=len(old), characters=sum(old.values()))


async def _referred_to(connection: Connection, place: dict[str, str], operations: set[str]) -> set[str]:
    """Find every digest in the events of some operations; the run's own have an empty one."""
    found: set[str] = set()
    after = 0
    while page := await connection.fetch_all("read_events", {**place, "after": after, "most": 1_000}):
        for event in page:
            if event["operation"] in operations:
                found.update(_DIGEST.findall(event["data"]))
        after = page[-1]["seq"]
    return found


def bodies_of(operation: Operation) -> Iterable[str]:
    """Give the digests of the bodies that answers about an operation show."""
    description, terms = operation.description, operation.terms
    digests = [description.args_digest, description.payload_digest, operation.checkpoint]
    digests += [part.args_digest for part in (terms.lookup, terms.undo) if part is not None]
    digests += [receipt.evidence_digest for receipt in operation.receipts]
    digests += [receipt.result_digest for receipt in operation.receipts]
    digests += [finding.evidence_digest for finding in operation.findings]
    return {digest for digest in digests if digest is not None}
