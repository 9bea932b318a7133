"""The journal: one method per command, with its promise, and the only place that runs a transaction for it.

What is done in the transaction lies in a room of its own: it reads the facts, lets the domain decide, appends
the events, writes the rows, and answers. Whatever comes back was durable before it was said.
"""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec.structs import replace

from counterfoil.store.attending import Attendance, Attending, Mark, Recorded
from counterfoil.store.attending_calls import AttendedCalls
from counterfoil.store.counting import StateCount, count_operations
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.commands import (
    BeginOperation,
    BeginRun,
    Caller,
    CheckOperation,
    CloseOperation,
    FindOperations,
    FinishRun,
    GrantAuthority,
    IssueToken,
    Json,
    OperationRef,
    ReconcileOperation,
    RecordFailure,
    RecordProgress,
    RecordReceipt,
    ReleaseRun,
    RequestAuthority,
    ResumePlan,
    RevokeGrant,
    SetSpec,
    VerifyOperation,
)
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.instants import Instant, Reading
from counterfoil.store.domain.states import Policy
from counterfoil.store.journal_identity import JournalIdentity, read_marks
from counterfoil.store.limits import Limits
from counterfoil.store.own_history import OwnHistory
from counterfoil.store.preparing import Preparer
from counterfoil.store.presenting import Presenter
from counterfoil.store.probing import Prober
from counterfoil.store.protocol import Connection, Database
from counterfoil.store.redact import Redactor
from counterfoil.store.viewing import Viewer

if TYPE_CHECKING:
    from counterfoil.store.auditing import Auditor
    from counterfoil.store.authorizing import Authorizing
    from counterfoil.store.beginning import Beginning
    from counterfoil.store.checking import Checker
    from counterfoil.store.finding import Finder
    from counterfoil.store.keeping import Keeper
    from counterfoil.store.planning import Planner
    from counterfoil.store.requesting import Requesting
    from counterfoil.store.run_commands import RunCommands
    from counterfoil.store.settling import Settling
    from counterfoil.store.tokening import Bearer, Tokening
    from counterfoil.store.verifying import Verifier

__all__ = ["Journal"]

Given = TypeVar("Given")


