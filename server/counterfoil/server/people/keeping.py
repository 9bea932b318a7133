"""Keeps the journal itself: `backup` while servers run, `migrate` before they do, and `prune`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click

from counterfoil.server.opener import open_from
from counterfoil.server.people import rendering as show
from counterfoil.server.people.durations import age
from counterfoil.server.people.new_file import new_file
from counterfoil.server.people.output import write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.errors import JournalUnavailable

if TYPE_CHECKING:
    from counterfoil.store.pruning import Pruned

__all__ = ["backup", "migrate", "prune"]


@teaching_command(
    short="copy the whole journal to a file, while servers run",
    examples=[
        "counterfoil backup /backups/counterfoil-$(date +%F).db",
        "counterfoil backup before-the-update.db --json",
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
def backup(request: Request, file: Path) -> int:
    """Copy the whole journal, every namespace of it, to a new file, as it is at this moment.

    Servers may go on: the copy is consistent. The file is private (mode 0600), on stable storage and was
    checked by opening it when this command ends. It holds all that the journal holds, the key under which
    secrets are compared included: keep it as you keep the journal. Nothing is overwritten.
    """
    target = new_file(file, name="FILE")

    async def work() -> Any:
        async with request.journal() as journal:
            return await journal.keeper.backup(target)

    made = anyio.run(work)
    if request.as_json:
        write_json(
            {
                "backup": str(target),
                "size_bytes": made.size_bytes,
                "backed_up_at": rfc3339(made.backed_up_at),
            }
        )
    else:
        write(
            show.rendered(
                show.facts(
                    [
                        ("backup", show.plain(str(target))),
                        ("size", show.plain(show.size(made.size_bytes))),
                        ("as of", show.plain(show.moment(rfc3339(made.backed_up_at)))),
                    ]
                )
            )
        )
    return 0


@teaching_command(
    short="make the journal, or bring its schema up to date",
    examples=["counterfoil migrate --journal postgresql://operator@db.example.org/counterfoil"],
)
def migrate(request: Request) -> int:
    """Make the journal where there is none, and bring its schema to the version that this program knows.

    A server does the same when it starts, so this is needed only where the server's user may not change a
    database's tables: then an operator who may runs it first. Several may run it at once; one does the work.
    An older program refuses a journal that a newer one has migrated.
    """

    async def work() -> Mapping[str, str | float]:
        async with open_from(request.settings) as journal:
            return await journal.database.facts()

    facts = anyio.run(work)
    place = facts.get("path") or facts.get("location")
    if request.as_json:
        write_json({"journal": place, "engine": facts["engine"], "schema_version": facts["schema_version"]})
    else:
        write(
            show.rendered(
                show.facts(
                    [
                        ("journal", show.plain(place)),
                        ("schema", show.plain(f"version {facts['schema_version']}, the newest known")),
                    ]
                )
            )
        )
    return 0


@teaching_command(
    short="remove old bodies of what is settled",
    examples=[
        "counterfoil prune --older-than 90d --dry-run",
        "counterfoil prune --older-than 52w",
    ],
)
@click.option(
    "--older-than",
    type=age,
    metavar="AGE",
    required=True,
    help="Settled and left alone for: 48h, 90d, 12w.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
def prune(request: Request, *, older_than: float, dry_run: bool) -> int:
    """Remove the args, payloads, evidence and checkpoints of operations that have long been settled.

    What each was stays: its name, action, target and fingerprint, its state, its receipts with their
    references, its whole log. It is answered `skip` as before, and `verify` holds. What is planned, in
    progress, in doubt, failed or disputed is never pruned. A repeat that would need a pruned body is granted
    only to a caller who still has exactly this body. There is no way back but a backup.
    """

    async def work() -> tuple["Pruned", int | None, JournalUnavailable | None]:
        async with request.journal() as journal:
            pruned = await journal.keeper.prune(older_than_seconds=older_than, is_dry=dry_run)
            if dry_run or not pruned.bodies:
                return pruned, 0, None
            try:
                return pruned, await journal.keeper.reclaim(), None
            except JournalUnavailable as fault:
                return pruned, None, fault

    pruned, reclaimed, fault = anyio.run(work)
    if request.as_json:
        write_json(
            {
                "dry_run": dry_run,
                "runs": pruned.runs,
                "operations": pruned.operations,
                "bodies": pruned.bodies,
                "characters": pruned.characters,
                "reclaimed_bytes": reclaimed,
                "not_reclaimed": None if fault is None else fault.message,
            }
        )
        return 0
    verb = "would be removed" if dry_run else "removed"
    lines: list[Any] = [
        show.plain(
            f"{show.counted(pruned.bodies, 'body', 'bodies')} ({show.size(pruned.characters)}) of "
            f"{show.counted(pruned.operations, 'operation')} in {show.counted(pruned.runs, 'run')} {verb}"
        )
    ]
    if reclaimed:
        lines.append(show.plain(f"{show.size(reclaimed)} given back to the disk"))
    if fault is not None:
        lines.append(
            show.plain(
                f"The file has not become smaller yet: {fault.message}. The space is used again for what is "
                "recorded next; prune once more when no server is busy to give it back."
            )
        )
    write(show.rendered(*lines))
    return 0
