"""Moves evidence between journals: `export` writes JSON Lines, `import` takes them in."""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import anyio
import click
from msgspec import to_builtins

from counterfoil.server.opener import open_from
from counterfoil.server.people import rendering as show
from counterfoil.server.people.new_file import new_file
from counterfoil.server.people.output import is_read, tell, write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command
from counterfoil.store.errors import InvalidArgument, JournalUnavailable

if TYPE_CHECKING:
    from counterfoil.store.importing import Taken

__all__ = ["export", "import_"]

_COPIED_BYTES = 1024 * 1024
_SHOWN = 50

_MEANINGS = {
    "effect": "the same run and key are another effect there",
    "state": "the states differ; what is here stands",
    "unfit": "the evidence there fits no rule here; nothing was taken",
    "gap": "attempted there since this journal was put back, which would hide what it lacks; not taken: "
    "look, accept the gap of that run (`counterfoil restore --accept-gap RUN`), then again",
    "undone": "undone by one operation here and by another there: look whether it was undone twice",
}


@teaching_command(
    short="write runs with all their evidence as JSON Lines",
    examples=[
        "counterfoil export -o journal.jsonl",
        "counterfoil export --run weekly-report/2026-W48 | gzip > W48.jsonl.gz",
    ],
)
@click.option("--run", metavar="RUN", help="Only this run.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A new file; stdout if not said."
)
def export(request: Request, *, run: str | None, output: Path | None) -> int:
    """Write the runs of this namespace, with their logs, bodies and contexts, as JSON Lines.

    The first line says what it is, the last carries a digest of all before it, so that a cut file is noticed.
    Secrets were replaced before they were stored, so none is in it; the key under which they are compared
    stays in the journal. Servers may go on meanwhile.
    """
    if output is None:
        end = anyio.run(_export, request, run, _to_stdout)
        if not is_read():
            tell("counterfoil: whoever read this went away: the export is cut")
            return 1
        if not request.as_json:
            tell(f"counterfoil: {_told(end)}")
        return 0
    from counterfoil.store.sqlite.files import give_name, refuse_taken, temporary_beside

    target = str(new_file(output, name="--output"))
    refuse_taken(target)
    with temporary_beside(target) as temporary:
        with open(temporary, "w", encoding="ascii") as file:
            end = anyio.run(_export, request, run, file.write)
        give_name(temporary, target)
    if request.as_json:
        write_json({"export": target, "counts": end["counts"], "digest": end["digest"]})
    else:
        write(show.rendered(show.plain(f"{_told(end)} to {target}")))
    return 0


async def _export(request: Request, run: str | None, put: Callable[[str], Any]) -> dict[str, Any]:
    line = ""
    async with request.journal() as journal:
        async for line in journal.keeper.export(run=run):
            put(line)
    end: dict[str, Any] = json.loads(line)
    return end


def _to_stdout(line: str) -> None:
    if is_read():
        write(line)


def _told(end: dict[str, Any]) -> str:
    counts = end["counts"]
    operations, runs, events = (
        show.counted(counts[f"{name}s"], name) for name in ("operation", "run", "event")
    )
    return f"{operations} in {runs}, {events} exported"


@teaching_command(
    short="add the evidence of an export",
    examples=["counterfoil import journal.jsonl", "gunzip -c W48.jsonl.gz | counterfoil import -"],
)
@click.argument("file", metavar="FILE")
def import_(request: Request, file: str) -> int:
    """Add the evidence of an export to this journal; `-` reads it from stdin.

    A run that this journal does not know is taken over whole, log and hashes included, so that `verify`
    proves it. For a run that it knows, receipts and findings are weighed as if an agent handed them in;
    states, decisions and permissions of the other journal count for nothing, and nothing is ever set back.
    Taking the same file again changes nothing. Where no journal is yet, one is made.

    It may be broken off and started again. What has not come by then is unknown here: where no run was, every
    new operation waits for a person (ask: history_gap) until the import has ended.

    Exit code 1 where conflicts were found; each is told, and what is here stands.
    """
    from counterfoil.store.spool import read_spool

    async def work(opened: BinaryIO) -> "Taken":
        spool = read_spool(opened)
        async with open_from(request.settings) as journal:
            return await journal.keeper.take_in(spool, request.caller("import"))

    with _opened(file) as opened:
        taken = anyio.run(work, opened)
    if request.as_json:
        write_json({**to_builtins(taken), "changed": taken.changed})
        return 1 if taken.conflicts_in_all else 0
    lines: list[Any] = [
        show.facts(
            [
                ("from journal", show.plain(taken.journal_id)),
                ("runs", show.plain(f"{taken.runs_new} taken over, {taken.runs_known} known here")),
                ("operations", show.plain(f"{taken.operations_new} new")),
                ("receipts", show.plain(f"{taken.receipts} new, {taken.not_taken} that prove nothing here")),
                ("findings", show.plain(f"{taken.findings} new")),
                ("in doubt", show.plain(f"{taken.doubts} by attempts that were made there")),
            ]
        )
    ]
    if taken.lacks_history:
        lines.append(
            show.plain(
                "The journal of this file was put back from a backup and lacks history, and now this one "
                "does too: `ask: history_gap`, as after a restore. Start servers that have it open again.",
                "yellow",
            )
        )
    for conflict in taken.conflicts[:_SHOWN]:
        lines.append(
            show.plain(
                f"conflict: {conflict.operation} (key {conflict.key} in run {conflict.run}): here "
                f"{conflict.journal}, there {conflict.file}: {_MEANINGS[conflict.kind]}",
                "yellow",
            )
        )
    if taken.conflicts_in_all > _SHOWN:
        more = show.counted(taken.conflicts_in_all - _SHOWN, "more conflict")
        lines.append(show.plain(f"… {more} (--json lists more)"))
    write(show.rendered(*lines))
    return 1 if taken.conflicts_in_all else 0


import_.name = "import"


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open the file to read, which has to be one that can be read twice."""
    if name == "-":
        with tempfile.TemporaryFile() as copy:
            while chunk := sys.stdin.buffer.read(_COPIED_BYTES):
                copy.write(chunk)
            yield copy
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InvalidArgument(
            "FILE", f"{name} cannot be read: {error.strerror}", accepted="an export, or - for stdin"
        ) from error
    with file:
        if not file.seekable():
            raise InvalidArgument("FILE", f"{name} cannot be read twice", accepted="a file, or - for stdin")
        try:
            yield file
        except OSError as error:
            raise JournalUnavailable(
                f"{name} cannot be read: {error.strerror}", fix="check the file"
            ) from error
