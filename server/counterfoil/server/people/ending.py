"""What a person decides about a whole run: `release` ends a session's hold on it, `finish` the run itself."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import click

from counterfoil.server.people import rendering as show
from counterfoil.server.people.advice import advice
from counterfoil.server.people.gathering import whole_plan
from counterfoil.server.people.output import tell, write, write_json
from counterfoil.server.people.person import (
    SECRET_FILE_VARIABLE,
    answers_at_terminal,
    brings_secret,
    is_at_terminal,
)
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command
from counterfoil.store.domain.commands import FinishRun, ReleaseRun
from counterfoil.store.errors import TooLarge

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["finish", "release"]

_UNCONFIRMED = "counterfoil: not confirmed; nothing was recorded"
_CLAIM = (
    "counterfoil: no terminal and no operator's secret, so nobody was shown to be a person: "
    "this counts as an agent's word"
)
_RELEASED = (
    "The hold is over: the next session that takes the run up has it. Live attempts go on; `counterfoil "
    "reconcile --end-lease` ends one."
)
_NOT_HELD = "Nobody holds this run: nothing was changed."
_MEANINGS = {
    "completed": "All of it is done. Refused while anything is open, or a required criterion is not met.",
    "failed": "It did not come to its end. What is open stays listed; begin_run may take it up again.",
    "cancelled": "It is given up for good. What is open stays listed; nothing new is begun in it.",
}

_secret_option = click.option(
    "--operator-secret-file",
    metavar="FILE",
    help=f"The operator's secret, in place of a terminal; also {SECRET_FILE_VARIABLE}.",
)


@teaching_command(
    short="end the hold that a session has on a run",
    examples=[
        "counterfoil release weekly-report/2026-W48 --reason 'its terminal is gone'",
        "counterfoil plan weekly-report/2026-W48               what the next session finds",
    ],
)
@click.argument("run")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is kept.")
@_secret_option
def release(request: Request, run: str, *, reason: str, operator_secret_file: str | None) -> int:
    """End the hold that a session has on RUN, so that another need not wait for its end.

    Whoever calls begin_run next has the run, also the former holder; of two, the later is told `run_held`. A
    hold is advisory, and ends by itself when its holder is silent. Operations are guarded one by one: their
    live attempts go on, and `counterfoil reconcile --end-lease` ends one of those.

    You are a person here if you answer a question at a terminal, or bring the operator's secret; nobody else
    ends a hold. Over stdio this guards against mistakes: it is no security boundary against somebody with the
    same user's shell.
    """
    _check_length(request, reason)
    is_person, seen = brings_secret(request.settings, secret_file=operator_secret_file), None
    if not is_person and is_at_terminal():
        shown = _with_journal(request, lambda journal: journal.preview_release(run))
        # Where nobody holds it there is nothing to confirm, and whoever takes it meanwhile keeps it.
        seen = shown.get("seen", "")
        if seen and not answers_at_terminal(_release_question(shown), accepted=[shown["run"]]):
            tell(_UNCONFIRMED)
            return 1
        is_person = True
    command = ReleaseRun(run=run, reason=reason, seen=seen)
    caller = request.caller("release", is_person=is_person)
    answer = _with_journal(request, lambda journal: journal.release_run(command, caller))
    if request.as_json:
        write_json({**answer, "released": answer["reason"] == "recorded"})
    else:
        words = _RELEASED if "held_by" in answer else _NOT_HELD
        _say(answer, _hold_lines(answer), words if answer["next"] == "continue" else None)
    return 0 if answer["next"] == "continue" else 1


@teaching_command(
    short="say how a run ended",
    examples=[
        "counterfoil finish weekly-report/2026-W48 failed --reason 'the host died; it is run anew by hand'",
        "counterfoil finish weekly-report/2026-W48 completed --reason 'checked with accounting'",
    ],
)
@click.argument("run")
@click.argument("outcome", type=click.Choice(list(_MEANINGS)), metavar="completed|failed|cancelled")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is kept.")
@_secret_option
def finish(request: Request, run: str, outcome: str, *, reason: str, operator_secret_file: str | None) -> int:
    """Say how RUN ended, as an agent does with finish_run: completed, failed or cancelled.

    `completed` is refused, naming what is in the way, while an operation is planned, in progress, in doubt,
    failed or disputed (`counterfoil reconcile` and `close` settle those), or a required criterion is not met
    (`counterfoil reconcile --satisfies` gives the evidence, `counterfoil spec FILE --run RUN` another
    specification). `failed` and `cancelled` need none of that, and leave open questions listed. A run that is
    finished is ended only once: another outcome is `stop: run_finished`.

    You are a person here if you answer a question at a terminal, or bring the operator's secret; otherwise
    it is recorded as an agent's word. Over stdio this guards against mistakes: it is no security boundary
    against somebody with the same user's shell.
    """
    _check_length(request, reason)
    is_person = brings_secret(request.settings, secret_file=operator_secret_file)
    if not is_person and is_at_terminal():
        looker = request.caller("finish")
        shown = _with_journal(request, lambda journal: whole_plan(journal, looker, run=run, include="open"))
        if not answers_at_terminal(_finish_question(shown, outcome), accepted=[shown["run"]["run"]]):
            tell(_UNCONFIRMED)
            return 1
        is_person = True
    command = FinishRun(run=run, outcome=outcome, reason=reason)
    caller = request.caller("finish", is_person=is_person)
    answer = _with_journal(request, lambda journal: journal.finish_run(command, caller))
    is_finished = answer["next"] == "continue"
    if not is_person:
        tell(_CLAIM + ("." if is_finished else ", and the run is not finished by it."))
    if request.as_json:
        write_json({**answer, "decided_as": "person" if is_person else "claim", "finished": is_finished})
    else:
        _say(answer, _unmet_lines(answer))
    return 0 if is_finished else 1


def _release_question(shown: Mapping[str, Any]) -> str:
    return (
        f"{show.rendered(show.facts([('run', show.plain(shown['run'])), *_hold_lines(shown)]))}\n\n"
        "You are about to end this session's hold on the run. Whoever calls begin_run next has it; "
        "live attempts go on.\n"
        "To confirm, type the run's name; anything else leaves it as it is.\n> "
    )


def _finish_question(shown: Mapping[str, Any], outcome: str) -> str:
    run, criteria = shown["run"], shown.get("criteria")
    pairs = [
        ("run", show.plain(run["run"])),
        *((name, show.plain(run[name])) for name in ("workflow", "goal") if name in run),
        ("operations", show.counts(shown["counts"])),
        *((("criteria", show.plain(_criteria(criteria))),) if criteria else ()),
        *((("held by", show.plain(f"{run['held_by']}")),) if "held_by" in run else ()),
        *((("finished as", show.plain(run["finished_as"])),) if "finished_as" in run else ()),
    ]
    return (
        f"{show.rendered(show.facts(pairs))}\n\n"
        f"You are about to finish this run as {outcome}.\n{_MEANINGS[outcome]}\n"
        "To confirm, type the run's name; anything else leaves it as it is.\n> "
    )


def _criteria(counted: Mapping[str, Any]) -> str:
    return ", ".join(f"{counted[state]} {state}" for state in ("met", "stale", "unmet"))


Line = tuple[str, Any]


def _hold_lines(answer: Mapping[str, Any]) -> list[Line]:
    """Tell who holds the run, or held it, and which of its live attempts go on."""
    if "held_by" not in answer:
        return []
    session = answer.get("session", {})
    lines: list[Line] = [
        ("held by", show.plain(answer["held_by"])),
        ("until", show.plain(show.moment(answer["held_until"]))),
        *(
            (name, show.plain(session[name]))
            for name in ("principal", "conversation", "connection")
            if name in session
        ),
    ]
    lines += [
        (
            "live attempt",
            show.plain(
                f"{each['attempt']} of {each['key']} ({each['operation']}), "
                f"until {show.moment(each['lease_expires_at'])}"
            ),
        )
        for each in answer.get("live_attempts", ())
    ]
    return _and_more(lines, answer, "live_attempts")


def _unmet_lines(answer: Mapping[str, Any]) -> list[Line]:
    lines: list[Line] = [
        ("unmet", show.plain(f"{each['key']} ({each['operation']}) is {each['state']}"))
        for each in answer.get("unmet", ())
    ]
    lines = _and_more(lines, answer, "unmet")
    lines += [("unmet criterion", show.plain(name)) for name in answer.get("unmet_criteria", ())]
    return _and_more(lines, answer, "unmet_criteria")


def _and_more(lines: list[Line], answer: Mapping[str, Any], name: str) -> list[Line]:
    rest = answer.get(f"{name}_in_all", 0) - len(answer.get(name, ()))
    return [*lines, ("", show.plain(f"and {rest} more"))] if rest > 0 else lines


def _say(answer: Mapping[str, Any], lines: list[Line], words: str | None = None) -> None:
    pairs: list[Line] = [
        ("run", show.plain(answer["run"])),
        ("answer", show.plain(f"{answer['next']}: {answer['reason']}")),
        ("", show.plain(words or advice(answer["next"], answer["reason"]))),
        *((("finished as", show.plain(answer["finished_as"])),) if "finished_as" in answer else ()),
        *lines,
        *(("warning", show.plain(warning)) for warning in answer.get("warnings", ())),
    ]
    write(show.rendered(show.facts(pairs)))


def _check_length(request: Request, reason: str) -> None:
    limit = request.settings.limits.text_characters
    if len(reason) > limit:
        raise TooLarge("reason", size=len(reason), limit=limit, unit="characters")


def _with_journal(request: Request, work: Callable[["Journal"], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    async def carry_out() -> dict[str, Any]:
        async with request.journal() as journal:
            return await work(journal)

    return anyio.run(carry_out)
