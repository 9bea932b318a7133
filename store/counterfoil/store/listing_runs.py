"""Lists the runs of a namespace, the last one touched first, for whoever asks without naming one."""

from typing import Any

from counterfoil.store.cursors import RunsCursor, read_runs_cursor, write_runs_cursor
from counterfoil.store.domain.answers import RUNS_LISTED
from counterfoil.store.domain.commands import ResumePlan
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import State
from counterfoil.store.errors import RunDamaged
from counterfoil.store.presenting import answer_head, without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.rows import run_from_row
from counterfoil.store.run_showing import RunShowing, run_shown
from counterfoil.store.viewing import ANSWER_ROOM, Viewer, safe, size_of

__all__ = ["RunListing"]

_MOST_RUNS = 20
_FROM_THE_NEWEST = {"before_touched": 2**62, "after_run": ""}


class RunListing:
    """Lists runs; every method is part of a transaction."""

    def __init__(self, view: Viewer, showing: RunShowing) -> None:
        self._view = view
        self._showing = showing

    async def page(
        self, connection: Connection, command: ResumePlan, *, now: Instant, journal: dict[str, Any]
    ) -> dict[str, Any]:
        """List the runs, the last one touched first; `journal` tells of the journal they are in.

        A cursor skips no run that was not touched; the last page says whether one was since the first one.
        """
        after = read_runs_cursor(command.cursor, command.include)
        most = min(command.limit or _MOST_RUNS, _MOST_RUNS)
        place = {"namespace": self._view.namespace, **_FROM_THE_NEWEST}
        page = {} if after is None else {"before_touched": after.touched_at, "after_run": after.run}
        is_whole = int(command.include == "all")
        rows = await connection.fetch_all(
            "list_runs", {**place, **page, "everything": is_whole, "most": most + 1}
        )
        shown: list[dict[str, Any]] = []
        used = 0
        for row in rows[:most]:
            try:
                run = run_from_row(row)
            except RunDamaged as fault:
                # Whatever it is, it is not over: the list stays incomplete, and the other runs are served.
                entry = {
                    "run": safe(str(row["run"])),
                    "touched_at": rfc3339(now),
                    "counts": {State.IN_DOUBT.value: 1},
                    "operations": 1,
                    "warnings": [fault.message],
                }
            else:
                counts, _is_damaged, gone = await self._showing.counts(connection, run, now)
                entry = {
                    **run_shown(run),
                    "age_seconds": max(0, now - run.created_at) // 1_000_000,
                    "counts": counts,
                    **({"missing": gone} if gone else {}),
                }
            used += size_of(entry)
            if used > ANSWER_ROOM and shown:
                break
            shown.append(entry)
        is_cut = len(shown) < len(rows)
        last = rows[len(shown) - 1] if shown else None
        as_of = now if after is None else after.as_of
        newest = None
        if not rows or (after is not None and not is_cut):
            # Of all runs, as one that is finished is not in this list: it may have left it since, too.
            newest = await connection.fetch_one("list_runs", {**place, "everything": 1, "most": 1})
        has_moved = after is not None and newest is not None and newest["touched_at"] >= as_of
        is_empty = not rows and newest is None
        head = answer_head("continue", "no_history" if is_empty else "listed", now)
        if not is_empty:
            head["guidance"] = RUNS_LISTED
        return without_none(
            {
                **head,
                "journal": journal,
                "runs": shown,
                "complete": not is_cut
                and not has_moved
                and all(_nothing_is_open(entry["counts"]) for entry in shown),
                "cut": is_cut,
                "next_cursor": write_runs_cursor(
                    RunsCursor(touched_at=last["touched_at"], run=last["run"], as_of=as_of), command.include
                )
                if is_cut and last is not None
                else None,
                "changed_meanwhile": True if has_moved else None,
            }
        )


def _nothing_is_open(counts: dict[str, int]) -> bool:
    return all(State(state).is_settled for state in counts)