class Journal:
    """One namespace of one journal."""

    def __init__(
        self,
        database: Database,
        *,
        identity: JournalIdentity,
        redactor: Redactor,
        namespace: str,
        policy: Policy,
        clock: Callable[[], Reading],
        limits: Limits,
        prober: Prober | None = None,
    ) -> None:
        """Use an open database. `clock` is read once per command, inside its transaction."""
        self.database = database
        self.history = OwnHistory(database, namespace, lost_at=policy.history_lost_at)
        self.identity = identity
        self.namespace = namespace
        self.policy = policy
        self._redactor = redactor
        self._clock = clock
        self._limits = limits
        self._prober = prober
        self._prepare = Preparer(namespace=namespace, redactor=redactor, limits=limits)
        self._present = Presenter(policy)
        self._view = Viewer(
            database=self.history,
            namespace=namespace,
            policy=policy,
            clock=clock,
            prepare=self._prepare,
            present=self._present,
        )
        self._attending = Attending(self._view)
        self.calls = AttendedCalls(self._view)

    # Loaded when first needed: who records one receipt and ends should not wait for what exports journals.

    @cached_property
    def reader(self) -> "Auditor":
        """Looks through the whole journal."""
        from counterfoil.store.auditing import Auditor

        return Auditor(self._view)

    @cached_property
    def keeper(self) -> "Keeper":
        """Keeps the journal itself in order."""
        from counterfoil.store.keeping import Keeper

        return Keeper(self._view, identity=self.identity)

    @cached_property
    def _beginning(self) -> "Beginning":
        """Begins operations."""
        from counterfoil.store.beginning import Beginning

        return Beginning(self._view, self._attending)

    @cached_property
    def _settling(self) -> "Settling":
        """Takes what is told of an operation."""
        from counterfoil.store.settling import Settling

        return Settling(self._view)

    @cached_property
    def _runs(self) -> "RunCommands":
        """Begins, holds and finishes whole runs."""
        from counterfoil.store.run_commands import RunCommands

        return RunCommands(self._view)

    @cached_property
    def _authorizing(self) -> "Authorizing":
        """Gives authority and takes it back."""
        from counterfoil.store.authorizing import Authorizing

        return Authorizing(self._view, self._requesting)

    @cached_property
    def _requesting(self) -> "Requesting":
        """Keeps what agents ask a person for."""
        from counterfoil.store.requesting import Requesting

        return Requesting(self._view)

    @cached_property
    def _tokening(self) -> "Tokening":
        """Keeps the bearer tokens."""
        from counterfoil.store.tokening import Tokening

        return Tokening(self._view)

    @cached_property
    def _checker(self) -> "Checker":
        """Tells of one operation."""
        from counterfoil.store.checking import Checker

        return Checker(self._view)

    @cached_property
    def _planner(self) -> "Planner":
        """Makes plans."""
        from counterfoil.store.planning import Planner

        return Planner(self._view, identity=self.identity)

    @cached_property
    def _finder(self) -> "Finder":
        """Searches."""
        from counterfoil.store.finding import Finder

        return Finder(self._view)

    @cached_property
    def _verifier(self) -> "Verifier":
        """Looks with the configured probes."""
        from counterfoil.store.verifying import Verifier

        return Verifier(self._view, prober=self._prober, reconcile=self.reconcile_operation)

    async def of_namespace(self, namespace: str) -> "Journal":
        """Give another namespace of this journal: the same database and rules, and not one fact in common.

        Raises:
            JournalUnavailable: what the journal says of itself, or of that namespace, cannot be read.
        """
        identity = (await read_marks(self.database, namespace, named="the journal")).identity
        return Journal(
            self.database,
            identity=identity,
            redactor=self._redactor,
            namespace=namespace,
            policy=replace(self.policy, history_lost_at=identity.restored_at),
            clock=self._clock,
            limits=self._limits,
            prober=self._prober,
        )

    async def begin_operation(self, command: BeginOperation, caller: Caller) -> dict[str, Any]:
        """Ask for permission to perform one effect; only `next: perform` gives it.

        Raises:
            InvalidArgument, TooLarge, NotFound: the call cannot be taken as made; nothing was recorded.
            JournalUnavailable: nothing was recorded; the effect must not be performed.
        """
        return await self.history.write(self._beginning.begin(command, caller))

    async def begin_unattended(
        self,
        begin: Callable[[str | None], BeginOperation],
        caller: Caller,
        *,
        mark: Mark,
        run: str | None,
        apart_from: str,
    ) -> dict[str, Any] | Attendance:
        """Begin an operation on behalf of a caller, unless the caller itself may have begun it.

        `begin` gives the command for `run`, or else for the run that the caller holds, if it holds one.
        Where a mark is on file, or the caller has live attempts on a connection whose name does not begin
        with `apart_from`, nothing is begun, and that is given instead. Both are one transaction: an attempt
        that the caller begins meanwhile comes before it, and is seen, or after.

        Raises:
            As `begin_operation`.
        """
        return await self.history.write(
            self._beginning.begin_unattended(begin, caller, mark=mark, run=run, apart_from=apart_from)
        )

    async def record_receipt(self, command: RecordReceipt, caller: Caller) -> dict[str, Any]:
        """Keep evidence of the effect; never refused for being late.

        Raises:
            InvalidArgument, TooLarge, NotFound, Ambiguous: nothing was recorded.
            JournalUnavailable: NOT stored; keep the receipt and send it again.
        """
        return await self.history.write(self._settling.receipt(command, caller))

    async def record_failure(self, command: RecordFailure, caller: Caller) -> dict[str, Any]:
        """Take an agent's word about its own attempt.

        Raises:
            InvalidArgument, TooLarge, NotFound: nothing was recorded.
            JournalUnavailable: NOT stored.
        """
        return await self.history.write(self._settling.failure(command, caller))

    async def reconcile_operation(self, command: ReconcileOperation, caller: Caller) -> dict[str, Any]:
        """Take what looking at the performing system showed.

        Raises:
            InvalidArgument, TooLarge, NotFound: nothing was recorded.
            JournalUnavailable: NOT stored.
        """
        return await self.history.write(self._settling.finding(command, caller))

    async def verify_operation(self, command: VerifyOperation, caller: Caller) -> dict[str, Any]:
        """Let the operator's probe look, and record what it saw. See `Verifier.verify`."""
        return await self._verifier.verify(command, self._prepare.caller(caller))

    async def close_operation(self, command: CloseOperation, caller: Caller) -> dict[str, Any]:
        """Take the explicit decision to stop waiting or to give up.

        Raises:
            InvalidArgument, TooLarge, NotFound: nothing was recorded.
            JournalUnavailable: NOT stored.
        """
        return await self.history.write(self._settling.close(command, caller))

    async def begin_run(self, command: BeginRun, caller: Caller) -> dict[str, Any]:
        """Start a run or come back to it, and give the first page of its plan.

        Raises:
            InvalidArgument, TooLarge: nothing was recorded.
            JournalUnavailable: nothing was recorded.
        """
        return await self.history.write(self._runs.begin(command, caller, planner=self._planner))

    async def set_spec(self, command: SetSpec, caller: Caller) -> dict[str, Any]:
        """Give a run the specification that it is held against; whoever holds the run keeps it.

        Raises:
            InvalidArgument, TooLarge, NotFound: nothing was recorded.
            JournalUnavailable: nothing was recorded.
        """
        return await self.history.write(self._runs.set_spec(command, caller))

    async def record_progress(self, command: RecordProgress, caller: Caller) -> dict[str, Any]:
        """Take word of progress on an operation or a run, and prolong the lease or the hold.

        Raises:
            InvalidArgument, TooLarge, NotFound: nothing was recorded.
            JournalUnavailable: NOT recorded; do not send.
        """
        ref = command.ref
        # An attempt is one operation's: whoever names it wants that lease, and must not take a hold for it.
        is_of_run = ref.operation is None and ref.key is None and command.attempt is None
        if is_of_run and ref.run is not None:
            return await self.history.write(self._runs.progress(ref.run, command, caller))
        return await self.history.write(self._settling.progress(command, caller))

    async def finish_run(self, command: FinishRun, caller: Caller) -> dict[str, Any]:
        """Finish a run, or say what stands against it.

        Raises:
            InvalidArgument, TooLarge, NotFound: nothing was recorded.
            JournalUnavailable: NOT recorded.
        """
        return await self.history.write(self._runs.finish(command, caller))

    async def release_run(self, command: ReleaseRun, caller: Caller) -> dict[str, Any]:
        """End the hold that a session has on a run, which only a person can.

        Raises:
            InvalidArgument, TooLarge, NotFound, Forbidden: nothing was recorded.
            JournalUnavailable: NOT recorded.
        """
        return await self.history.write(self._runs.release(command, caller))

    async def preview_release(self, run: str) -> dict[str, Any]:
        """Show who holds a run, for the person who is about to end it; changes nothing.

        Raises:
            InvalidArgument, NotFound: which run is meant cannot be told.
        """
        return await self.history.read(self._runs.preview_release(run))

    async def list_criteria(self, run: str) -> list[dict[str, Any]]:
        """Tell where each criterion of a run stands; changes nothing.

        Raises:
            InvalidArgument, NotFound: which run is meant cannot be told.
        """
        return await self.history.read(self._runs.criteria(run))

    async def check_operation(self, command: CheckOperation, caller: Caller) -> dict[str, Any]:
        """Tell what is known of one operation; changes nothing. See `Checker.check`."""
        return await self._checker.check(command, caller)

    async def resume_plan(self, command: ResumePlan, caller: Caller) -> dict[str, Any]:
        """Tell what is done, in doubt and allowed; changes nothing. See `Planner.plan`."""
        return await self._planner.plan(command, caller)

    async def count_operations(self) -> tuple[list[StateCount], Instant]:
        """Count the operations of every namespace by state, for the operator; the moment comes with them."""

        async def work(connection: Connection) -> tuple[list[StateCount], Instant]:
            now = self._view.now(connection).at
            return await count_operations(connection, now), now

        return await self.history.read(work)

    async def find_operations(self, command: FindOperations, caller: Caller) -> dict[str, Any]:
        """Search for operations; changes nothing. See `Finder.find`."""
        return await self._finder.find(command, caller)

    def hidden(self, value: Json) -> Json:
        """Give a value with its secrets replaced. See `Attending.hidden`."""
        return self._attending.hidden(value)

    async def attendance(
        self, caller: Caller, *, mark: Mark | None = None, run: str | None = None
    ) -> Attendance:
        """Tell which run a conversation holds, and its live attempts. See `Attending.attendance`."""
        return await self._attending.attendance(caller, mark=mark, run=run)

    async def note_compaction(self, caller: Caller) -> bool:
        """Take down that the caller's conversation lost its memory. See `compacting.note_compaction`."""
        from counterfoil.store.compacting import note_compaction

        return await note_compaction(self._view, self._prepare.caller(caller))

    async def recorded(self, ref: OperationRef) -> Recorded:
        """Give what is on record of an operation, whole. See `Attending.recorded`."""
        return await self._attending.recorded(ref)

    async def suggest(self, kind: Literal["run", "operation"], beginning: str) -> tuple[list[str], bool]:
        """Give names that begin so, for completion. See `Finder.suggest`."""
        return await self._finder.suggest(kind, beginning)

    async def request_authority(self, command: RequestAuthority, caller: Caller) -> dict[str, Any]:
        """Ask for a person's permission; see `Requesting.request`."""
        return await self._authorize(self._requesting.request, command, caller)

    async def grant(self, command: GrantAuthority, caller: Caller) -> dict[str, Any]:
        """Give a permission, which only a person can; see `Authorizing.grant`."""
        return await self._authorize(self._authorizing.grant, command, caller)

    async def revoke(self, command: RevokeGrant, caller: Caller) -> dict[str, Any]:
        """Take a permission back, which only a person can; see `Authorizing.revoke`."""
        return await self._authorize(self._authorizing.revoke, command, caller)

    async def decline_request(self, request: str, caller: Caller) -> dict[str, Any]:
        """Say no to a request, which only a person can; see `Requesting.decline`."""
        return await self._authorize(self._requesting.decline, request, caller)

    def vouch(self, text: str) -> str:
        """Give what later proves, to every server of this journal, that one of them wrote `text` here."""
        return self._redactor.vouch(canonical_json([self.namespace, text]))

    async def list_requests(self, *, state: str | None = "waiting") -> list[dict[str, Any]]:
        """List what agents asked for; changes nothing."""
        return await self._requesting.requests(state)

    async def list_grants(self) -> list[dict[str, Any]]:
        """List what was permitted; changes nothing."""
        return await self._authorizing.grants()

    async def preview_grant(self, command: GrantAuthority) -> dict[str, Any]:
        """Show what a grant would permit, for the person who is about to give it; changes nothing."""
        return await self._authorizing.preview(command)

    async def issue_token(self, command: IssueToken, caller: Caller) -> dict[str, Any]:
        """Put a bearer token on file, which only a person can; see `Tokening.issue`."""
        return await self._authorize(self._tokening.issue, command, caller)

    async def revoke_token(self, name: str, caller: Caller) -> dict[str, Any]:
        """Take a bearer token back, which only a person can; see `Tokening.revoke`."""
        return await self._authorize(self._tokening.revoke, name, caller)

    async def list_tokens(self) -> list[dict[str, Any]]:
        """List the bearer tokens of this namespace; changes nothing."""
        return await self.history.read(self._tokening.listed)

    async def bearer(self, sha256: str) -> "Bearer | None":
        """Tell whom the token with this digest stands for, in whichever namespace; None where for nobody.

        Raises:
            JournalUnavailable: it cannot be told now.
        """

        async def work(connection: Connection) -> "Bearer | None":
            return await self._tokening.bearer(connection, sha256)

        return await self.history.read(work)

    async def _authorize(
        self,
        carry_out: Callable[[Connection, Given, Caller, Situation], Awaitable[dict[str, Any]]],
        given: Given,
        caller: Caller,
    ) -> dict[str, Any]:
        caller = self._prepare.caller(caller)

        async def work(connection: Connection) -> dict[str, Any]:
            return await carry_out(connection, given, caller, self._view.situation(connection, caller))

        return await self.history.write(work)
