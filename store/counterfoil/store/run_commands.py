"""The commands about whole runs: each is checked, and given as what does it in a transaction."""

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from counterfoil.store.beginning_runs import RunBeginning
from counterfoil.store.contexts import prepare_context
from counterfoil.store.domain.commands import BeginRun, Caller, FinishRun, RecordProgress, ReleaseRun, SetSpec
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.finishing_runs import RunFinishing
from counterfoil.store.holding_runs import RunHolding
from counterfoil.store.preparing import Bodies
from counterfoil.store.preparing_runs import prepare_progress, prepare_run, prepare_spec
from counterfoil.store.protocol import Connection, Work
from counterfoil.store.running import RunKeeping
from counterfoil.store.viewing import Viewer
from counterfoil.store.writing import caller_text

if TYPE_CHECKING:
    from counterfoil.store.planning import Planner

__all__ = ["RunCommands"]


class RunCommands:
    """Takes the commands about runs: each method checks one and gives what does it in a transaction.

    Each raises InvalidArgument or TooLarge where the call cannot be taken as made.
    """

    def __init__(self, view: Viewer) -> None:
        self._view = view
        self._prepare = view.prepare
        self._runs = runs = RunKeeping(view)
        self._beginning = RunBeginning(view, runs)
        self._finishing = RunFinishing(view, runs)
        self._holding = RunHolding(view, runs)

    def begin(self, command: BeginRun, caller: Caller, *, planner: "Planner") -> Work[dict[str, Any]]:
        """Start a run or come back to it; `planner` gives the first page of its plan."""
        bodies = Bodies()
        given = prepare_run(command, prepare=self._prepare, bodies=bodies)
        context = prepare_context(
            None if command.context is None else dict(command.context),
            workflow_version=given.workflow_version,
            prepare=self._prepare,
            bodies=Bodies(),
        )
        caller = self._prepare.caller(caller)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            text = caller_text(
                caller,
                context=None if context is None else context.digest,
                workflow_version=given.workflow_version,
            )
            answer = await self._beginning.begin(connection, given, context, situation, bodies, text)
            return await planner.with_first_page(
                connection, answer, given.run, situation.now.at, situation.party
            )

        return work

    def set_spec(self, command: SetSpec, caller: Caller) -> Work[dict[str, Any]]:
        """Give a run the specification that it is held against."""
        bodies = Bodies()
        name = self._prepare.name(command.run, name="run")
        given = prepare_spec(command.spec, prepare=self._prepare, bodies=bodies)
        caller = self._prepare.caller(caller)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            return await self._runs.set_spec(connection, name, given, situation, bodies, caller_text(caller))

        return work

    def progress(self, run: str, command: RecordProgress, caller: Caller) -> Work[dict[str, Any]]:
        """Take word of progress on a run, and prolong the hold of whoever holds it."""
        bodies = Bodies()
        given = prepare_progress(command, prepare=self._prepare, bodies=bodies)
        caller = self._prepare.caller(caller)
        name = self._prepare.name(run, name="run")

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            return await self._runs.progress(connection, name, given, situation, bodies, caller_text(caller))

        return work

    def finish(self, command: FinishRun, caller: Caller) -> Work[dict[str, Any]]:
        """Finish a run, or say what stands against it."""
        name = self._prepare.name(command.run, name="run")
        if command.outcome not in ("completed", "failed", "cancelled"):
            raise InvalidArgument("outcome", "is unknown", accepted='"completed", "failed" or "cancelled"')
        reason = self._prepare.text(command.reason, name="reason")
        caller = self._prepare.caller(caller)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            return await self._finishing.finish(
                connection, name, command.outcome, reason, situation, caller_text(caller)
            )

        return work

    def release(self, command: ReleaseRun, caller: Caller) -> Work[dict[str, Any]]:
        """End the hold that a session has on a run."""
        name = self._prepare.name(command.run, name="run")
        reason = self._prepare.text(command.reason, name="reason")
        if reason is None:
            raise InvalidArgument("reason", "is empty", accepted="why, in a sentence")
        command = replace(command, reason=reason)
        caller = self._prepare.caller(caller)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = self._view.situation(connection, caller)
            return await self._holding.release(connection, name, command, situation, caller_text(caller))

        return work

    def preview_release(self, run: str) -> Work[dict[str, Any]]:
        """Show who holds a run."""
        name = self._prepare.name(run, name="run")

        async def work(connection: Connection) -> dict[str, Any]:
            return await self._holding.hold(connection, name, self._view.now(connection).at)

        return work

    def criteria(self, run: str) -> Work[list[dict[str, Any]]]:
        """Tell where each criterion of a run stands."""
        name = self._prepare.name(run, name="run")

        async def work(connection: Connection) -> list[dict[str, Any]]:
            return await self._finishing.criteria(connection, name)

        return work
