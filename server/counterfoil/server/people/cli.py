"""The command line for people: its commands, its help, and how every failure is told."""

import json
from collections.abc import Sequence

import click

from counterfoil.server.faults import fault_text, without_secrets
from counterfoil.server.logs import logger
from counterfoil.server.people.advice import fix_for_person
from counterfoil.server.people.connecting import config, demo, serve
from counterfoil.server.people.copying import copy
from counterfoil.server.people.criteria import spec
from counterfoil.server.people.deciding import close, reconcile
from counterfoil.server.people.doctor import doctor
from counterfoil.server.people.ending import finish, release
from counterfoil.server.people.granting import grant
from counterfoil.server.people.health import check
from counterfoil.server.people.hooking import hook
from counterfoil.server.people.installing import install, uninstall
from counterfoil.server.people.keeping import backup, migrate, prune
from counterfoil.server.people.looking import find, plan, runs, show
from counterfoil.server.people.moving import export, import_
from counterfoil.server.people.output import AnswerLost, prepare_streams, tell, write, write_json
from counterfoil.server.people.permissions import requests
from counterfoil.server.people.proving import verify
from counterfoil.server.people.relaying import gateway
from counterfoil.server.people.request import Request
from counterfoil.server.people.restoring import restore
from counterfoil.server.people.teaching import TeachingGroup, with_json, with_settings
from counterfoil.server.people.tokens import token
from counterfoil.server.people.watching import tail
from counterfoil.server.settings import SettingsError
from counterfoil.server.version import version
from counterfoil.store.errors import (
    ExportDamaged,
    Fault,
    InvalidArgument,
    JournalUnavailable,
    TooLarge,
    UnsupportedVersion,
)

__all__ = ["cli", "run"]

_REFUSED, _USAGE, _UNAVAILABLE, _INTERRUPTED = 1, 2, 3, 130

_SECTIONS = {
    "Look": ("runs", "plan", "show", "find", "tail", "spec"),
    "Settle": ("reconcile", "close", "release", "finish"),
    "Permit": ("requests", "grant", "token"),
    "Care": ("check", "doctor", "verify", "backup", "restore", "prune", "migrate"),
    "Move": ("copy", "export", "import"),
    "Connect": ("serve", "gateway", "config", "install", "uninstall", "hook", "demo"),
}

_EXAMPLES = (
    "counterfoil demo                              see what it is for",
    "counterfoil install claude-code               connect a client",
    "counterfoil runs                              what is going on",
    "counterfoil plan weekly-report/2026-W48       what is in doubt there",
    "counterfoil show weekly-report/2026-W48 email:alice",
    "counterfoil reconcile OPERATION --finding not_performed --checked-with 'the bank'",
    "counterfoil check && echo in order",
)


@click.group(cls=TeachingGroup, sections=_SECTIONS, examples=_EXAMPLES, invoke_without_command=True)
@with_settings
@with_json
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, is_wanted: _show_version(context, is_wanted),
    help="Show the version and exit.",
)
@click.pass_context
def cli(context: click.Context) -> None:
    """Counterfoil is a journal of what agents do to the outside world: written before each external effect,
    matched with a receipt after it. Whoever takes an interrupted run up again reads what is done, what is in
    doubt and what may be done now, instead of guessing.

    A run is one execution of a workflow; an operation is one effect in it, such as one mail, and is named by
    its id (op_…) or by its run and its key. In doubt is what may have happened: an attempt ended, and nobody
    knows.

    Without a command it serves MCP over stdio, as a client starts it.
    """
    if context.invoked_subcommand is None:
        raise click.UsageError("Name a command; without one, serving takes no such options.")


for _command in (
    runs,
    plan,
    show,
    find,
    tail,
    spec,
    reconcile,
    close,
    release,
    finish,
    grant,
    requests,
    token,
    check,
    doctor,
    verify,
    backup,
    restore,
    prune,
    migrate,
    copy,
    export,
    import_,
    serve,
    gateway,
    config,
    install,
    uninstall,
    hook,
    demo,
):
    cli.add_command(_command)


def _show_version(context: click.Context, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        write(f"counterfoil {version()}")
        context.exit()


def run(words: Sequence[str]) -> int:
    """Carry out what a person typed and give the exit code; no failure shows as a traceback."""
    prepare_streams()
    request = Request(as_json="--json" in words)
    try:
        return _carried_out(request, words)
    except AnswerLost as error:
        tell(f"counterfoil: the answer could not be written: {error}; what was recorded stays recorded")
        tell("  `counterfoil tail` shows the newest of it")
        return _REFUSED


def _carried_out(request: Request, words: Sequence[str]) -> int:
    """Carry the command out, or tell why it failed.

    Raises:
        AnswerLost: neither can be told on stdout.
    """
    try:
        # Not `cli.main`, which writes an empty line at Ctrl-C.
        with cli.make_context("counterfoil", list(words), obj=request) as context:
            code = cli.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        return _say_usage(request, error)
    except SettingsError as error:
        _say(
            request, "invalid_argument", str(error), "mend this setting; `counterfoil doctor` shows them all"
        )
        return _USAGE
    except Fault as fault:
        return _say_fault(request, fault)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except AnswerLost:
        raise
    except Exception as error:
        logger.debug("the command failed", exc_info=error)
        _say(
            request,
            "internal",
            f"this failed in a way that was not foreseen ({type(error).__name__})",
            "run it again with --log debug to see where; `counterfoil check` looks at the journal",
        )
        return _REFUSED
    return code if isinstance(code, int) else 0


def _say_usage(request: Request, error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "counterfoil"
    _say(request, "invalid_argument", error.format_message(), f"see `{name} --help`")
    return _USAGE


def _say_fault(request: Request, fault: Fault) -> int:
    is_about_journal = isinstance(fault, JournalUnavailable | UnsupportedVersion)
    path = str(request.settings.journal_path or request.settings.journal)
    if request.as_json:
        told = json.loads(fault_text(fault))
        write_json({**told, **({"journal": path} if is_about_journal else {})})
    else:
        _say(request, fault.code, fault.message, fix_for_person(fault))
        if is_about_journal and path not in fault.message:
            tell(f"  journal: {path}")
        for candidate in getattr(fault, "candidates", ()):
            tell(f"  {getattr(fault, 'listed', 'near')}: {candidate}")
    if isinstance(fault, InvalidArgument | TooLarge) and not isinstance(fault, ExportDamaged):
        return _USAGE
    return _UNAVAILABLE if is_about_journal else _REFUSED


def _say(request: Request, code: str, message: str, fix: str) -> None:
    """Tell what is wrong. It may quote the command line, and whoever runs it may keep what it says."""
    message, fix = without_secrets(message), without_secrets(fix)
    if request.as_json:
        write_json({"code": code, "message": message, "fix": fix, "recorded": False})
    else:
        tell(f"counterfoil: {message}")
        tell(f"  {fix}")
