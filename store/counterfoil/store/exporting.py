"""Exports: the logs of runs with all that they refer to, as JSON Lines that any journal can take in.

The lines, each an object with a `type`, in ASCII:

- `header`: `format` and `version`, the `journal`, the `namespace`, `exported_at`, and `counts` at the start;
  where the journal was put back from a backup, `lacks` says from when to when, and the version is 2, so that
  a program which does not know of that takes nothing;
- for each run a `run`, then its bodies (`body`), its contexts (`context`, each once in a file) and its events
  (`event`) with the texts and hashes as they are stored, so that the chain can be proved from the file;
- `end`: how many lines and how much of what came before it, and a digest of every byte before it. A file
  without it was cut.

Rows are no part of it: they follow from the events. Secrets are not either, as the journal holds none, and
the key under which it digests them stays where it is. Each run is a consistent cut: its log up to where it
was when its turn came.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from counterfoil.store.chain import first_fault, genesis
from counterfoil.store.contexts import named_contexts
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.errors import BodyDamaged, JournalUnavailable
from counterfoil.store.lost_history import lack_of, unfinished
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.resolving import as_recorded, no_such_run
from counterfoil.store.viewing import Viewer

if TYPE_CHECKING:
    from counterfoil.store.journal_identity import JournalIdentity

__all__ = ["FORMAT", "VERSION", "VERSION_THAT_LACKS", "Exporter"]

FORMAT = "counterfoil-export"
VERSION = 1
VERSION_THAT_LACKS = 2

_ROWS_AT_ONCE = 500
_EVENT = ("seq", "operation", "kind", "at", "caller", "data", "hash")


class Exporter:
    """Exports one namespace, a page at a time: memory does not grow with the journal."""

    def __init__(self, view: Viewer, *, identity: "JournalIdentity") -> None:
        self._view = view
        self._identity = identity
        self._hash = hashlib.sha256()
        self._counts = dict.fromkeys(("runs", "operations", "events", "bodies", "contexts"), 0)
        self._contexts: set[str] = set()
        self._lines = 0

    async def lines(self, run: str | None) -> AsyncIterator[str]:
        """Give the lines of the export of one run, or of all, each with its line break.

        Raises:
            NotFound: there is no run of that name.
            JournalUnavailable: a run is damaged; what was given before that is no export.
            Forbidden: what is copied or imported into this has not come whole yet.
        """
        name = None if run is None else self._view.prepare.name(run, name="run")
        yield self._line(await self._header(name))
        after = ""
        while rows := await self._runs(name, after):
            for row in rows:
                async for line in self._run(row):
                    yield line
            after = rows[-1]["run"]
            if name is not None:
                break
        end = {"type": "end", "lines": self._lines, "counts": self._counts}
        yield self._line({**end, "digest": f"sha256:{self._hash.hexdigest()}"})

    def _line(self, value: dict[str, Any]) -> str:
        line = json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n"
        self._hash.update(line.encode())
        self._lines += 1
        return line

    async def _header(self, run: str | None) -> dict[str, Any]:
        namespace = self._view.namespace

        async def work(connection: Connection) -> tuple[Row | None, Instant]:
            if run is not None:
                row = await connection.fetch_one("read_run", {"namespace": namespace, "run": run})
                if row is None:
                    raise await no_such_run(connection, namespace, run)
            counts = await connection.fetch_one("count_runs", {"namespace": namespace, "run": run})
            return counts, self._view.now(connection).at

        counts, now = await self._view.database.read(work)
        lack = await lack_of(self._view)
        if lack is not None and lack.copy_of is not None:
            raise unfinished(lack, to_be="exported")
        lacks = None if lack is None else {"since": lack.backed_up_at, "until": lack.restored_at}
        return {
            "type": "header",
            "format": FORMAT,
            "version": VERSION if lacks is None else VERSION_THAT_LACKS,
            "journal": {"id": self._identity.id, "created_at": rfc3339(self._identity.created_at)},
            "namespace": namespace,
            "exported_at": rfc3339(now),
            "counts": dict(counts or {}),
            **({} if lacks is None else {"lacks": lacks}),
        }

    async def _runs(self, run: str | None, after: str) -> Sequence[Row]:
        place = {"namespace": self._view.namespace}

        async def work(connection: Connection) -> Sequence[Row]:
            if run is not None:
                row = await connection.fetch_one("read_run", {**place, "run": run})
                return () if row is None else (row,)
            return await connection.fetch_all("runs_page", {**place, "after": after, "most": _ROWS_AT_ONCE})

        return await self._view.database.read(work)

    async def _run(self, row: Row) -> AsyncIterator[str]:
        self._counts["runs"] += 1
        shown = ("run", "created_at", "last_seq", "head", "operations", "workflow", "workflow_version")
        yield self._line({"type": "run", **{name: row[name] for name in shown}})
        async for body in self._pages("audit_bodies", row, "digest", ""):
            _hold(row, body["body"], body["digest"], what="a body")
            self._counts["bodies"] += 1
            yield self._line({"type": "body", **dict(body)})
        proved = (0, genesis(row["namespace"], row["run"]))
        async for event in self._pages("audit_events", row, "seq", 0):
            if event["seq"] > row["last_seq"]:
                break
            _prove(row, (event,), after=proved, last_seq=event["seq"], head=event["hash"])
            proved = (event["seq"], event["hash"])
            for line in await self._new_contexts(row, json.loads(event["data"])):
                yield line
            self._counts["events"] += 1
            self._counts["operations"] += event["kind"] == "operation_created"
            yield self._line({"type": "event", **{name: event[name] for name in _EVENT}})
        _prove(row, (), after=proved, last_seq=row["last_seq"], head=row["head"])

    async def _pages(self, statement: str, run: Row, by: str, start: Any) -> AsyncIterator[Row]:
        after = start
        while True:
            parameters = {
                "namespace": self._view.namespace,
                "run": run["run"],
                "after": after,
                "most": _ROWS_AT_ONCE,
            }

            async def work(connection: Connection, parameters: dict[str, Any] = parameters) -> Sequence[Row]:
                return await connection.fetch_all(statement, parameters)

            rows = await self._view.database.read(work)
            for row in rows:
                yield row
            if not rows:
                return
            after = rows[-1][by]

    async def _new_contexts(self, run: Row, data: dict[str, Any]) -> list[str]:
        """Give the contexts that an event is the first in this file to refer to."""
        lines = []
        for digest in named_contexts(data):
            if digest in self._contexts:
                continue
            self._contexts.add(digest)
            place = {"namespace": self._view.namespace, "digest": digest}
            row = await self._view.database.read(partial(_context, place=place))
            if row is not None:
                _hold(run, row["body"], digest, what="a context")
                self._counts["contexts"] += 1
                lines.append(self._line({"type": "context", "digest": digest, "body": row["body"]}))
        return lines


def _prove(run: Row, events: Sequence[Row], *, after: tuple[int, str], last_seq: int, head: str) -> None:
    """Make sure that the log goes on as it was written: no journal takes in a file with one that does not."""
    place = {"namespace": run["namespace"], "run": run["run"]}
    fault = first_fault(events, **place, last_seq=last_seq, head=head, after=after)
    if fault is not None:
        raise _damaged(run, f"its log does not hold: {fault.problem}")


def _hold(run: Row, text: object, digest: str, *, what: str) -> None:
    """Make sure that a text is what was kept under its digest."""
    try:
        as_recorded(text, digest, what=what)
    except BodyDamaged:
        raise _damaged(run, f"{what} is not what was recorded ({digest})") from None


def _damaged(run: Row, problem: str) -> JournalUnavailable:
    return JournalUnavailable(
        f"run {run['run']} is damaged: {problem}; no journal would take in an export that holds it",
        fix="run `counterfoil verify`, and restore a backup; other runs can be exported one by one (--run)",
    )


async def _context(connection: Connection, *, place: Mapping[str, str]) -> Row | None:
    return await connection.fetch_one("read_context", place)
