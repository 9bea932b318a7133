"""Examines the journal: `check`."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct, field
from rich.text import Text

from counterfoil.server.people import rendering as show
from counterfoil.server.people.gaps import Gap, gap_of, gap_words
from counterfoil.server.people.gathering import whole_plan, whole_runs
from counterfoil.server.people.output import write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command
from counterfoil.store.domain.instants import parse_rfc3339
from counterfoil.store.errors import Fault
from counterfoil.store.protocol import Connection

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["Examination", "check", "examination_lines", "examine"]

_OPEN_STATES = ("disputed", "in_doubt", "in_progress")
_LEAST_FREE_BYTES = 64 * 2**20
"""Below this a server may soon be refused its next commit."""

_CLOCK_TOLERANCE = 60 * 1_000_000
_MOST_NAMED = 10
_STEP_SHOWN = ("operation", "key", "state", "age_seconds")


class Examination(Struct, kw_only=True):
    """What was looked at, and what is wrong with it: each problem says what to do."""

    facts: Mapping[str, str | float] = field(default_factory=dict)
    journal: Mapping[str, Any] = field(default_factory=dict)
    runs: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    open_questions: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)
    gap: Gap | None = None

    @property
    def status(self) -> str:
        """The one word: ok, or wanting."""
        return "wanting" if self.problems else "ok"

    def add(self, problem: str, fix: str) -> None:
        """Find something wrong."""
        self.problems.append({"problem": problem, "fix": fix})

    def as_dict(self) -> dict[str, Any]:
        """Give it for a program."""
        in_doubt = {name: self.counts.get(name, 0) for name in ("in_doubt", "disputed")}
        return {
            "status": self.status,
            "problems": self.problems,
            "journal": {**self.journal, **self.facts},
            "runs": self.runs,
            "operations": sum(self.counts.values()),
            "counts": self.counts,
            "open_questions": {**in_doubt, "oldest": self.open_questions[:_MOST_NAMED]},
        }


async def examine(journal: "Journal", request: Request) -> Examination:
    """Look at the whole of an open journal, and try whether it can be written.

    Raises:
        JournalUnavailable: it cannot be read or written at all.
    """
    found = Examination(facts=await journal.database.facts())

    async def nothing(connection: Connection) -> None:
        """Take the writer's lock and write nothing: a read-only or locked file shows here."""

    await journal.database.write(nothing)
    await _examine_file(journal, found)
    try:
        await _examine_contents(journal, request, found)
    except Fault:
        raise
    except Exception as error:
        found.add(
            f"what it holds cannot be read ({type(error).__name__})",
            "stop the servers and run `counterfoil verify`; restore a backup if it finds faults",
        )
    return found


async def _examine_file(journal: "Journal", found: Examination) -> None:
    facts = found.facts
    path = str(facts["path"]) if "path" in facts else None
    integrity = getattr(journal.database, "integrity", None)
    if integrity is not None:
        faults = await integrity()
        faults = [] if faults == ["ok"] else faults
        if faults:
            found.add(
                f"the file is corrupt: {show.counted(len(faults), 'fault')}, the first: {faults[0]}",
                "stop the servers, keep a copy of the file, restore a backup",
            )
    if facts.get("synchronous") not in (None, "FULL"):
        found.add("commits are not durable: synchronous is not FULL", "use a standard build of SQLite")
    if int(str(facts.get("file_mode", "0")), 8) & 0o077:
        found.add(f"others may read it: mode {facts['file_mode']}", f"chmod 600 {path}")
    if path is not None:
        if os.stat(path).st_nlink > 1:
            # SQLite keeps what a crash leaves to be undone beside the name that the file was opened by.
            found.add(
                "the file has another name (a hard link): a process that opens it by that one can damage it",
                f"stop the servers and remove the other name: `find / -samefile {path}` shows it",
            )
        place = os.statvfs(path)
        free = place.f_bavail * place.f_frsize
        if free < _LEAST_FREE_BYTES:
            found.add(f"only {show.size(free)} are free on its disk", "make room: a full disk stops it")


