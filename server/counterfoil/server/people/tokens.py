"""Gives callers over HTTP their tokens: `token new`, `token list`, `token revoke`. Only a person does."""

from typing import Any

import click

from counterfoil.server.bearer_tokens import new_bearer_token, token_digest
from counterfoil.server.people import rendering as show
from counterfoil.server.people.durations import duration
from counterfoil.server.people.granting import with_journal
from counterfoil.server.people.output import tell, write, write_json
from counterfoil.server.people.permissions import told_of_damage
from counterfoil.server.people.person import (
    SECRET_FILE_VARIABLE,
    answers_at_terminal,
    brings_secret,
    is_at_terminal,
)
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import TeachingGroup, teaching_command, with_json, with_settings
from counterfoil.server.scopes import SCOPES
from counterfoil.store.domain.commands import IssueToken

__all__ = ["token"]

_SHORT = {scope.partition(":")[2]: scope for scope in SCOPES}

_secret_file = click.option(
    "--operator-secret-file",
    metavar="FILE",
    help=f"The operator's secret, in place of a terminal; also {SECRET_FILE_VARIABLE}.",
)


@click.group(
    "token",
    cls=TeachingGroup,
    short_help="bearer tokens for callers over HTTP",
    sections={"Tokens": ("new", "list", "revoke")},
    examples=(
        "counterfoil token new ci --namespace team --scope read --scope write --for 90d",
        "counterfoil token list --namespace team",
        "counterfoil token revoke ci --namespace team",
    ),
)
@with_settings
@with_json
def token() -> None:
    """Bearer tokens of `counterfoil serve --http` where [http] says `tokens = true`.

    A token stands for its name, in the namespace that it is made in: whoever brings it acts there and
    nowhere else. The journal keeps its SHA-256 only.
    """


@teaching_command(
    short="make one, and show it this once",
    examples=["counterfoil token new ci --namespace team --scope read --scope write --for 90d"],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([*_SHORT, *SCOPES]),
    help="read, write, or approve (its client's user may answer for a person). May be repeated.",
)
@click.option("--for", "lasts", type=duration, metavar="DURATION", help="It ends after 90s, 15m, 2h, 7d.")
@_secret_file
def new(
    request: Request,
    name: str,
    *,
    scopes: tuple[str, ...],
    lasts: float | None,
    operator_secret_file: str | None,
) -> int:
    """Make a token for NAME, the principal of whatever is done with it; stdout gets the token alone.

    It is shown this once: the journal keeps its digest. Give each agent its own.
    """
    secret = new_bearer_token()
    command = IssueToken(
        name=name,
        sha256=token_digest(secret),
        scopes=tuple(_SHORT.get(scope, scope) for scope in scopes),
        lasts_seconds=lasts,
    )
    namespace = request.settings.namespace
    question = (
        f"You are about to give {name!a} access to namespace {namespace}: {', '.join(command.scopes)}, "
        f"{'without an end' if lasts is None else f'for {show.age(lasts)}'}.\n"
        "To confirm, type the name; anything else leaves it as it is.\n> "
    )
    # Nobody is asked for a word that then cannot be kept.
    with_journal(request, lambda journal: journal.list_tokens())
    is_person = _is_person(request, operator_secret_file, question, name)
    if is_person is None:
        return 1
    caller = request.caller("token", is_person=is_person)
    answer = with_journal(request, lambda journal: journal.issue_token(command, caller))
    if request.as_json:
        write_json({**answer, "secret": secret})
        return 0
    tell(
        f"counterfoil: {answer['token']} for {name}, namespace {namespace}. It is not shown again; a client "
        "sends it as `Authorization: Bearer …`."
    )
    write(secret)
    return 0


@teaching_command(short="what tokens there are", examples=["counterfoil token list --namespace team"])
def list_(request: Request) -> int:
    """List the tokens of the namespace, oldest first, and whether each counts.

    Exit code 1: there is one that cannot be read; it counts for nobody.
    """
    found = with_journal(request, lambda journal: journal.list_tokens())
    if request.as_json:
        write_json({"tokens": found})
    else:
        write(show.rendered(_table(found)) if found else "This namespace has no tokens.")
    return told_of_damage(found, is_told=not request.as_json)


@teaching_command(
    short="take one back",
    examples=["counterfoil token revoke ci", "counterfoil token revoke token_abcdefghijklmnopqrst"],
)
@click.argument("name", metavar="NAME")
@_secret_file
def revoke(request: Request, name: str, *, operator_secret_file: str | None) -> int:
    """Take the tokens of NAME back, or the one of this id: the next request that brings it is refused."""
    question = (
        f"You are about to take back the tokens of {name!a} in namespace {request.settings.namespace}.\n"
        "To confirm, type it again; anything else leaves it as it is.\n> "
    )
    is_person = _is_person(request, operator_secret_file, question, name)
    if is_person is None:
        return 1
    caller = request.caller("token", is_person=is_person)
    answer = with_journal(request, lambda journal: journal.revoke_token(name, caller))
    if request.as_json:
        write_json(answer)
    else:
        write(show.rendered(_table(answer["tokens"])))
    return 0


def _is_person(request: Request, secret_file: str | None, question: str, accepted: str) -> bool | None:
    """Tell whether somebody is shown to be a person; None where a person at the terminal thought better."""
    if brings_secret(request.settings, secret_file=secret_file):
        return True
    if not is_at_terminal():
        return False
    if answers_at_terminal(question, accepted=[accepted]):
        return True
    tell("counterfoil: not confirmed; nothing was recorded")
    return None


def _table(lines: list[dict[str, Any]]) -> Any:
    return show.table(
        "token",
        "name",
        "scopes",
        "until",
        "counts",
        rows=[
            [
                line["token"],
                line.get("name", "?"),
                " ".join(scope.partition(":")[2] or scope for scope in line.get("scopes", ())),
                "?" if line.get("damaged") else show.moment(line.get("expires_at")) or "no end",
                line["holds"],
            ]
            for line in lines
        ],
        whole=["name"],
    )


for _name, _command in {"new": new, "list": list_, "revoke": revoke}.items():
    token.add_command(_command, _name)
