"""Shows a run as it stands: what it is for, who is at it, its criteria, the states of its operations."""

from typing import Any

from counterfoil.store.domain.criteria import CriterionState, judge
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Run, State
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.presenting import without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import criteria_of, satisfying_in
from counterfoil.store.viewing import Viewer, safe

__all__ = ["STATES", "RunShowing", "run_shown"]

STATES = frozenset(State)
"""The states that a row may be in; whatever else one says, it is in doubt."""

_MOST_CRITERIA = 8
_MOST_CHILDREN = 5


class RunShowing:
    """Shows the runs of one namespace; every method is part of a transaction."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def whole(self, connection: Connection, run: Run, now: Instant) -> dict[str, Any]:
        """Show a run with what it is for, who is at it, and the last checkpoint."""
        is_held = run.held_until is not None and now < run.held_until
        shown = {
            **run_shown(run),
            "goal": safe(run.goal),
            "spec": without_none({"uri": safe(run.spec_uri), "digest": safe(run.spec_digest)}) or None,
            "parent": run.parent,
            "children": await self._children(connection, run),
            "held_by": (safe(run.holder_name) or "a session without a name") if is_held else None,
            "held_until": rfc3339(run.held_until) if is_held and run.held_until is not None else None,
            "progress": without_none(
                {"message": safe(run.progress_message), "fraction": run.progress_fraction}
            )
            or None,
            "finish_reason": safe(run.finish_reason),
        }
        if run.checkpoint is not None:
            shown["checkpoint"] = await self._view.body(connection, run, run.checkpoint, detail="checkpoint")
        return without_none(shown)

    async def _children(self, connection: Connection, run: Run) -> list[dict[str, Any]] | None:
        """Name the runs that this one started, the newest of them where there are many."""
        rows = await connection.fetch_all(
            "child_runs", {"namespace": run.namespace, "run": run.run, "most": _MOST_CHILDREN + 1}
        )
        shown: list[dict[str, Any]] = [
            without_none({"run": row["run"], "finished_as": row["finished_as"]})
            for row in rows[:_MOST_CHILDREN]
        ]
        if len(rows) > _MOST_CHILDREN:
            shown.append({"cut": True, "whole": "find_operations or `counterfoil runs`"})
        return shown or None

    async def criteria(
        self, connection: Connection, run: Run, place: dict[str, str]
    ) -> dict[str, Any] | None:
        """Count where the criteria stand, and name the ones that are not met."""
        criteria = await criteria_of(connection, run)
        if not criteria:
            return None
        judged = judge(criteria, await satisfying_in(connection, place))
        open_ones = [one for one in judged if one.state is not CriterionState.MET]
        shown: list[dict[str, Any]] = [
            without_none(
                {
                    "id": safe(one.criterion.id),
                    "text": escape_untrusted(one.criterion.text, limit=120) or None,
                    "state": one.state.value,
                    "required": one.criterion.required,
                    "by": list(one.by[:3]) or None,
                }
            )
            for one in open_ones[:_MOST_CRITERIA]
        ]
        counts = {state.value: sum(one.state is state for one in judged) for state in CriterionState}
        return {**counts, "open": shown, "cut": len(open_ones) > len(shown)}

    async def counts(
        self, connection: Connection, run: Run, now: Instant
    ) -> tuple[dict[str, int], bool, int]:
        """Count the states of a run, and tell whether one is none, and how many rows are gone.

        Whatever these were, they are in doubt.
        """
        rows = await connection.fetch_all(
            "count_states", {"namespace": run.namespace, "run": run.run, "now": now}
        )
        counts: dict[str, int] = {}
        for row in rows:
            state = row["state_now"] if row["state_now"] in STATES else State.IN_DOUBT.value
            counts[state] = counts.get(state, 0) + row["operations"]
        gone = max(0, run.operations - sum(counts.values()))
        if gone:
            counts[State.IN_DOUBT.value] = counts.get(State.IN_DOUBT.value, 0) + gone
        return counts, any(row["state_now"] not in STATES for row in rows), gone


def run_shown(run: Run) -> dict[str, Any]:
    """Show what a run is, without what needs to be looked up."""
    return without_none(
        {
            "run": run.run,
            "workflow": safe(run.workflow),
            "workflow_version": safe(run.workflow_version),
            "created_at": rfc3339(run.created_at),
            "touched_at": rfc3339(run.touched_at),
            "operations": run.operations,
            "schedule": None
            if run.schedule_name is None
            else {"name": safe(run.schedule_name), "occurrence": safe(run.schedule_occurrence)},
            "finished_as": run.finished_as,
        }
    )
