"""What a restored journal cannot know: whatever happened between the backup and the restore is missing.

An operation that the backup does not know, or knows without an outcome, may have been performed in that
time. A person decides about it, before or after looking; no evidence that the journal itself holds can.
"""

from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Attempt, Operation

__all__ = ["is_of_lost_history", "lacks_history"]


def is_of_lost_history(attempt: Attempt, lost_at: Instant | None) -> bool:
    """Tell whether an attempt was granted before history was lost: later ones may be missing after it."""
    return lost_at is not None and attempt.granted_at < lost_at


def lacks_history(operation: Operation | None, lost_at: Instant | None) -> bool:
    """Tell whether an operation may have been performed in the time that a restored journal lacks.

    It does not where, since the restore, an attempt was granted or a person found that nothing was performed.
    `lost_at` is the moment of the restore, None where there was none; no operation is one that nobody knows.
    """
    if lost_at is None:
        return False
    if operation is None:
        return True
    if any(not is_of_lost_history(attempt, lost_at) for attempt in operation.granted):
        return False
    return not any(
        finding.is_persons and finding.finding == "not_performed" and finding.recorded_at >= lost_at
        for finding in operation.findings
    )
