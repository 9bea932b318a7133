"""`restore`: puts the journal back from a backup, marks what that lacks, or takes a person's word for it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
from rich.text import Text

from counterfoil.server.people import rendering as show
from counterfoil.server.people.output import tell, write, write_json
from counterfoil.server.people.person import (
    SECRET_FILE_VARIABLE,
    answers_at_terminal,
    brings_secret,
    is_at_terminal,
)
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import Forbidden, InvalidArgument

if TYPE_CHECKING:
    from counterfoil.store.restoring import Restored

__all__ = ["restore"]

_ALL = "every run"


@teaching_command(
    short="put the journal back from a backup",
    examples=[
        "counterfoil restore /backups/counterfoil-2026-11-28.db",
        "counterfoil restore backup.db --force                what lies there is moved aside",
        "counterfoil restore --accept-gap weekly-report/2026-W48",
        "counterfoil restore --accept-gap --all",
        "counterfoil restore --mark                           a database that its own tools put back",
    ],
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--force", is_flag=True, help="Move a journal that lies there aside, instead of refusing.")
@click.option(
    "--accept-gap",
    metavar="[RUN]",
    is_flag=False,
    flag_value="",
    help="A person's word that operations of this run may be attempted, whatever the backup missed.",
)
@click.option("--mark", is_flag=True, help="The journal was put back by other means: only mark it.")
@click.option("--all", "every", is_flag=True, help="With --accept-gap: of every run, also of new ones.")
@click.option(
    "--operator-secret-file",
    metavar="FILE",
    help=f"The operator's secret, in place of a terminal; also {SECRET_FILE_VARIABLE}.",
)
def restore(
    request: Request,
    file: Path | None,
    *,
    force: bool,
    accept_gap: str | None,
    mark: bool,
    every: bool,
    operator_secret_file: str | None,
) -> int:
    """Put the journal back from a backup, and mark what it cannot know.

    Whatever was done between the backup and now is missing from it. So what had no outcome at the backup's
    moment, and everything that it does not know, is answered `ask: history_gap` from now on instead of
    `perform`; earlier idempotency keys count as over; every lease is ended. Look in the systems concerned
    what was done in that time, record it with `reconcile`, and then let operations be attempted again: one
    by one with `grant` or `reconcile`, or with --accept-gap for a run or for all. Only a person does.

    Stop the servers first: one that has the old file open goes on refusing until it is started again.

    With --mark nothing is put back: the journal that is there was, by whatever means (a copy of the file, a
    dump or a standby of the database), and is marked as if this command had done it.
    """
    if mark:
        if accept_gap is not None or every or file is not None or force:
            raise click.UsageError("--mark goes alone: it restores nothing and accepts nothing.")
        return _mark(request)
    if accept_gap is None:
        if every or file is None:
            raise click.UsageError("Name the backup to restore, or what to accept with --accept-gap.")
        return _restore(request, file, force=force)
    if (accept_gap == "") != every or file is not None or force:
        raise click.UsageError("--accept-gap takes a run or --all, and restores nothing.")
    return _accept(request, accept_gap or None, secret=operator_secret_file)


def _restore(request: Request, file: Path, *, force: bool) -> int:
    from counterfoil.server.clock import read_clock
    from counterfoil.server.opener import policy_of
    from counterfoil.store.restoring import restore_journal

    settings = request.settings
    if settings.journal_path is None:
        raise InvalidArgument(
            "journal",
            "is a database, which is restored with its own tools",
            accepted="a journal in a file; for a database `counterfoil restore --mark` afterwards",
        )
    target = settings.journal_path
    stamp = re.sub(r"\D", "", rfc3339(read_clock().at))[:14]

    source = file.absolute()

    async def work() -> "Restored":
        return await restore_journal(
            source,
            target,
            clock=read_clock,
            policy=policy_of(settings),
            caller=request.caller("restore"),
            aside=f"replaced-{stamp}" if force else None,
        )

    return _tell_restored(request, anyio.run(work))


def _mark(request: Request) -> int:
    from counterfoil.server.clock import read_clock
    from counterfoil.server.opener import policy_of
    from counterfoil.store.restoring import mark_restored

    async def work() -> "Restored":
        async with request.journal() as journal:
            return await mark_restored(
                journal,
                clock=read_clock,
                policy=policy_of(request.settings),
                caller=request.caller("restore"),
            )

    return _tell_restored(request, anyio.run(work))


def _tell_restored(request: Request, restored: "Restored") -> int:
    faults = list(restored.faults)
    if request.as_json:
        write_json(
            {
                "status": "wanting" if faults else "ok",
                "journal": restored.path,
                "backed_up_at": rfc3339(restored.backed_up_at),
                "restored_at": rfc3339(restored.restored_at),
                "runs": restored.runs,
                "operations": restored.operations,
                "leases_ended": restored.leases_ended,
                "moved": list(restored.moved),
                "faults": faults,
            }
        )
        return 1 if faults else 0
    lines: list[Any] = [
        show.facts(
            [
                ("journal", show.plain(restored.path)),
                ("as of", show.plain(show.moment(rfc3339(restored.backed_up_at)))),
                ("holds", show.plain(_held(restored))),
                *(("moved", show.plain(name)) for name in restored.moved),
            ]
        ),
        Text(
            "What was done since then is missing: what has no outcome here is asked about (history_gap) "
            "until a person accepts the gap; see `counterfoil restore --help`."
        ),
        *(show.plain(fault, "red") for fault in faults),
    ]
    write(show.rendered(*lines))
    return 1 if faults else 0


def _held(restored: "Restored") -> str:
    return f"{show.counted(restored.operations, 'operation')} in {show.counted(restored.runs, 'run')}"


def _accept(request: Request, run: str | None, *, secret: str | None) -> int:
    meant = _ALL if run is None else run
    if not brings_secret(request.settings, secret_file=secret):
        if not is_at_terminal():
            raise Forbidden(
                "only a person accepts what a restored journal lacks; nothing was recorded",
                fix="answer at a terminal, or bring the operator's secret with --operator-secret-file",
            )
        if not anyio.run(_lacks_history, request):
            # Nobody is asked for a word that then cannot be kept.
            raise InvalidArgument("accept-gap", "this journal was never restored", accepted="one that was")
        if not answers_at_terminal(_question(meant), accepted=(meant,)):
            tell("counterfoil: not confirmed; nothing was recorded")
            return 1

    async def work() -> Any:
        async with request.journal() as journal:
            return await journal.keeper.accept_gap(run, request.caller("restore", is_person=True))

    accepted = anyio.run(work)
    if request.as_json:
        write_json(
            {
                "accepted": "all" if run is None else accepted.run,
                "restored_at": rfc3339(accepted.restored_at),
                "new": accepted.is_new,
            }
        )
    else:
        said = "accepted" if accepted.is_new else "was accepted before"
        write(
            show.rendered(
                show.plain(f"The gap of {show.moment(rfc3339(accepted.restored_at))} {said} for {meant}.")
            )
        )
    return 0


async def _lacks_history(request: Request) -> bool:
    async with request.journal() as journal:
        lack, _ = await journal.keeper.gap()
        return lack is not None


def _question(meant: str) -> str:
    return (
        "This journal was restored from a backup: what was done after the backup is missing in it.\n"
        f"You are about to let operations be attempted again, of: {escape_untrusted(meant, limit=200)}.\n"
        "An effect of which the journal does not know may then happen a second time. Look first.\n"
        f"To confirm, type: {escape_untrusted(meant, limit=200)}\n> "
    )
