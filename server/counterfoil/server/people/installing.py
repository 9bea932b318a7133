"""Installs the server, its hooks and its skill into a client, and takes them back: `install`, `uninstall`."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from counterfoil.server.clients import CLIENTS, own_command, server_command
from counterfoil.server.faults import without_secrets
from counterfoil.server.installing import work
from counterfoil.server.installing.targets import TARGETS, Wanted
from counterfoil.server.installing.work import Change
from counterfoil.server.people.connecting import passed_on
from counterfoil.server.people.output import tell, write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command
from counterfoil.server.places import data_folder

__all__ = ["install", "uninstall"]

_CLIENT = click.Choice(sorted(TARGETS))


@teaching_command(
    short="connect a client: server, hooks, skill",
    examples=[
        "counterfoil install claude-code --dry-run",
        "counterfoil install codex",
        "counterfoil install letta-code --agent agent-1",
        "counterfoil install claude-code --no-hooks --tools core",
    ],
)
@click.argument("client", type=_CLIENT, metavar="CLIENT")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--no-hooks", is_flag=True, help="Install the server and the skill only.")
@click.option("--agent", "agents", multiple=True, metavar="ID", help="Letta Code: an agent to connect.")
@click.option("--uvx", "with_uvx", is_flag=True, help="Let uvx start it, from where this one was installed.")
@click.option("--tools", type=click.Choice(["core", "all"]), help="Which tools this client is offered.")
def install(
    request: Request,
    client: str,
    *,
    dry_run: bool,
    no_hooks: bool,
    agents: Sequence[str],
    with_uvx: bool,
    tools: str | None,
) -> int:
    """Write into CLIENT's own files how it starts this server, the hooks that it runs, and a skill.

    CLIENT is claude-code, codex, gemini or letta-code; for others see `counterfoil config`. Everything else
    in those files stays as it is, and beside a file that changes a copy of what it was is kept, and named,
    until `counterfoil uninstall` has put it back. Installing twice changes nothing more. A journal, namespace
    or configuration file that is set here is written into it.
    """
    target = TARGETS[client]
    if agents and not target.needs_agent:
        raise click.UsageError(f"--agent means nothing to {client}.")
    options = passed_on(request)
    arguments = [*([] if tools is None else ["--tools", tools]), *options]
    wanted = Wanted(
        connection=server_command(with_uvx=with_uvx, arguments=arguments, argv0=sys.argv[0]),
        hook=None if no_hooks else own_command(("hook",), with_uvx=with_uvx, argv0=sys.argv[0]),
        options=tuple(options),
        environ=os.environ,
        agents=tuple(agents),
    )
    folder = data_folder(os.environ)
    changes = work.plan_install(folder, client, target.placements(wanted))
    if not dry_run:
        changes = work.install(folder, client, changes)
    notes = [note for change in changes for note in change.notes] + list(target.notes)
    if dry_run:
        notes += [
            f"{change.path} would be kept as it is, as {change.path}.before-counterfoil-TIME, until "
            "`counterfoil uninstall` puts it back"
            for change in changes
            if change.is_change and change.before is not None and change.after is not None
        ]
    _report(request, client, changes, notes, is_dry=dry_run)
    return 0


@teaching_command(
    short="take back what install wrote",
    examples=["counterfoil uninstall claude-code", "counterfoil uninstall codex --dry-run"],
)
@click.argument("client", type=_CLIENT, metavar="CLIENT")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
def uninstall(request: Request, client: str, *, dry_run: bool) -> int:
    """Take out of CLIENT's files exactly what `install` put there; what you changed since then stays.

    A file that is still as `install` left it becomes what it was before, and the copy kept beside it is
    removed. Copies that are not put back so stay, and are named. The journal is not touched.
    """
    folder = data_folder(os.environ)
    changes = work.plan_uninstall(folder, client)
    if not dry_run:
        work.uninstall(folder, client, changes)
    notes = [note for change in changes for note in change.notes]
    notes += [
        f"{change.backup} {'would be' if dry_run else 'was'} removed: {change.path} is what it was"
        for change in changes
        if change.backup is not None
    ]
    notes += [
        f"{kept} stays: {change.path} as it was before an installation; remove it when you need it no more"
        for change in changes
        for kept in change.kept
    ]
    if not changes:
        notes.append(f"nothing was installed into {CLIENTS[client].title} by `counterfoil install`")
    _report(request, client, changes, notes, is_dry=dry_run)
    return 0


def _report(
    request: Request, client: str, changes: Sequence[Change], notes: Sequence[str], *, is_dry: bool
) -> None:
    """Tell what changes. What stands around it in a client's file may be somebody's key: it is hidden."""
    changed = [change for change in changes if change.is_change]
    if request.as_json:
        told: list[dict[str, Any]] = [
            {
                "file": change.path,
                "change": _word(change),
                "backup": None if change.before is None or change.after is None else change.backup,
                **({"diff": without_secrets(change.diff)} if is_dry else {}),
            }
            for change in changed
        ]
        write_json({"client": client, "dry_run": is_dry, "changes": told, "notes": list(notes)})
        return
    for change in changed:
        if is_dry:
            write(without_secrets(change.diff))
        else:
            kept = f" (as it was: {change.backup})" if change.backup and os.path.exists(change.backup) else ""
            write(f"{_word(change)} {change.path}{kept}")
    if not changed:
        write("Nothing to change.")
    for note in notes:
        tell(note)


def _word(change: Change) -> str:
    if change.before is None:
        return "made"
    return "removed" if change.after is None else "changed"
