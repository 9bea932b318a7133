"""`copy`: brings the runs of one journal into another, as often as one likes, and compares the two."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
from msgspec import to_builtins

from counterfoil.server.opener import open_from
from counterfoil.server.people import rendering as show
from counterfoil.server.people.output import write, write_json
from counterfoil.server.people.request import Request, is_nowhere
from counterfoil.server.people.teaching import teaching_command
from counterfoil.store.errors import Forbidden, JournalUnavailable

if TYPE_CHECKING:
    from rich.text import Text

    from counterfoil.store.copy_check import Checked, Difference
    from counterfoil.store.copying import Copied
    from counterfoil.store.copying import Progress as Copying
    from counterfoil.store.importing import Conflict
    from counterfoil.store.journal import Journal

__all__ = ["copy"]

_SHOWN = 50

_MEANINGS = {
    "effect": "the same run and key are another effect there",
    "unfit": "the evidence there fits no rule here; nothing was taken",
    "gap": "attempted there since this journal was put back, which would hide what it lacks; not taken: "
    "look, accept the gap of that run (`counterfoil restore --accept-gap RUN`), then again",
    "undone": "undone by one operation here and by another there: look whether it was undone twice",
}


@teaching_command(
    short="bring all runs of a journal into another one",
    examples=[
        "counterfoil copy ~/.local/share/counterfoil/journal.db postgresql://counterfoil@db/counterfoil",
        "counterfoil copy --with-key /var/lib/journal.db postgresql://operator@db/counterfoil",
        "counterfoil copy postgresql://counterfoil@db/counterfoil /backups/a-journal-of-its-own.db",
    ],
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option(
    "--with-key",
    is_flag=True,
    help="Make TO under FROM's key, so that secrets stay comparable. Only where no journal is at TO yet.",
)
@click.option("--all-namespaces", is_flag=True, help="Copy every namespace of FROM, each into its own.")
def copy(request: Request, *, source: str, target: str, with_key: bool, all_namespaces: bool) -> int:
    """Copy the runs of one namespace, or of all, from one journal to another, and compare the two at the end.

    Both are a file, by any path, or a database, by its URL. Where no journal is at TO, one is made.
    It may be broken off at any point and started again, and again later on: what is there is left alone, and
    a run whose log went on is gone on with. Nothing at TO is ever set back; where a run went on in both, the
    evidence is added, as by `import`. Permissions, requests, tokens and accepted gaps stay where they are.
    Where FROM has other namespaces than this one, say which you mean: --all-namespaces, or --namespace.

    Stop the servers of FROM first, and let none work in TO before this command has ended with 0.

    Exit code 1 with a list where anything in FROM is not to be found in TO, or otherwise.
    """
    if request.flags.get("journal") is not None:
        raise click.UsageError(
            "copy names both journals as FROM and TO; --journal has no meaning beside them."
        )
    source, target = _place(source), _place(target)
    request.flags["journal"] = target
    with _bar(is_shown=sys.stderr.isatty() and not request.as_json) as tell:
        found = anyio.run(_copy_all, request, source, with_key, all_namespaces, tell)
    is_whole = all(_is_whole(copied, checked) for _, copied, checked in found)
    if request.as_json:
        told = [_told(*each) for each in found]
        status = "ok" if is_whole else "wanting"
        write_json(
            {"status": status, "changed": any(copied.changed for _, copied, _ in found), "copies": told}
        )
    else:
        for each in found:
            write(show.rendered(*_shown(*each)))
    return 0 if is_whole else 1


async def _copy_all(
    request: Request, source: str, with_key: bool, is_all: bool, tell: "Callable[[Copying], None]"
) -> "list[tuple[str, Copied, Checked]]":
    names, settings = [request.settings.namespace], request.settings
    asked = _one(request, source, names[0])
    if _are_one(asked.settings.place, settings.place):
        raise Forbidden("FROM and TO are one journal; nothing was copied", fix="name another place as TO")
    place = asked.settings.journal_path
    if place is not None and is_nowhere(place):
        raise JournalUnavailable(
            f"there is no journal at {place}, which is FROM; nothing was copied to {settings.place}",
            fix="name the file or the database whose runs are to be copied as FROM",
        )
    async with asked.journal() as theirs:
        there = await theirs.keeper.namespaces()
        if is_all:
            names = there
        elif request.flags.get("namespace") is None and (others := [n for n in there if n not in names]):
            # Whoever then points every client to TO would find what was done there unknown, and permitted.
            raise Forbidden(
                f"FROM has other namespaces than {names[0]} ({', '.join(others[:10])}); nothing was copied",
                fix="--all-namespaces copies every one of them; --namespace NAME copies that one alone",
            )
        async with open_from(settings, key_of=theirs if with_key else None):
            pass
    for name in names:
        async with _pair(request, source, name) as (theirs, ours):
            await ours.keeper.begin_copy_of(theirs.keeper)
    found = []
    for name in names:
        async with _pair(request, source, name) as (theirs, ours):
            copied, checked = await ours.keeper.copy_from(theirs.keeper, request.caller("copy"), tell=tell)
            if _is_whole(copied, checked):
                await ours.keeper.end_copy_of(theirs.keeper)
        found.append((name, copied, checked))
    return found


@asynccontextmanager
async def _pair(request: Request, source: str, namespace: str) -> "AsyncIterator[tuple[Journal, Journal]]":
    """Open one namespace of both journals, FROM and TO."""
    async with (
        _one(request, source, namespace).journal() as theirs,
        open_from(_one(request, request.flags["journal"], namespace).settings) as ours,
    ):
        yield theirs, ours


def _are_one(place: Path | str, other: Path | str) -> bool:
    """Tell whether both are one journal; a file may have several names."""
    if isinstance(place, Path) and isinstance(other, Path) and place.exists() and other.exists():
        return place.samefile(other)
    return place == other


def _place(given: str) -> str:
    """Give a URL as it is, and a file by its absolute path."""
    return given if "://" in given else str(Path(given).expanduser().absolute())


def _one(request: Request, journal: str | None, namespace: str) -> Request:
    """Give the request that would ask one of the two journals, under the same settings otherwise."""
    return Request(
        as_json=request.as_json, flags={**request.flags, "journal": journal, "namespace": namespace}
    )


@contextmanager
def _bar(*, is_shown: bool) -> "Iterator[Callable[[Copying], None]]":
    """Show how far it has come on a terminal, on stderr; elsewhere nothing."""
    if not is_shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def tell(progress: "Copying") -> None:
            if progress.step not in tasks:
                tasks[progress.step] = bar.add_task(progress.step)
            bar.update(tasks[progress.step], completed=progress.done, total=progress.in_all)

        yield tell


def _is_whole(copied: "Copied", checked: "Checked") -> bool:
    return not (copied.conflicts or copied.refused or checked.differences_in_all)


def _told(namespace: str, copied: "Copied", checked: "Checked") -> dict[str, Any]:
    refused = [{"run": run, "why": why} for run, why in copied.refused]
    return {"namespace": namespace, **to_builtins(copied), "refused": refused, "check": to_builtins(checked)}


def _shown(namespace: str, copied: "Copied", checked: "Checked") -> "list[Any]":
    parted = f", {copied.runs_parted} went on in both" if copied.runs_parted else ""
    ahead = f", {copied.runs_ahead} further on in TO" if copied.runs_ahead else ""
    is_live = copied.live_attempts or copied.held_runs
    key = (
        "one for both: secrets are comparable"
        if copied.has_same_key
        else "TO's own: FROM's are not comparable"
    )
    lines: list[Any] = [
        show.facts(
            [
                ("namespace", show.plain(namespace)),
                ("from journal", show.plain(copied.from_journal)),
                ("to journal", show.plain(copied.to_journal)),
                (
                    "runs",
                    show.plain(
                        f"{copied.runs}: {copied.runs_new} new, {copied.runs_gone_on} gone on with, "
                        f"{copied.runs_same} there already{ahead}{parted}"
                    ),
                ),
                ("events", show.plain(f"{copied.events} taken over")),
                ("key of secrets", show.plain(key)),
                (
                    "compared",
                    show.plain(
                        f"{show.counted(checked.operations, 'operation')} and "
                        f"{show.counted(checked.references, 'reference')} in "
                        f"{show.counted(checked.runs, 'run')}, {checked.same_logs} with one log in both"
                    ),
                ),
            ]
        )
    ]
    if is_live:
        lines.append(
            show.plain(
                f"FROM is in use: {show.counted(copied.live_attempts, 'live attempt')}, "
                f"{show.counted(copied.held_runs, 'run')} held. What "
                "those sessions do from now on is in FROM only: stop them, and copy again.",
                "yellow",
            )
        )
    lines += [show.plain(f"refused: run {run}: {why}", "red") for run, why in copied.refused[:_SHOWN]]
    lines += [_conflict(conflict) for conflict in copied.conflicts[:_SHOWN]]
    lines += [_difference(difference) for difference in checked.differences[:_SHOWN]]
    left = len(copied.refused[_SHOWN:]) + len(copied.conflicts[_SHOWN:])
    left += checked.differences_in_all - len(checked.differences[:_SHOWN])
    if left:
        lines.append(show.plain(f"… {left} more (--json lists more)"))
    if _is_whole(copied, checked):
        lines.append(show.plain(f"all of namespace {namespace} is in TO", "bold green"))
    return lines


def _conflict(conflict: "Conflict") -> "Text":
    return show.plain(
        f"conflict: {conflict.operation} (key {conflict.key} in run {conflict.run}): in TO "
        f"{conflict.journal}, in FROM {conflict.file}: {_MEANINGS.get(conflict.kind, conflict.kind)}",
        "yellow",
    )


def _difference(found: "Difference") -> "Text":
    where = f"run {found.run}" if found.operation is None else f"{found.operation} in run {found.run}"
    return show.plain(f"differs: {where}: {found.what}: FROM {found.source}, TO {found.target}", "red")
