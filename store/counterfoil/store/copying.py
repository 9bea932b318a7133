"""Copies a namespace of one journal to another: run by run, as often as one likes, begun again at any point.

What was copied is known by the logs themselves, so no cursor is kept anywhere. A run whose log is the same on
both sides is left alone. One whose log goes on where the other's ends is gone on with, event by event, hashes
included, so that one chain proves it in either journal; that is how a run travels to a database and back.
Where both went on by themselves, the other side's evidence is weighed as an import weighs it, and nothing is
set back.

What no run holds stays where it is: permissions and requests, and what a person accepted as lost. Only what
permits nothing goes along, since without it effects would be permitted again: the mark that a journal lacks
history (`lost_history`), and when conversations were compacted.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from counterfoil.store.compacting import copy_compactions
from counterfoil.store.copied_parts import Part, read_part
from counterfoil.store.damaged_rows import refuse_damaged
from counterfoil.store.domain.commands import Caller
from counterfoil.store.domain.model import Operation
from counterfoil.store.errors import InvalidArgument, JournalUnavailable
from counterfoil.store.given_runs import RunReader, Standing
from counterfoil.store.importing import Conflict, RunImport
from counterfoil.store.lost_history import Lack, closes_gap, lack_of
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.rows import load_operation, run_from_row
from counterfoil.store.taking_over import take_over
from counterfoil.store.viewing import Viewer, runs_by_name

if TYPE_CHECKING:
    from counterfoil.store.journal_identity import JournalIdentity

__all__ = ["Copied", "Copier", "Progress", "is_one_log"]

_MOST_TRIES = 5
_MOST_EVIDENCE_BYTES = 256 * 1024 * 1024
"""A run whose logs have parted is weighed as a whole, in memory."""


class Progress(Struct, frozen=True, kw_only=True):
    """How far a copy, or its check, has come: operations of the journal that is copied."""

    step: str
    done: int
    in_all: int


class Copied(Struct, kw_only=True):
    """What a copy came to, in runs; `parted` are those whose logs went on apart."""

    from_journal: str
    to_journal: str
    runs: int = 0
    runs_new: int = 0
    runs_gone_on: int = 0
    runs_same: int = 0
    runs_ahead: int = 0
    runs_parted: int = 0
    events: int = 0
    receipts: int = 0
    findings: int = 0
    doubts: int = 0
    live_attempts: int = 0
    held_runs: int = 0
    has_same_key: bool = False
    conflicts: list[Conflict] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """True where anything was added."""
        return bool(self.events or self.receipts or self.findings or self.doubts)


async def is_one_log(source: Viewer, target: Viewer, theirs: Row, ours: Row) -> bool:
    """Tell whether one of two logs of a run is the beginning of the other, or both are the same."""
    if ours["last_seq"] == theirs["last_seq"]:
        return bool(ours["head"] == theirs["head"])
    shorter, view = (ours, source) if ours["last_seq"] < theirs["last_seq"] else (theirs, target)
    place = {"namespace": ours["namespace"], "run": ours["run"]}

    async def work(connection: Connection) -> Sequence[Row]:
        last = {"after": shorter["last_seq"] - 1, "most": 1}
        return await connection.fetch_all("read_events", {**place, **last})

    found = await view.database.read(work)
    return bool(found and found[0]["seq"] == shorter["last_seq"] and found[0]["hash"] == shorter["head"])


class Copier:
    """Copies one namespace; see the head of this file."""

    def __init__(
        self,
        source: Viewer,
        target: Viewer,
        *,
        identities: "tuple[JournalIdentity, JournalIdentity]",
        tell: Callable[[Progress], None],
    ) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._lack: Lack | None = None
        """What the journal that is copied lacks by itself."""
        self._copied = Copied(
            from_journal=identities[0].id,
            to_journal=identities[1].id,
            has_same_key=source.prepare.redactor.has_key_of(target.prepare.redactor),
        )

    async def copy(self, caller: Caller) -> Copied:
        """Copy every run; what cannot be copied is told, and the others are.

        Raises:
            JournalUnavailable: one of the two cannot be used; what was copied before stays.
        """
        copied, caller = self._copied, self._target.prepare.caller(caller)
        self._lack = await lack_of(self._source)
        in_all = await self._look_at_source()
        await copy_compactions(self._source, self._target, caller)
        done = 0
        parted: list[Row] = []
        async for page in runs_by_name(self._source):
            for run in page:
                copied.runs += 1
                try:
                    if not await self._bring(run):
                        parted.append(run)
                except InvalidArgument as fault:
                    copied.refused.append((run["run"], fault.message))
                done += run["operations"]
                self._tell(Progress(step="copy", done=done, in_all=max(in_all, done)))
        # These come last: what undoes an operation of theirs may have come with any run.
        for run in parted:
            copied.runs_parted += 1
            try:
                await self._weigh(run, caller)
            except InvalidArgument as fault:
                copied.refused.append((run["run"], fault.message))
        return copied

    async def _look_at_source(self) -> int:
        namespace = self._source.namespace

        async def work(connection: Connection) -> tuple[Row | None, Row | None]:
            now = self._source.now(connection).at
            under_way = await connection.fetch_one("work_under_way", {"namespace": namespace, "now": now})
            return under_way, await connection.fetch_one("count_runs", {"namespace": namespace, "run": None})

        under_way, counts = await self._source.database.read(work)
        if under_way is not None:
            self._copied.live_attempts, self._copied.held_runs = under_way["attempts"], under_way["runs"]
        return 0 if counts is None else int(counts["operations"])

    async def _bring(self, run: Row) -> bool:
        """Bring one run over, part by part; False where its logs have parted."""
        copied, events_before, is_new, tries = self._copied, self._copied.events, False, 0
        while True:
            ours = await self._target.database.read(lambda connection: _run_row(connection, run))
            seq = 0 if ours is None else int(ours["last_seq"])
            is_new = is_new or ours is None
            if ours is not None and not await is_one_log(self._source, self._target, run, ours):
                return False
            if seq >= run["last_seq"]:
                break
            if not await self._go_on(run, ours):
                tries += 1
            if tries == _MOST_TRIES:
                raise InvalidArgument(
                    f"run {run['run']}", "is written to meanwhile", accepted="a journal that nobody works in"
                )
        if copied.events > events_before:
            copied.runs_new += is_new
            copied.runs_gone_on += not is_new
        else:
            copied.runs_same += seq == run["last_seq"]
            copied.runs_ahead += seq > run["last_seq"]
        return True

    async def _go_on(self, run: Row, ours: Row | None) -> bool:
        """Take over the next part of a log; False where somebody wrote to the run meanwhile."""
        seq = 0 if ours is None else ours["last_seq"]
        part = await self._source.database.read(lambda connection: read_part(connection, run, after=seq))
        standing = await self._standing(ours, part)
        given = RunReader(self._target.prepare, await self._target.moment()).read(
            part.lines(), known=standing
        )

        async def work(connection: Connection) -> bool:
            found = await closes_gap(
                connection,
                given.namespace,
                given.run,
                given.operations.values(),
                theirs=self._lack,
                now=self._target.now(connection).at,
            )
            if found is not None:
                raise InvalidArgument(
                    f"run {given.run}",
                    f"{found.key} was attempted elsewhere since TO was put back: it would hide what TO lacks",
                    accepted="a run whose gap a person has accepted (`counterfoil restore --accept-gap RUN`)",
                )
            return await take_over(connection, given, known=standing, now=self._target.now(connection).at)

        try:
            is_taken = await self._target.database.write(work)
        except JournalUnavailable as fault:
            if fault.recorded is None:
                # Whether it was taken shows when the run is looked at again.
                return False
            raise
        self._copied.events += len(part.events) if is_taken else 0
        return is_taken

    async def _standing(self, ours: Row | None, part: Part) -> Standing | None:
        if ours is None:
            return None

        async def work(connection: Connection) -> dict[str, Operation]:
            found = {}
            for name in sorted(part.operations):
                operation = await _operation(connection, self._target.namespace, name)
                if operation is not None:
                    found[name] = operation
            return found

        operations = await self._target.database.read(work)
        return Standing(
            seq=ours["last_seq"], head=ours["head"], operations=operations, run=run_from_row(ours)
        )

    async def _weigh(self, run: Row, caller: Caller) -> None:
        """Add the evidence of a run whose log has parted from the one that is here."""
        part = await self._source.database.read(
            lambda connection: read_part(connection, run, after=0, most_bytes=_MOST_EVIDENCE_BYTES)
        )
        if part.last_seq < run["last_seq"]:
            raise InvalidArgument(
                f"run {run['run']}",
                "went on in both journals, and is too large to be weighed as a whole",
                accepted=f"runs of at most {_MOST_EVIDENCE_BYTES // 2**20} MiB",
            )
        given = RunReader(self._target.prepare, await self._target.moment()).read(part.lines())
        taken = await self._target.database.write(
            lambda connection: RunImport(
                self._target,
                connection,
                given,
                caller,
                journal_id=self._copied.from_journal,
                lack=self._lack,
            ).take()
        )
        copied = self._copied
        copied.receipts += taken.receipts
        copied.findings += taken.findings
        copied.doubts += taken.doubts
        # States that differ are what the check at the end tells.
        copied.conflicts += [conflict for conflict in taken.conflicts if conflict.kind != "state"]


async def _run_row(connection: Connection, run: Row) -> Row | None:
    return await connection.fetch_one("read_run", {"namespace": run["namespace"], "run": run["run"]})


async def _operation(connection: Connection, namespace: str, name: str) -> Operation | None:
    row = await connection.fetch_one("read_operation_by_id", {"namespace": namespace, "id": name})
    operation = await load_operation(connection, row)
    refuse_damaged(operation)
    return operation
