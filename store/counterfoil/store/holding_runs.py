"""The hold that a session has on a run: shown to a person, who alone can end it."""

from collections.abc import Sequence
from typing import Any

from counterfoil.store.domain.answers import HOLD_ENDED, NOT_HELD
from counterfoil.store.domain.commands import ReleaseRun
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import EventKind, to_data
from counterfoil.store.domain.holds import attempts_of_holder, holder_seen, is_held
from counterfoil.store.domain.holds import held_until as end_of_hold
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Operation, Run
from counterfoil.store.domain.run_changes import decide_release_run
from counterfoil.store.errors import Forbidden
from counterfoil.store.preparing import Bodies
from counterfoil.store.protocol import Connection
from counterfoil.store.running import MOST_SHOWN, NAMELESS, RunKeeping
from counterfoil.store.viewing import Viewer, safe

__all__ = ["RunHolding"]


class RunHolding:
    """Shows and ends holds; every method is part of a transaction."""

    def __init__(self, view: Viewer, runs: RunKeeping) -> None:
        self._view = view
        self._runs = runs

    async def release(
        self,
        connection: Connection,
        name: str,
        command: ReleaseRun,
        situation: Situation,
        caller: str,
    ) -> dict[str, Any]:
        """End the hold on a run.

        Raises:
            NotFound: there is no such run.
            Forbidden: by somebody who is not shown to be a person.
        """
        run, operations = await self._runs.existing(connection, name)
        if not situation.is_person:
            raise Forbidden(
                "only a person ends a session's hold on a run; nothing was changed",
                fix="answer at a terminal, or bring the operator's secret; an agent waits until retry_at",
            )
        verdict = decide_release_run(
            run,
            operations,
            command.reason,
            situation,
            seen=command.seen,
            is_redelivered=await self._runs.was_called(connection, name, EventKind.RUN_RELEASED, situation),
        )
        await self._runs.write(connection, run, verdict, Bodies(), caller, situation)
        answer = self._runs.answer(verdict, situation.now.at)
        if verdict.next != "continue":
            return answer
        if not verdict.events:
            return {**answer, "guidance": NOT_HELD}
        return {
            **answer,
            "guidance": HOLD_ENDED,
            **self._hold(run, operations, situation.now.at),
        }

    async def hold(self, connection: Connection, name: str, now: Instant) -> dict[str, Any]:
        """Show who holds a run, for the person who is about to end it; `seen` is what was shown."""
        run, operations = await self._runs.existing(connection, name)
        shown: dict[str, Any] = {"as_of": rfc3339(now), "run": run.run}
        if is_held(run, operations, now):
            shown |= {**self._hold(run, operations, now), "seen": holder_seen(run)}
        return shown

    def _hold(self, run: Run, operations: Sequence[Operation], now: Instant) -> dict[str, Any]:
        """Tell who holds a run and until when, and which live attempts outlive the hold."""
        shown: dict[str, Any] = {
            "held_by": safe(run.holder_name) or NAMELESS,
            "held_until": rfc3339(end_of_hold(run, operations, now)),
        }
        if run.holder is not None:
            shown["session"] = {name: safe(text) for name, text in to_data(run.holder).items()}
        live = attempts_of_holder(run, operations, now)
        if live:
            shown["live_attempts"] = [
                {
                    "operation": operation.id,
                    "key": operation.key,
                    "attempt": attempt.number,
                    "lease_expires_at": rfc3339(attempt.lease_until),
                }
                for operation, attempt in live[:MOST_SHOWN]
            ]
            shown["live_attempts_in_all"] = len(live)
        return shown
