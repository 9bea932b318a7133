"""Proves the journal by replaying its whole log: `verify`."""

from typing import Any

import anyio
import click
from rich.text import Text

from counterfoil.server.people import rendering as show
from counterfoil.server.people.output import write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command

__all__ = ["verify"]


@teaching_command(
    short="replay the log: is it whole, and does it add up?",
    examples=["counterfoil verify", "counterfoil verify --repair", "counterfoil verify --json"],
)
@click.option(
    "--repair", is_flag=True, help="First make rows anew that are damaged, where their log is whole."
)
def verify(request: Request, *, repair: bool) -> int:
    """Prove that the log is whole and that what is on record follows from it.

    It replays every event of every run in every namespace: the hash chain, the order, and that the stored
    rows are what the events make of them. Exit code 1 with the faults.

    An operation whose rows cannot be read is held in doubt until it can. With --repair the rows that differ
    from what a whole log makes of them are made anew; the log itself is never changed. Make a copy first.
    """

    async def work() -> tuple[list[str], Any]:
        async with request.journal() as journal:
            repaired = await journal.keeper.repair() if repair else []
            return repaired, await journal.reader.verify()

    repaired, found = anyio.run(work)
    status = "wanting" if found.faults else "ok"
    if request.as_json:
        write_json(
            {
                "status": status,
                "runs": found.runs,
                "events": found.events,
                "namespace_events": found.namespace_events,
                "operations": found.operations,
                "faults": list(found.faults),
                **({"repaired": repaired} if repair else {}),
            }
        )
    else:
        beside = f" and {found.namespace_events} of no run" if found.namespace_events else ""
        lines = [
            Text.assemble(
                "verify ",
                (status, "bold red" if found.faults else "bold green"),
                f": {show.counted(found.events, 'event')} of "
                f"{show.counted(found.operations, 'operation')} in "
                f"{show.counted(found.runs, 'run')}{beside} replayed",
            )
        ]
        lines += [show.plain(f"made anew from the log: {operation}") for operation in repaired]
        lines += [show.plain(fault, "red") for fault in found.faults]
        if found.is_mendable and not repair:
            lines.append(Text("Make a copy (counterfoil backup), then run counterfoil verify --repair."))
        elif found.faults:
            lines.append(Text("Stop the servers, keep a copy of the file, and restore a backup."))
        write(show.rendered(*lines))
    return 1 if found.faults else 0
