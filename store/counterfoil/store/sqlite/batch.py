"""Group commit: callers that wait together are committed together, with one `fsync` for all of them.

Every caller queues its work and then a hop to the writing thread. The first hop to arrive there takes all
works that wait, runs each in a savepoint, commits once and notes every outcome; the hops behind it find
their work done. So a batch is what queued up during the commit before: a lone caller waits for nobody, and
there is no task that could be cancelled, die or be forgotten.
"""

import sqlite3
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

from counterfoil.store.errors import Fault
from counterfoil.store.failpoints import failpoint
from counterfoil.store.history_marks import HistoryMarks
from counterfoil.store.protocol import Work
from counterfoil.store.sqlite.binding import Bindings
from counterfoil.store.sqlite.faults import fault_for
from counterfoil.store.sqlite.guard import Guard
from counterfoil.store.sqlite.outcome import Outcome
from counterfoil.store.sqlite.transaction import Transaction, drive
from counterfoil.store.sqlite.turns import Turns

__all__ = ["BATCH_LIMIT", "GroupCommit", "Job"]

BATCH_LIMIT = 128
"""At most this many works share a commit: beyond it the saving is nil and the first caller waits for all."""

Result = TypeVar("Result")


class Job(Outcome[Result]):
    """One work, and its outcome once it is durable or has failed."""

    __slots__ = ("work",)

    def __init__(self, work: Work[Result]) -> None:
        super().__init__()
        self.work = work


class _BatchLost(Exception):
    """The transaction cannot be committed; `error` says why, `recorded` what is known of it."""

    def __init__(self, error: BaseException, *, recorded: bool | None = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.recorded = recorded


class GroupCommit:
    """The works that wait for the writing connection; everything but `add` runs in its thread."""

    def __init__(self, bindings: Bindings, guard: Guard, turns: Turns) -> None:
        self._bindings = bindings
        self._guard = guard
        self._turns = turns
        self._waiting: deque[Job[Any]] = deque()

    def add(self, job: Job[Any]) -> None:
        """Queue `job`; its caller then hops to `commit_until`."""
        self._waiting.append(job)

    def commit_until(self, raw: sqlite3.Connection, job: Job[Any]) -> None:
        """Commit what waits, batch by batch, until `job` has its outcome; never raises."""
        while not (job.is_known or job.is_withdrawn):
            batch = self._take()
            if not batch:
                return
            try:
                self._commit(raw, batch)
            except _BatchLost as lost:
                self._lose(raw, batch, lost)
            except BaseException as error:
                self._lose(raw, batch, _BatchLost(error))

    def _take(self) -> list[Job[Any]]:
        batch: list[Job[Any]] = []
        while self._waiting and len(batch) < BATCH_LIMIT:
            job = self._waiting.popleft()
            if not job.is_withdrawn:
                batch.append(job)
        return batch

    def _commit(self, raw: sqlite3.Connection, batch: Sequence[Job[Any]]) -> None:
        failpoint("before_begin")
        marks = self._guard.begin(raw, "BEGIN IMMEDIATE")
        failpoint("after_begin")
        results = [self._run(raw, job, marks, is_alone=len(batch) == 1) for job in batch]
        failpoint("before_commit")
        if len(batch) > 1 or results[0][1] is None:
            self._end(raw)
        # The file may have been deleted under the commit, which then went nowhere.
        self._guard.check_place(recorded=None)
        failpoint("after_commit")
        for job, (result, error) in zip(batch, results, strict=True):
            if error is None:
                job.succeed(result)
            else:
                job.fail(error)

    def _run(
        self, raw: sqlite3.Connection, job: Job[Any], marks: HistoryMarks, *, is_alone: bool
    ) -> tuple[Any, BaseException | None]:
        """Run one work so that its failure undoes its own writes and nothing else."""
        transaction = Transaction(raw, self._bindings, marks=marks, is_read_only=False)
        result, error = None, None
        try:
            if not is_alone:
                raw.execute("SAVEPOINT work")
            try:
                result = drive(job.work(transaction))
            except BaseException as raised:
                error = raised
            finally:
                transaction.end()
            if transaction.lost_to is not None:
                raise _BatchLost(transaction.lost_to)
            if is_alone and error is not None:
                raw.execute("ROLLBACK")
            elif not is_alone:
                if error is not None:
                    raw.execute("ROLLBACK TO work")
                raw.execute("RELEASE work")
        except sqlite3.Error as lost:
            raise _BatchLost(lost) from lost
        return result, error

    def _end(self, raw: sqlite3.Connection) -> None:
        try:
            with self._turns.commit():
                self._guard.wait.execute(raw, "COMMIT")
        except sqlite3.Error as error:
            recorded = None if self._may_be_durable(error) else False
            raise _BatchLost(error, recorded=recorded) from error

    def _may_be_durable(self, error: sqlite3.Error) -> bool:
        """Tell whether a COMMIT that failed with `error` may turn out to be durable all the same.

        BUSY and FULL come up before the commit's last step. So does a failed write in rollback mode: the
        step is itself a write, of the journal's header. Other I/O errors (a failed fsync or truncate) can
        follow it, and in WAL mode a commit frame may be whole although a later write failed.
        """
        code = error.sqlite_errorcode
        if code == sqlite3.SQLITE_IOERR_WRITE:
            return self._guard.mode == "wal"
        return code & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM)

    def _lose(self, raw: sqlite3.Connection, batch: Sequence[Job[Any]], lost: _BatchLost) -> None:
        self._guard.roll_back(raw)
        for job in batch:
            error = lost.error
            if isinstance(error, sqlite3.Error):
                mapped = fault_for(error, statement="COMMIT", recorded=lost.recorded)
                mapped.__cause__ = error
                job.fail(mapped)
            elif isinstance(error, Fault) and len(batch) > 1:
                job.fail(_again(error))
            else:
                job.fail(error)


def _again(fault: Fault) -> Fault:
    """Give each caller a fault of its own: one exception raised in many tasks mixes their tracebacks."""
    own = fault.__class__.__new__(fault.__class__, *fault.args)
    own.__dict__.update(fault.__dict__)
    own.__cause__ = fault.__cause__
    return own