async def _examine_contents(journal: "Journal", request: Request, found: Examination) -> None:
    caller = request.caller("check")
    found.gap = await gap_of(journal)
    answer = await whole_runs(journal, caller, include="all")
    found.journal, found.runs = answer["journal"], len(answer["runs"])
    for run in answer["runs"]:
        for name, number in run["counts"].items():
            found.counts[name] = found.counts.get(name, 0) + number
        if run.get("missing") or sum(run["counts"].values()) != run["operations"]:
            found.add(
                f"run {run['run']} misses operations",
                "stop the servers and run `counterfoil verify`",
            )
        if any(run["counts"].get(name) for name in ("in_doubt", "disputed")):
            plan = await whole_plan(journal, caller, run=run["run"], include="open")
            if plan.get("damaged"):
                found.add(
                    f"{show.counted(plan['damaged'], 'operation')} of run {run['run']} cannot be read",
                    "stop the servers and run `counterfoil verify`; restore a backup if it finds faults",
                )
            found.open_questions += [
                {
                    "run": run["run"],
                    **{name: step[name] for name in ("operation", "key", "state", "age_seconds")},
                }
                for step in plan["steps"]
                if step["state"] in ("in_doubt", "disputed")
            ]
    found.open_questions.sort(key=lambda step: -step["age_seconds"])
    newest = await journal.reader.tail(limit=1)
    if newest:
        behind = parse_rfc3339(newest[-1]["at"], field="at") - parse_rfc3339(answer["as_of"], field="as_of")
        if behind > _CLOCK_TOLERANCE:
            found.add(
                f"the clock of this machine is {show.age(behind / 1_000_000)} behind the newest event",
                "set the clock: leases and settle times are counted by it",
            )


@teaching_command(
    short="is the journal in order? how much is in doubt?",
    examples=["counterfoil check", "counterfoil check --json | jq .open_questions"],
)
def check(request: Request) -> int:
    """Say whether the journal is in order, and how much in it is in doubt.

    It opens the journal, tries its lock, has SQLite look at every page (no commit is possible meanwhile)
    and counts. Exit code 1: found wanting; 3: it cannot be used. Operations in doubt are named and are
    no fault of the journal's.
    """

    async def work() -> Examination:
        async with request.journal() as journal:
            return await examine(journal, request)

    found = anyio.run(work)
    if request.as_json:
        write_json(found.as_dict())
    else:
        write(show.rendered(examination_lines(found)))
    return 1 if found.problems else 0


def examination_lines(found: Examination) -> Any:
    """Show an examination: the word first, then what stands behind it."""
    facts = found.facts
    version = facts.get("sqlite_version") or facts.get("server_version", "")
    file = ", ".join(
        str(part)
        for part in (
            f"{facts.get('engine')} {version}".strip(),
            facts.get("journal_mode") or facts.get("isolation"),
            facts.get("file_system"),
            f"mode {facts['file_mode']}" if "file_mode" in facts else None,
            show.size(float(facts["size_bytes"])) if "size_bytes" in facts else None,
        )
        if part
    )
    in_all, is_open = sum(found.counts.values()), sum(found.counts.get(name, 0) for name in _OPEN_STATES)
    return show.facts(
        [
            ("check", Text(found.status, "bold red" if found.problems else "bold green")),
            *(
                item
                for problem in found.problems
                for item in (
                    ("problem", show.plain(problem["problem"], "red")),
                    ("to do", show.plain(problem["fix"])),
                )
            ),
            ("journal", show.plain(facts.get("path") or facts.get("location"))),
            ("", show.plain(file)),
            ("history", None if found.gap is None else show.plain(gap_words(found.gap), "bold yellow")),
            ("runs", show.plain(found.runs)),
            (
                "operations",
                Text.assemble(f"{in_all} in all: ", show.counts(found.counts)) if in_all else "none",
            ),
            ("open", f"{is_open} of these: disputed, in doubt or in progress" if is_open else None),
            *(
                (
                    "longest open" if index == 0 else "",
                    Text.assemble(
                        show.state(step["state"]),
                        f" {show.age(step['age_seconds'])}: ",
                        show.plain(step["key"]),
                        " in ",
                        show.plain(step["run"]),
                    ),
                )
                for index, step in enumerate(found.open_questions[:_MOST_NAMED])
            ),
        ]
    )
