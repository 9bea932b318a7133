"""What a person permits: `grant`. Without proof of a person a grant is kept as a request."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import click
from msgspec.structs import replace
from rich.text import Text

from counterfoil.server.people import rendering as show
from counterfoil.server.people.advice import advice
from counterfoil.server.people.durations import duration, in_words
from counterfoil.server.people.operation_page import differences
from counterfoil.server.people.output import as_json_text, tell, write, write_json
from counterfoil.server.people.person import (
    SECRET_FILE_VARIABLE,
    answers_at_terminal,
    brings_secret,
    is_at_terminal,
)
from counterfoil.server.people.request import Request, operation_ref
from counterfoil.server.people.teaching import teaching_command
from counterfoil.store.domain.commands import GrantAuthority, RevokeGrant
from counterfoil.store.domain.untrusted import escape_untrusted

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["grant", "with_journal"]

_CLAIM = (
    "counterfoil: no terminal and no operator's secret, so nobody was shown to be a person: nothing is "
    "permitted, this is kept as a request"
)
_SHOWN = 1_500


@teaching_command(
    short="permit what an agent asked for, or take it back",
    examples=[
        "counterfoil grant request_abcdefghijklmnopqrst",
        "counterfoil grant RUN KEY --for 2h --why 'agreed with Bob'",
        "counterfoil grant --action 'pay.*' --only 'args.amount <= 100' --uses 5 --for 7d",
        "counterfoil grant --revoke grant_abcdefghijklmnopqrst",
    ],
)
@click.argument("what", nargs=-1, metavar="[REQUEST | OPERATION | RUN KEY]")
@click.option("--action", metavar="PATTERN", help="Permit every action that matches, such as 'pay.*'.")
@click.option("--target", metavar="PATTERN", help="With --action: only such targets.")
@click.option("--run", "run_", metavar="RUN", help="With --action: only in this run.")
@click.option("--subject", metavar="PATTERN", help="Only for such principals; anybody if not said.")
@click.option(
    "--only",
    multiple=True,
    metavar="CONSTRAINT",
    help="Only where args hold it: 'args.amount <= 100', 'args.currency == \"EUR\"'. May be repeated.",
)
@click.option("--for", "lasts", type=duration, metavar="DURATION", help="It ends after 90s, 15m, 2h, 7d.")
@click.option("--until", metavar="TIME", help="It ends then: 2026-11-29T17:00:00Z.")
@click.option("--from", "from_", metavar="TIME", help="It begins then.")
@click.option(
    "--uses", type=click.IntRange(1), metavar="N", help="At most so many operations, retries not counted."
)
@click.option("--policy", metavar="VALUE", help="With --action: only while the context's policy is this.")
@click.option("--why", metavar="TEXT", help="Why; it is kept.")
@click.option("--revoke", metavar="GRANT", help="Take this grant back, from the next attempt on.")
@click.option(
    "--operator-secret-file",
    metavar="FILE",
    help=f"The operator's secret, in place of a terminal; also {SECRET_FILE_VARIABLE}.",
)
def grant(
    request: Request,
    what: tuple[str, ...],
    *,
    action: str | None,
    target: str | None,
    run_: str | None,
    subject: str | None,
    only: tuple[str, ...],
    lasts: float | None,
    until: str | None,
    from_: str | None,
    uses: int | None,
    policy: str | None,
    why: str | None,
    revoke: str | None,
    operator_secret_file: str | None,
) -> int:
    """Permit a waiting request, one operation, or a pattern of actions.

    A grant for one operation is bound to what the effect is now, and also lets it go on after a change that
    blocks, after a restore, and once more when no attempt is left. It permits; it proves nothing.

    You are a person here if you answer a question at a terminal, or bring the operator's secret; otherwise
    nothing is permitted and a request is kept. Over stdio this guards against mistakes: it is no security
    boundary against somebody with the same user's shell.
    """
    if revoke is not None:
        if what or action is not None:
            raise click.UsageError("--revoke takes the grant's id and nothing else to permit.")
        return _revoke(request, RevokeGrant(grant=revoke, why=why), operator_secret_file)
    if bool(what) == (action is not None):
        raise click.UsageError("Name a request, an operation (its id, or RUN KEY), or --action PATTERN.")
    is_request = len(what) == 1 and what[0].startswith("request_")
    command = GrantAuthority(
        request=what[0] if is_request else None,
        ref=operation_ref(what) if what and not is_request else None,
        action=action,
        target=target,
        run=run_,
        subject=subject,
        constraints=only,
        not_before=from_,
        expires_at=until,
        lasts_seconds=lasts,
        max_uses=uses,
        policy=policy,
        why=why,
    )
    if what and any((action, target, run_, policy)):
        raise click.UsageError("--target, --run and --policy go with --action.")
    return _grant(request, command, operator_secret_file)


def _grant(request: Request, command: GrantAuthority, secret: str | None) -> int:
    is_person = brings_secret(request.settings, secret_file=secret)
    if not is_person and is_at_terminal():
        shown = with_journal(request, lambda journal: journal.preview_grant(command))
        accepted = [shown[name] for name in ("key", "operation") if name in shown]
        if command.request is not None:
            accepted.append(command.request)
        if not accepted:
            accepted.append(str(command.action))
        if not answers_at_terminal(_question(shown, command), accepted=accepted):
            tell("counterfoil: not confirmed; nothing was recorded")
            return 1
        is_person = True
        command = replace(command, seen=shown["seen"])
    caller = request.caller("grant", is_person=is_person)
    answer = with_journal(request, lambda journal: journal.grant(command, caller))
    is_granted = answer["next"] == "continue"
    if not is_person:
        tell(_CLAIM + (f": {answer['request']}." if "request" in answer else "."))
    if request.as_json:
        write_json({**answer, "decided_as": "person" if is_person else "request", "granted": is_granted})
    else:
        _say(answer)
    return 0 if is_granted else 1


def _revoke(request: Request, command: RevokeGrant, secret: str | None) -> int:
    is_person = brings_secret(request.settings, secret_file=secret)
    if not is_person and is_at_terminal():
        shown = with_journal(request, lambda journal: journal.list_grants())
        lines = [line for line in shown if line["grant"] == command.grant.strip()]
        page = show.rendered(show.facts(_pairs(lines[0]))) if lines else "This journal has no such grant."
        question = (
            f"{page}\n\nYou are about to take this grant back; attempts that run now are not stopped.\n"
            "To confirm, type the grant's id; anything else leaves it as it is.\n> "
        )
        if not answers_at_terminal(question, accepted=[command.grant]):
            tell("counterfoil: not confirmed; nothing was recorded")
            return 1
        is_person = True
    caller = request.caller("grant", is_person=is_person)
    answer = with_journal(request, lambda journal: journal.revoke(command, caller))
    if request.as_json:
        write_json(answer)
    else:
        _say(answer)
    return 0


def _question(shown: Mapping[str, Any], command: GrantAuthority) -> str:
    effect = shown.get("effect", {})
    pairs: list[tuple[str, Any]] = [
        ("action", effect.get("action") or shown["action"]),
        ("target", effect.get("target") or shown["target"]),
        *(
            (name, as_json_text(effect[name], compact=True)[:_SHOWN])
            for name in ("args", "payload")
            if name in effect
        ),
        *((name, shown[name]) for name in ("run", "key", "operation", "state") if name in shown),
        ("next", f"{shown['next']}: {shown['reason']}" if "next" in shown else None),
        ("differs", differences(shown)),
        ("asked by", shown.get("request", {}).get("asked_by")),
        ("its words", shown.get("request", {}).get("why")),
        ("only if", ", ".join(command.constraints) or None),
    ]
    facts = [
        (name, value if isinstance(value, Text) else show.plain(value))
        for name, value in pairs
        if value is not None
    ]
    breadth = (
        "You are about to permit this operation, as it is shown here."
        if "operation" in shown
        else "You are about to permit EVERY operation whose action and target match."
    )
    confirm = "the operation's key or id, or the request's id" if "operation" in shown else "the request's id"
    if command.request is None and "operation" not in shown:
        confirm = "the pattern of the action"
    end = command.expires_at or (
        f"{in_words(command.lasts_seconds)} from now" if command.lasts_seconds else None
    )
    uses = (
        "any number of operations"
        if command.max_uses is None
        else show.counted(command.max_uses, "operation")
    )
    bounds = f"It ends: {escape_untrusted(end, limit=60) if end else 'never by itself'}" + (
        "." if "operation" in shown else f"; {uses}."
    )
    return (
        f"{show.rendered(show.facts(facts))}\n\n{breadth} {bounds}\n"
        f"To confirm, type {confirm}; anything else leaves it as it is.\n> "
    )


def _pairs(line: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        (
            name.replace("_", " "),
            _in_words(name, value),
        )
        for name, value in line.items()
    ]


def _in_words(name: str, value: Any) -> Text:
    match value:
        case str() if name.endswith("_at") or name == "not_before":
            return show.plain(show.moment(value))
        case str() | int():
            return show.plain(value)
        case [*items] if all(isinstance(item, str) for item in items):
            return show.plain(", ".join(items))
        case _:
            return show.plain(as_json_text(value, compact=True))


def _say(answer: Mapping[str, Any]) -> None:
    shown = answer.get("grant")
    pairs = [("answer", show.plain(f"{answer['next']}: {answer['reason']}"))]
    pairs += [("", show.plain(advice(answer["next"], answer["reason"], it=_grantable(answer))))]
    if isinstance(shown, Mapping):
        pairs += _pairs(shown)
    for name in ("request", "operation", "key", "state"):
        if name in answer and not (isinstance(shown, Mapping) and name in shown):
            pairs.append((name, show.plain(answer[name])))
    pairs += [("warning", show.plain(warning)) for warning in answer.get("warnings", ())]
    write(show.rendered(show.facts(pairs)))


def _grantable(answer: Mapping[str, Any]) -> str:
    """Name what `counterfoil grant` would permit: what was asked for, or the operation."""
    named = (answer[name] for name in ("request", "operation") if isinstance(answer.get(name), str))
    return next(named, "OPERATION")


def with_journal(request: Request, work: Callable[["Journal"], Awaitable[Any]]) -> Any:
    """Carry `work` out on the journal that is there."""

    async def carry_out() -> Any:
        async with request.journal() as journal:
            return await work(journal)

    return anyio.run(carry_out)
