"""Carries a decision out: as a person's, if one was shown to be there, or else as an agent's claim."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from counterfoil.server.people import rendering as show
from counterfoil.server.people.advice import advice_on
from counterfoil.server.people.operation_page import summary
from counterfoil.server.people.output import tell, write, write_json
from counterfoil.server.people.person import answers_at_terminal, brings_secret, is_at_terminal
from counterfoil.server.people.request import Request
from counterfoil.store.domain.commands import Caller, CheckOperation, OperationRef
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["decide"]

Command = Callable[["Journal", Caller, str | None], Awaitable[dict[str, Any]]]
"""Carries the decision out, as this caller, after that moment at which the person saw the operation."""

_SETTLES: Mapping[str, tuple[str, ...]] = {
    "performed": ("succeeded",),
    "not_performed": ("failed", "planned"),
    "compensated": ("compensated",),
    "inconclusive": (),
    "timed_out": ("timed_out",),
    "cancelled": ("cancelled",),
}
"""The states in which what was asked holds."""

_MEANINGS = {
    "performed": "It happened: with a reference of the performing system (--external-id) it counts as done, "
    "without one this is kept as a claim.",
    "not_performed": "It did not happen, and nothing can still arrive: an agent may then perform it again.",
    "compensated": "It happened and was undone: with the undoing's reference (--external-id) it is closed.",
    "inconclusive": "It could not be found out. With --end-lease the live attempt is over.",
    "timed_out": "Nobody waits any longer: it counts as failed, without evidence. This is final.",
    "cancelled": "It is given up. This is final.",
}

_CLAIM = (
    "counterfoil: no terminal and no operator's secret, so nobody was shown to be a person: "
    "this counts as an agent's word"
)


def decide(
    request: Request,
    ref: OperationRef,
    work: Command,
    *,
    name: str,
    asked: str,
    wanted: str,
    secret: str | None,
    satisfies: Sequence[str] = (),
    may_be_new: bool = False,
) -> int:
    """Find out whether a person decides, carry the decision out, and say what came of it.

    `satisfies` are criteria that have to be met afterwards. `may_be_new`: the operation may be one that
    nobody began.

    Raises:
        InvalidArgument: the run is held against no such criterion; nothing was recorded.
        NotFound: there is no such operation, or no such run.
    """
    is_person, seen_at = brings_secret(request.settings, secret_file=secret), None
    is_asked = not is_person and is_at_terminal()
    if is_asked or satisfies:
        shown = anyio.run(_look, request, ref, name, satisfies, may_be_new)
    if is_asked:
        if not answers_at_terminal(_question(shown, asked, wanted), accepted=_names(shown)):
            tell("counterfoil: not confirmed; nothing was recorded")
            return 1
        is_person, seen_at = True, shown.get("as_of")

    async def carry_out() -> dict[str, Any]:
        async with request.journal() as journal:
            answer = await work(journal, request.caller(name, is_person=is_person), seen_at)
            if satisfies:
                answer["criteria"] = _named(await journal.list_criteria(answer["run"]), satisfies)
            return answer

    answer = anyio.run(carry_out)
    is_settled = _is_settled(answer, wanted) and all(
        one["state"] == "met" for one in answer.get("criteria", ())
    )
    if not is_person:
        tell(_CLAIM + ("." if is_settled else ", which did not settle what was asked."))
    if request.as_json:
        write_json({**answer, "decided_as": "person" if is_person else "claim", "settled": is_settled})
    else:
        _say(answer)
    return 0 if is_settled else 1


async def _look(
    request: Request, ref: OperationRef, name: str, satisfies: Sequence[str], may_be_new: bool
) -> dict[str, Any]:
    """Look at the operation that is decided about, and make sure that the run has the criteria named."""
    async with request.journal() as journal:
        try:
            shown = await journal.check_operation(CheckOperation(ref=ref), request.caller(name))
        except NotFound:
            if not may_be_new or ref.run is None or ref.key is None:
                raise
            shown = {"run": ref.run, "key": ref.key}
        if satisfies:
            known = await journal.list_criteria(shown["run"])
            unknown = {one.strip() for one in satisfies} - {one["id"] for one in known}
            if unknown:
                raise InvalidArgument(
                    "satisfies",
                    f"names what the run is not held against: {', '.join(sorted(unknown))}",
                    accepted=", ".join(one["id"] for one in known)
                    or "criteria: `counterfoil spec FILE --run RUN` gives the run some",
                )
        return shown


def _named(criteria: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    wanted = {name.strip() for name in names}
    return [one for one in criteria if one["id"] in wanted]


def _names(shown: Mapping[str, Any]) -> list[str]:
    return [shown[name] for name in ("key", "operation") if name in shown]


def _question(shown: Mapping[str, Any], asked: str, wanted: str) -> str:
    page = (
        summary(shown, is_advised=False)
        if "operation" in shown
        else show.facts(
            [
                ("run", show.plain(shown["run"])),
                ("key", show.plain(shown["key"])),
                ("", "There is no such operation: it is put on file as an effect that nobody announced."),
            ]
        )
    )
    return (
        f"{show.rendered(page)}\n\n"
        f"You are about to record: {escape_untrusted(asked, limit=200)}.\n{_MEANINGS[wanted]}\n"
        "To confirm, type the operation's key or its id; anything else leaves it as it is.\n> "
    )


def _is_settled(answer: Mapping[str, Any], wanted: str) -> bool:
    """Tell whether what was asked now holds, or was taken as it was meant."""
    if answer["state"] in _SETTLES[wanted]:
        return True
    return bool(answer["next"] == "continue" and answer["reason"] != "claimed")


def _say(answer: Mapping[str, Any]) -> None:
    lines = [
        show.facts(
            [
                ("operation", show.plain(answer["operation"])),
                ("key", show.plain(answer["key"])),
                ("state", show.state(answer["state"])),
                ("answer", show.plain(f"{answer['next']}: {answer['reason']}")),
                ("", show.plain(advice_on(answer))),
                *(
                    ("criterion", show.plain(f"{one['id']}: {one['state']}"))
                    for one in answer.get("criteria", ())
                ),
                *((("warning"), show.plain(warning)) for warning in answer.get("warnings", ())),
            ]
        )
    ]
    write(show.rendered(*lines))
