"""Every cell of docs/states.md with the ways to reach it and the command that is given there."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from conformance import states_reaching as to
from conformance.states_reaching import (
    A_DAY_OLD,
    AN_HOUR,
    CALL,
    KEYED,
    LOOKUP,
    MESSAGE,
    REFUSED,
    SAFE,
    UNDOING,
    found_as_foreign,
    found_undone_as_foreign,
    looked,
    looked_before_attempt_2,
)
from counterfoil.store.domain.model import Assurance
from counterfoil.store.domain.states import Policy
from journals import AGENT, ANOTHER, PERSON, Desk

__all__ = ["CASES", "Case"]

Step = Callable[[Desk], Awaitable[Any]]

STRICT = Policy(assurance=(("*", Assurance.VERIFIED),))
"""Every reference that an agent brings is below the required assurance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to one part of one cell.

    `verb` is what `disputed†` means here; `ends` the state of the decision that stood before a dispute;
    `below` the row that decides where the cell says `↓`.
    """

    table: str
    situation: str
    state: str
    part: str
    reach: Step
    give: Step
    verb: str | None = None
    ends: str | None = None
    below: str | None = None
    policy: Policy | None = None

    @property
    def name(self) -> str:
        """A readable id."""
        place = f"{self.situation}, {self.state}" + (f", {self.part}" if self.part else "")
        return f"{self.table}: {place} ({_name(self.reach)}; {_name(self.give)})"


def _name(step: Step) -> str:
    if isinstance(step, partial):
        given = [str(value) for value in step.args]
        given += [
            f"{name}={getattr(value, 'conversation', value) or 'person'}"
            for name, value in step.keywords.items()
        ]
        return f"{_name(step.func)} {' '.join(given)}"[:60].strip()
    return step.__name__


def _reach(step: Step, **terms: Any) -> Step:
    """Reach a state with terms, under the name of both."""

    async def reached(desk: Desk) -> None:
        await step(desk, **terms)

    words = [str(terms["repeat"])] if "repeat" in terms else ["with a lookup"] if "lookup" in terms else []
    reached.__name__ = " ".join([step.__name__, *words])
    return reached


def _give(method: str, *arguments: Any, **fields: Any) -> Step:
    """Give a command on the desk."""

    async def given(desk: Desk) -> Any:
        return await getattr(desk, method)(*arguments, **fields)

    shown = [str(argument) for argument in arguments]
    shown += [
        f"{name}={value.conversation or 'a person' if name == 'caller' else value}"
        for name, value in fields.items()
        if name not in ("kind", "system", "evidence")
    ]
    given.__name__ = f"{method} {' '.join(shown)}".strip()
    return given


def _look(finding: str, **fields: Any) -> Step:
    async def given(desk: Desk) -> Any:
        return await looked(desk, finding, **fields)

    given.__name__ = f"look {finding}"
    return given


def _row(table: str, situation: str, give: Step | None, *ons: dict[str, Any]) -> Iterator[Case]:
    for on in ons:
        given = on.pop("give", None) or give
        assert given is not None
        yield Case(table=table, situation=situation, give=given, **on)


def _on(state: str, *reaches: Step, part: str = "", **more: Any) -> list[dict[str, Any]]:
    return [{"state": state, "part": part, "reach": reach, **more} for reach in reaches]


def _with(fields: list[list[dict[str, Any]]], **more: Any) -> list[dict[str, Any]]:
    return [{**more, **on} for group in fields for on in group]


def _begin() -> Iterator[Case]:
    table, begin = "begin_operation", _give("begin")
    settled = [
        *_on("succeeded", to.succeeded_long_ago, to.succeeded_unannounced, to.succeeded_by_a_finding),
        *_on("timed_out", to.given_up_waiting, to.deadline_passed, to.failed_and_timed_out),
        *_on("cancelled", to.cancelled_plan, to.failed_and_cancelled, to.cancelled_in_doubt),
        *_on("compensated", to.undone_long_ago, to.undone_without_a_receipt, to.undone_by_another_operation),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_a_person, verb="reconcile"),
        *_on("disputed", to.timed_out_disputed_by_receipt, verb="reconcile"),
        *_on(
            "disputed",
            to.cancelled_disputed_by_receipt,
            to.cancelled_failure_disputed_by_receipt,
            verb="reconcile",
        ),
        *_on("disputed", to.disputed_by_effects, to.disputed_by_negative, verb="ask"),
        *_on("disputed", to.undone_disputed_by_effects, verb="ask"),
    ]
    yield from _row(
        table,
        "no live lease; unsafe, or the key is over",
        begin,
        *_on("planned", to.unheard_of, to.planned, _reach(to.planned, **KEYED)),
        *_on("in_doubt", to.lapsed, to.reported_unknown, to.settled_by_lookup, to.claimed_by_nobody),
        *_on("in_doubt", to.key_over, to.looked_twice),
        *_on("in_doubt", to.looked_thrice, to.looked_without_a_lookup, part="looked in vain"),
        *_on("failed", to.refused, to.looked_up_and_not_found, to.denied_by_a_person, to.refused_twice),
        *_on("failed", to.receipt_set_aside),
        *settled,
    )
    settled = [
        *_on("succeeded", _reach(to.succeeded_long_ago, **SAFE), _reach(to.succeeded_long_ago, **KEYED)),
        *_on("timed_out", _reach(to.given_up_waiting, **SAFE), _reach(to.given_up_waiting, **KEYED)),
        *_on("cancelled", _reach(to.failed_and_cancelled, **SAFE), _reach(to.cancelled_in_doubt, **KEYED)),
        *_on("compensated", _reach(to.undone_long_ago, **SAFE), _reach(to.undone_long_ago, **KEYED)),
        *_on("disputed", _reach(to.disputed_by_receipt, **SAFE), verb="reconcile"),
        *_on("disputed", _reach(to.disputed_by_effects, **KEYED), verb="ask"),
    ]
    yield from _row(
        table,
        "no live lease; safe, or the key is alive",
        begin,
        *_on("planned", _reach(to.planned, **SAFE), _reach(to.planned, **KEYED)),
        *_on("in_doubt", _reach(to.lapsed, **SAFE), _reach(to.settled, **SAFE), part="safe"),
        *_on("in_doubt", _reach(to.lapsed, **KEYED), to.repeated_and_lapsed, part="key alive"),
        *_on("in_doubt", to.repeated_and_refused, _reach(to.looked_thrice, **KEYED), part="key alive"),
        *_on("failed", _reach(to.refused, **SAFE), _reach(to.refused, **KEYED)),
        *_on("failed", _reach(to.looked_up_and_not_found, **KEYED)),
        *settled,
    )
    live = [
        *_on("succeeded", to.succeeded),
        *_on("compensated", to.undone),
        *_on("disputed", to.retried_disputed_by_receipt, verb="reconcile"),
    ]
    yield from _row(
        table,
        "live lease, by its holder",
        begin,
        *_on("in_progress", to.begun, to.retried, to.repeated, _reach(to.begun, **SAFE)),
        *live,
    )
    yield from _row(
        table,
        "live lease, by another",
        _give("begin", caller=ANOTHER),
        *_on("in_progress", to.begun, to.retried, to.repeated, _reach(to.begun, **SAFE)),
        *live,
    )
    yield from _row(
        table,
        "same call id, no other caller",
        _give("begin", caller=CALL),
        *_on("in_progress", to.begun_by_the_one_call),
        *_on("in_doubt", to.lapsed_of_the_one_call),
        *_on("in_doubt", _reach(to.lapsed_of_the_one_call, **KEYED), part="repeatable"),
        *_on("in_doubt", _reach(to.lapsed_of_the_one_call, **SAFE), part="repeatable"),
        *_on("failed", to.refused_the_one_call),
        *_on("succeeded", to.succeeded_the_one_call),
        *_on("timed_out", to.given_up_waiting_for_the_one_call),
        *_on("cancelled", to.cancelled_the_one_call),
        *_on("compensated", to.undone_the_one_call),
        *_on("disputed", to.disputed_the_one_call, verb="reconcile"),
    )


def _receipt() -> Iterator[Case]:
    table, receipt = "record_receipt", _give("receipt")
    another = "another external_id, same kind and system"
    other_kind = "other kind or system, same attempt"
    second = _give("receipt", external_id="m-2")
    unknown_to_all = _give("receipt", action="email.send", target="key-1@example.org")
    yield from _row(
        table,
        "strong, of the newest attempt or none named",
        receipt,
        *_on("planned", to.planned),
        *_on("planned", to.unheard_of, give=unknown_to_all),
        *_on("in_progress", to.begun, to.retried, to.repeated),
        *_on("in_progress", to.begun, give=_give("receipt", attempt=1)),
        *_on("in_progress", to.begun, give=_give("receipt", caller=ANOTHER)),
        *_on("in_doubt", to.lapsed, to.reported_unknown, to.looked_thrice, to.claimed_by_nobody),
        *_on("in_doubt", to.repeated_and_refused, to.retried_and_lapsed, to.lapsed_of_the_one_call),
        *_on("failed", to.refused, to.looked_up_and_not_found, to.denied_by_a_person, to.refused_twice),
        *_on("succeeded", to.succeeded, to.succeeded_unannounced, give=second, below=another),
        *_on("timed_out", to.given_up_waiting, to.deadline_passed, to.failed_and_timed_out),
        *_on("cancelled", to.cancelled_plan, to.failed_and_cancelled, to.cancelled_in_doubt),
        *_on("compensated", to.undone_without_a_receipt),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_negative, give=second, verb="ask"),
    )
    older = _give("receipt", attempt=1)
    yield from _row(
        table,
        "strong, of an older attempt that was unknown",
        older,
        *_on("in_progress", to.repeated, _reach(to.repeated, **SAFE)),
        *_on("in_doubt", to.repeated_and_lapsed, to.repeated_and_refused),
        *_on(
            "succeeded",
            to.repeated_and_succeeded,
            below=another,
            give=_give("receipt", attempt=1, external_id="m-2"),
        ),
        *_on("timed_out", to.repeated_and_timed_out, to.repeated_and_refused_and_timed_out),
        *_on("cancelled", to.repeated_and_cancelled_in_doubt),
        *_on("compensated", to.repeated_and_undone),
        *_on(
            "disputed",
            to.repeated_disputed_by_receipt,
            to.repeated_and_refused_disputed_by_receipt,
            verb="ask",
            give=_give("receipt", attempt=1, external_id="m-2"),
        ),
    )
    yield from _row(
        table,
        "strong, of an older attempt that was found without effect",
        older,
        *_on("in_progress", to.retried),
        *_on("in_doubt", to.retried_and_lapsed),
        *_on("failed", to.refused_twice),
        *_on(
            "succeeded",
            to.retried_and_succeeded,
            below=another,
            give=_give("receipt", attempt=1, external_id="m-2"),
        ),
        *_on("timed_out", to.retried_and_timed_out),
        *_on("cancelled", to.retried_and_cancelled),
        *_on("compensated", to.retried_and_undone),
        *_on(
            "disputed",
            to.retried_disputed_by_receipt,
            verb="ask",
            give=_give("receipt", attempt=1, external_id="m-2"),
        ),
    )
    newest = _give("receipt", attempt=2)
    yield from _row(
        table,
        "strong, of the newest attempt, found without effect while an older one is unknown",
        newest,
        *_on("in_doubt", to.repeated_and_refused),
        *_on(
            "succeeded",
            to.refused_repeat_and_succeeded,
            below=another,
            give=_give("receipt", attempt=2, external_id="m-2"),
        ),
        *_on("timed_out", to.repeated_and_refused_and_timed_out),
        *_on("cancelled", to.repeated_and_refused_and_cancelled_in_doubt),
        *_on("compensated", to.repeated_and_refused_and_undone),
        *_on(
            "disputed",
            to.repeated_and_refused_disputed_by_receipt,
            verb="ask",
            give=_give("receipt", attempt=2, external_id="m-2"),
        ),
    )
    yield from _row(
        table,
        "same kind, system and external_id again",
        receipt,
        *_on("in_progress", to.begun_with_weak_receipt, policy=STRICT),
        *_on("in_doubt", to.lapsed_with_weak_receipt, policy=STRICT),
        *_on("failed", to.receipt_set_aside),
        *_on("succeeded", to.succeeded, to.succeeded_unannounced, to.succeeded_by_a_finding),
        *_on("timed_out", to.timed_out_with_weak_receipt, policy=STRICT),
        *_on("timed_out", to.closed_as_timed_out_over_a_receipt),
        *_on("cancelled", to.cancelled_with_weak_receipt, policy=STRICT),
        *_on("cancelled", to.closed_as_cancelled_over_a_receipt),
        *_on("compensated", to.undone),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_effects, to.disputed_by_negative),
    )
    yield from _row(
        table,
        another,
        second,
        *_on("succeeded", to.succeeded, to.succeeded_long_ago, to.succeeded_unannounced),
        *_on("succeeded", _reach(to.succeeded, **SAFE), part="safe"),
        *_on("timed_out", to.closed_as_timed_out_over_a_receipt),
        *_on("timed_out", _reach(to.closed_as_timed_out_over_a_receipt, **SAFE)),
        *_on("cancelled", to.closed_as_cancelled_over_a_receipt),
        *_on("compensated", to.undone, _reach(to.undone, **SAFE)),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_a_person, to.disputed_by_negative),
        *_on("disputed", to.disputed_by_effects, give=_give("receipt", external_id="m-3")),
    )
    yield from _row(
        table,
        other_kind,
        _give("receipt", kind="http_response", external_id="r-1"),
        *_on("succeeded", to.succeeded, to.succeeded_unannounced, to.repeated_and_succeeded),
        *_on("succeeded", to.succeeded, give=_give("receipt", system="imap", external_id="m-1")),
        *_on("timed_out", to.closed_as_timed_out_over_a_receipt),
        *_on("cancelled", to.closed_as_cancelled_over_a_receipt),
        *_on("compensated", to.undone),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_effects, to.disputed_by_negative),
    )
    yield from _row(
        table,
        "other kind or system, another attempt, not safe",
        _give("receipt", attempt=1, kind="http_response", external_id="r-1"),
        *_on("succeeded", to.repeated_and_succeeded, to.retried_and_succeeded),
        *_on(
            "timed_out",
            to.retried_and_closed_as_timed_out_over_a_receipt,
            give=_give("receipt", attempt=2, kind="file", external_id="r-1"),
        ),
        *_on(
            "cancelled",
            to.retried_and_closed_as_cancelled_over_a_receipt,
            give=_give("receipt", attempt=2, kind="file", external_id="r-1"),
        ),
        *_on("compensated", to.repeated_and_succeeded_and_undone),
        *_on("disputed", to.repeated_disputed_by_receipt),
        *_on(
            "disputed",
            to.retried_disputed_by_receipt,
            give=_give("receipt", attempt=2, kind="file", external_id="r-1"),
        ),
    )
    claims = [
        *_on("planned", to.planned),
        *_on("in_progress", to.begun, to.retried, to.repeated),
        *_on("in_doubt", to.lapsed, to.looked_thrice, to.claimed_by_nobody),
        *_on("failed", to.refused, to.looked_up_and_not_found),
        *_on("timed_out", to.given_up_waiting, to.deadline_passed),
        *_on("cancelled", to.cancelled_plan, to.failed_and_cancelled),
        *_on("compensated", to.undone_without_a_receipt),
    ]
    proven = [
        *_on("succeeded", to.succeeded),
        *_on("compensated", to.undone),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_effects, to.disputed_by_negative),
    ]
    weak = "claimed, or below the required assurance"
    yield from _row(table, weak, _give("receipt", external_id=None), *map(dict, claims), *map(dict, proven))
    yield from _row(
        table,
        weak,
        _give("receipt", external_id="m-7"),
        *_on("planned", to.unheard_of, policy=STRICT, give=_give("receipt", action="email.send")),
        *_on("in_progress", to.begun, policy=STRICT),
        *_on("in_doubt", to.lapsed, to.lapsed_with_weak_receipt, policy=STRICT),
        *_on("failed", to.refused, policy=STRICT),
    )
    final = "final: false"
    yield from _row(table, final, _give("receipt", final=False), *map(dict, claims), *map(dict, proven))
    foreign = [on for on in claims if on["reach"] is not to.unheard_of]
    yield from _row(
        table,
        "foreign",
        _give("receipt", external_id="m-9", performed_at=A_DAY_OLD),
        *map(dict, foreign),
        *_on("succeeded", to.succeeded),
        *_on("compensated", to.undone),
        *_on("disputed", to.disputed_by_receipt, verb="reconcile"),
        *_on("disputed", to.disputed_by_effects, to.disputed_by_negative, verb="ask"),
    )


def _failure() -> Iterator[Case]:
    table = "record_failure"
    ends = [
        *_on("succeeded", to.succeeded, to.succeeded_long_ago, to.succeeded_by_a_finding),
        *_on("timed_out", to.given_up_waiting, to.deadline_passed, to.failed_and_timed_out),
        *_on("cancelled", to.failed_and_cancelled, to.cancelled_in_doubt),
        *_on("compensated", to.undone, to.undone_without_a_receipt),
        *_on("disputed", to.disputed_by_receipt, to.timed_out_disputed_by_receipt, verb="reconcile"),
        *_on("disputed", to.disputed_by_effects, to.disputed_by_negative, verb="ask"),
    ]
    live_dispute = _on("disputed", to.retried_disputed_by_receipt, verb="reconcile")
    in_doubt = _on("in_doubt", to.lapsed, to.settled_by_lookup, to.reported_unknown, to.looked_thrice)
    failed = _on("failed", to.refused, to.looked_up_and_not_found, to.denied_by_a_person)
    unknown, second_unknown = _give("failure", "unknown"), _give("failure", "unknown", attempt=2)
    yield from _row(
        table,
        "newest attempt, its holder: unknown",
        unknown,
        *_on("in_progress", to.begun, _reach(to.begun, **SAFE)),
        *_on("in_progress", to.retried, to.repeated, give=second_unknown),
        *map(dict, in_doubt),
        *map(dict, failed),
        *map(dict, ends),
        *[{**on, "give": second_unknown} for on in live_dispute],
    )
    none, second_none = (_give("failure", "none", attempt=n, evidence=REFUSED) for n in (1, 2))
    evidence = "newest attempt, its holder: none, with evidence"
    yield from _row(
        table,
        evidence,
        none,
        *_on("in_progress", to.begun, _reach(to.begun, **KEYED)),
        *_on("in_progress", to.retried, give=second_none),
        *_on("in_progress", to.repeated, give=second_none, part="another is unknown"),
        *map(dict, in_doubt),
        *_on("in_doubt", to.retried_and_lapsed, give=second_none),
        *_on("in_doubt", to.repeated_and_lapsed, give=second_none, part="another is unknown"),
        *map(dict, failed),
        *map(dict, ends),
        *[{**on, "give": second_none} for on in live_dispute],
    )
    bare, unsure = _give("failure", "none"), _give("failure", "none", evidence={"status": 503})
    for give in (bare, unsure):
        yield from _row(
            table,
            "newest attempt, its holder: none, without evidence",
            give,
            *_on("in_progress", to.begun, _reach(to.begun, **SAFE)),
            *map(dict, in_doubt),
            *map(dict, failed),
            *map(dict, ends),
        )
    another = _give("failure", "none", caller=ANOTHER, evidence=REFUSED)
    yield from _row(
        table,
        "newest attempt, another caller: kept as a claim",
        another,
        *_on("in_progress", to.begun),
        *map(dict, in_doubt),
        *map(dict, failed),
        *map(dict, ends),
    )
    yield from _row(
        table,
        "older attempt",
        none,
        *_on("in_progress", to.retried, to.repeated),
        *_on("in_doubt", to.retried_and_lapsed, to.repeated_and_lapsed, to.repeated_and_refused),
        *_on("failed", to.refused_twice),
        *_on("succeeded", to.repeated_and_succeeded, to.retried_and_succeeded),
        *_on("timed_out", to.repeated_and_timed_out, to.retried_and_timed_out),
        *_on("cancelled", to.retried_and_cancelled, to.repeated_and_cancelled_in_doubt),
        *_on("compensated", to.repeated_and_undone, to.retried_and_undone),
        *_on("disputed", to.retried_disputed_by_receipt, to.repeated_disputed_by_receipt),
    )


def _progress() -> Iterator[Case]:
    table, mine = "record_progress", "newest attempt, its holder"
    ends = [
        *_on("failed", to.refused, to.refused_twice, to.looked_up_and_not_found, to.denied_by_a_person),
        *_on("succeeded", to.succeeded, to.succeeded_long_ago, to.succeeded_by_a_finding),
        *_on("timed_out", to.given_up_waiting, to.deadline_passed, to.failed_and_timed_out),
        *_on("cancelled", to.failed_and_cancelled, to.cancelled_in_doubt),
        *_on("compensated", to.undone, to.undone_without_a_receipt, to.undone_by_another_operation),
        *_on("disputed", to.disputed_by_receipt, to.timed_out_disputed_by_receipt, verb="reconcile"),
        *_on("disputed", to.retried_disputed_by_receipt, verb="reconcile"),
        *_on("disputed", to.disputed_by_effects, to.disputed_by_negative, verb="ask"),
    ]
    lapsed = [
        *_on("in_doubt", to.lapsed, to.settled_by_lookup, to.retried_and_lapsed, to.repeated_and_lapsed),
        *_on("in_doubt", to.in_doubt_with_a_deadline, _reach(to.lapsed, **SAFE)),
    ]
    ended = [
        *_on("in_doubt", to.reported_unknown, to.lapsed_and_looked, to.looked_thrice),
        *_on("in_doubt", to.lapsed_and_claimed, to.lapsed_and_acknowledged),
        *_on("in_doubt", to.repeated_and_refused, to.longest_lease_over, to.key_over),
    ]
    live = _on("in_progress", to.begun, to.retried, to.repeated, _reach(to.begun, **SAFE))
    yield from _row(
        table,
        mine,
        _give("progress"),
        *map(dict, live),
        *_on("in_progress", to.begun_with_a_deadline, to.begun_with_weak_receipt, policy=STRICT),
        *[{**on, "part": "its lease merely ran out"} for on in lapsed],
        *map(dict, ended),
        *map(dict, ends),
    )
    yield from _row(
        table,
        "newest attempt, another caller",
        _give("progress", caller=ANOTHER),
        *map(dict, live),
        *map(dict, lapsed),
        *map(dict, ended),
        *map(dict, ends),
    )
    yield from _row(
        table,
        "older attempt",
        _give("progress", attempt=1),
        *_on("in_progress", to.retried, to.repeated),
        *_on("in_doubt", to.retried_and_lapsed, to.repeated_and_lapsed, to.repeated_and_refused),
        *_on("failed", to.refused_twice),
        *_on("succeeded", to.repeated_and_succeeded, to.retried_and_succeeded),
        *_on("timed_out", to.repeated_and_timed_out, to.retried_and_timed_out),
        *_on("cancelled", to.retried_and_cancelled, to.repeated_and_cancelled_in_doubt),
        *_on("compensated", to.repeated_and_undone, to.retried_and_undone),
        *_on("disputed", to.retried_disputed_by_receipt, to.repeated_disputed_by_receipt),
    )


def _reconcile() -> Iterator[Case]:
    yield from _performed()
    yield from _denied()
    yield from _compensated()
    yield from _by_a_person()


def _performed() -> Iterator[Case]:
    table = "reconcile_operation"
    another = {**MESSAGE, "external_id": "m-2"}
    other_kind = {"kind": "file", "system": "smtp", "external_id": "f-1"}
    for situation, caller in (
        ("performed, strong receipt", AGENT),
        ("a person: performed, naming the receipt that counts", PERSON),
    ):
        is_person = caller is PERSON
        performed = _give("reconcile", "performed", caller=caller, **MESSAGE)
        second = _give("reconcile", "performed", caller=caller, **another)
        yield from _row(
            table,
            situation,
            performed,
            *_on("planned", to.planned),
            *_on(
                "planned",
                to.unheard_of,
                give=_give("reconcile", "performed", caller=caller, **MESSAGE, action="email.send"),
            ),
            *_on("in_progress", to.begun, to.retried, to.repeated),
            *_on("in_doubt", to.lapsed, to.settled_by_lookup, to.looked_thrice, to.repeated_and_refused),
            *_on("failed", to.refused, to.looked_up_and_not_found, to.denied_by_a_person),
            *_on("failed", to.receipt_set_aside),
            *_on("succeeded", to.succeeded, to.succeeded_long_ago, part="same again"),
            *_on("succeeded", to.succeeded, give=second, part="another external_id"),
            *_on(
                "succeeded",
                to.succeeded,
                part="other kind, same attempt",
                give=_give("reconcile", "performed", caller=caller, **other_kind),
            ),
            *_on("timed_out", to.given_up_waiting, to.deadline_passed, to.failed_and_timed_out),
            *_on("timed_out", to.closed_as_timed_out_over_a_receipt),
            *_on("cancelled", to.cancelled_plan, to.failed_and_cancelled, to.cancelled_in_doubt),
            *_on("compensated", to.undone_without_a_receipt),
            *_on("compensated", to.undone, give=second),
            *_on("compensated", to.undone, part="same again"),
            *_on("disputed", to.disputed_by_receipt, to.disputed_by_negative, to.disputed_by_a_person),
            *_on("disputed", to.timed_out_disputed_by_receipt, to.cancelled_disputed_by_receipt),
            *_on("disputed", to.disputed_by_effects, to.undone_disputed_by_effects, part="two effects"),
            *_on("disputed", to.disputed_by_effects, part="two effects", give=second),
            *([] if is_person else _on("disputed", to.disputed_by_receipt, part="two effects", give=second)),
        )
    unproven = [
        *_on("planned", to.planned),
        *_on("in_progress", to.begun, to.retried),
        *_on("in_doubt", to.lapsed, to.settled_by_lookup, to.looked_thrice),
        *_on("failed", to.refused, to.looked_up_and_not_found),
        *_on("succeeded", to.succeeded),
        *_on("timed_out", to.given_up_waiting, to.deadline_passed),
        *_on("cancelled", to.cancelled_plan, to.failed_and_cancelled),
        *_on("compensated", to.undone),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_effects, to.disputed_by_negative),
    ]
    yield from _row(
        table, "performed, weak or no receipt", _give("reconcile", "performed"), *map(dict, unproven)
    )
    queued = _give("reconcile", "performed", kind="message", external_id="q-1", final=False)
    yield from _row(
        table,
        "performed, weak or no receipt",
        queued,
        *_on("planned", to.planned),
        *_on("in_progress", to.begun),
        *_on("in_doubt", to.lapsed),
        *_on("failed", to.refused),
    )
    foreign = "performed, foreign receipt"
    yield from _row(
        table,
        foreign,
        found_as_foreign,
        *(on for on in map(dict, unproven) if on["state"] != "disputed"),
        *_on("disputed", to.disputed_by_receipt, verb="reconcile"),
        *_on("disputed", to.disputed_by_effects, to.disputed_by_negative, verb="ask"),
    )

    for state, reach in (
        ("planned", to.planned),
        ("in_progress", to.begun),
        ("in_doubt", to.lapsed),
        ("failed", to.refused),
        ("timed_out", to.given_up_waiting),
        ("cancelled", to.failed_and_cancelled),
        ("compensated", to.undone),
    ):
        yield from _row(
            table,
            foreign,
            found_as_foreign,
            *_on(state, _twice_before(reach, found_as_foreign), part="the third"),
        )


def _twice_before(step: Step, find: Callable[[Desk], Awaitable[Any]]) -> Step:
    """Give the step that reaches what `step` does, with a find that proves nothing there made twice."""

    async def reached(desk: Desk) -> None:
        await step(desk)
        for _ in range(2):
            await find(desk)
            desk.clock.advance(10)

    reached.__name__ = f"{step.__name__} and twice {find.__name__}"
    return reached


def _denied() -> Iterator[Case]:
    table = "reconcile_operation"

    def rest(**terms: Any) -> list[dict[str, Any]]:
        return [
            *_on("planned", _reach(to.planned, **terms)),
            *_on("in_progress", _reach(to.begun, **terms), caller_is_another=True),
            *_on("failed", _reach(to.refused, **terms)),
            *_on("succeeded", _reach(to.succeeded, **terms), _reach(to.succeeded_long_ago, **terms)),
            *_on("timed_out", _reach(to.given_up_waiting, **terms), _reach(to.failed_and_timed_out, **terms)),
            *_on("cancelled", _reach(to.cancelled_plan, **terms), _reach(to.cancelled_in_doubt, **terms)),
            *_on("compensated", _reach(to.undone, **terms), _reach(to.undone_without_a_receipt, **terms)),
            *_on("disputed", _reach(to.disputed_by_receipt, **terms)),
            *_on(
                "disputed", _reach(to.disputed_by_effects, **terms), _reach(to.disputed_by_a_person, **terms)
            ),
        ]

    def row(
        situation: str, look: Callable[..., Step], finding: str, *ons: dict[str, Any], **terms: Any
    ) -> Iterator[Case]:
        for on in (*rest(**terms), *ons):
            caller = ANOTHER if on.pop("caller_is_another", False) else AGENT
            on.setdefault("give", look(finding, caller=caller))
            yield from _row(table, situation, None, on)

    def early(finding: str, **fields: Any) -> Step:
        return _give("reconcile", finding, **fields)

    holders = [
        *_on("in_progress", _reach(to.begun, **LOOKUP), part="by its holder"),
        *_on("in_progress", _reach(to.retried, **LOOKUP), part="by its holder"),
    ]
    keyed_settled = _reach(to.settled, **KEYED)
    yield from row(
        "not_performed, timely, with a lookup on record",
        _look,
        "not_performed",
        *map(dict, holders),
        *_on("in_doubt", to.settled_by_lookup, keyed_settled, _reach(to.settled, **SAFE), to.looked_thrice),
        **LOOKUP,
    )
    for finding in ("not_performed", "inconclusive"):
        yield from row(
            "not_performed or inconclusive, no lookup on record",
            _look,
            finding,
            *_on("in_progress", to.begun),
            *_on("in_doubt", to.lapsed, to.settled, to.looked_without_a_lookup, to.claimed_by_nobody),
        )
        yield from row(
            "not_performed or inconclusive, early",
            early,
            finding,
            *map(dict, holders),
            *_on("in_doubt", to.settled_by_lookup, _reach(to.lapsed, **LOOKUP), keyed_settled),
            *_on("in_doubt", _reach(to.lapsed, **LOOKUP), _reach(to.lapsed, **KEYED), give=_look(finding)),
            *_on("in_doubt", _reach(to.reported_unknown, **LOOKUP), give=_look(finding)),
            **LOOKUP,
        )
    older = "not_performed, about an older attempt"

    async def not_performed_as_of_then(desk: Desk) -> Any:
        return await looked_before_attempt_2(desk, "not_performed")

    for give in (_give("reconcile", "not_performed", attempt=1), not_performed_as_of_then):
        yield from _row(
            table,
            older,
            give,
            *_on("in_progress", to.retried, to.repeated),
            *_on("in_doubt", to.retried_and_lapsed, to.repeated_and_lapsed),
            *_on("failed", to.refused_twice),
            *_on("succeeded", to.repeated_and_succeeded, to.retried_and_succeeded),
            *_on("timed_out", to.repeated_and_timed_out, to.retried_and_timed_out),
            *_on("cancelled", to.retried_and_cancelled),
            *_on("compensated", to.repeated_and_undone, to.retried_and_undone),
            *_on("disputed", to.retried_disputed_by_receipt, to.repeated_disputed_by_receipt),
        )
    yield from row(
        "inconclusive, timely, with a lookup on record",
        _look,
        "inconclusive",
        *map(dict, holders),
        *_on("in_doubt", to.settled_by_lookup, keyed_settled),
        *_on("in_doubt", to.looked_twice, to.looked_thrice, part="looked in vain"),
        **LOOKUP,
    )


def _compensated() -> Iterator[Case]:
    table = "reconcile_operation"
    for situation, caller in (
        ("compensated, strong receipt of the undoing", AGENT),
        ("a person: compensated, with the receipt of the undoing", PERSON),
    ):
        yield from _row(
            table,
            situation,
            _give("reconcile", "compensated", caller=caller, **UNDOING),
            *_on("planned", to.planned),
            *_on("in_progress", to.begun, to.retried),
            *_on("in_doubt", to.lapsed, to.reported_unknown, to.looked_thrice, to.repeated_and_refused),
            *_on("failed", to.refused, to.denied_by_a_person),
            *_on("succeeded", to.succeeded, to.succeeded_long_ago, to.succeeded_unannounced),
            *_on("timed_out", to.given_up_waiting, to.deadline_passed),
            *_on("cancelled", to.failed_and_cancelled, to.cancelled_in_doubt, to.cancelled_plan),
            *_on("compensated", to.undone, to.undone_without_a_receipt, to.undone_by_another_operation),
            *_on("disputed", to.disputed_by_receipt, to.disputed_by_negative, to.disputed_by_a_person),
            *_on("disputed", to.disputed_by_effects, to.undone_disputed_by_effects, part="two effects"),
        )
    of_the_effect = _give("reconcile", "compensated", **MESSAGE)
    nothing = _give("reconcile", "compensated")
    foreign = _give("reconcile", "compensated", **UNDOING, performed_at=to.A_DAY_OLD)
    yield from _row(
        table,
        "compensated, foreign receipt of the undoing",
        foreign,
        *_on("planned", to.planned),
        *_on("in_progress", to.begun),
        *_on("in_doubt", to.lapsed, to.looked_thrice),
        *_on("failed", to.refused),
        *_on("succeeded", to.succeeded),
        *_on("timed_out", to.given_up_waiting),
        *_on("cancelled", to.cancelled_plan, to.cancelled_in_doubt),
        *_on("compensated", to.undone),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_effects, to.disputed_by_negative),
    )
    yield from _row(
        table,
        "compensated, foreign receipt of the undoing",
        found_undone_as_foreign,
        *_on("in_doubt", _twice_before(to.lapsed, found_undone_as_foreign), part="the third"),
    )
    weak = "compensated, weak or no receipt of the undoing"
    yield from _row(
        table,
        weak,
        nothing,
        *_on("planned", to.planned),
        *_on("in_progress", to.begun),
        *_on("in_doubt", to.lapsed, to.looked_thrice),
        *_on("failed", to.refused),
        *_on("succeeded", to.succeeded),
        *_on("succeeded", to.succeeded, give=of_the_effect),
        *_on("timed_out", to.given_up_waiting),
        *_on("cancelled", to.cancelled_plan, to.cancelled_in_doubt),
        *_on("compensated", to.undone),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_effects, to.disputed_by_negative),
    )


def _by_a_person() -> Iterator[Case]:
    yield from _row(
        "reconcile_operation",
        "a person: not_performed",
        _give("reconcile", "not_performed", caller=PERSON),
        *_on("planned", to.planned),
        *_on("in_progress", to.begun, to.retried, to.repeated),
        *_on("in_doubt", to.lapsed, to.reported_unknown, to.repeated_and_lapsed, to.claimed_by_nobody),
        *_on("in_doubt", to.looked_thrice, to.looked_without_a_lookup),
        *_on("failed", to.refused, to.looked_up_and_not_found),
        *_on("succeeded", to.succeeded, to.succeeded_unannounced, to.succeeded_by_a_finding),
        *_on("timed_out", to.given_up_waiting, to.deadline_passed, to.failed_and_timed_out),
        *_on("timed_out", to.never_attempted_and_timed_out, part="never attempted"),
        *_on("cancelled", to.failed_and_cancelled, to.cancelled_in_doubt),
        *_on("cancelled", to.cancelled_plan, part="never attempted"),
        *_on("compensated", to.undone, to.undone_without_a_receipt),
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_negative),
        *_on("disputed", to.disputed_by_effects_long_ago, to.disputed_by_a_person_long_ago),
        *_on("disputed", to.disputed_by_effects),
        *_on("disputed", to.retried_disputed_by_receipt, part="a live lease"),
        *_on("disputed", to.timed_out_disputed_by_receipt, part="after a decision", ends="timed_out"),
        *_on(
            "disputed",
            to.cancelled_disputed_by_receipt,
            to.cancelled_failure_disputed_by_receipt,
            part="after a decision",
            ends="cancelled",
        ),
        *_on("disputed", to.undone_disputed_by_effects, part="after a decision", ends="compensated"),
    )


def _close() -> Iterator[Case]:
    timed_out, cancelled = _give("close", "timed_out"), _give("close", "cancelled")
    by_person = {outcome: _give("close", outcome, caller=PERSON) for outcome in ("timed_out", "cancelled")}
    by_another = {outcome: _give("close", outcome, caller=ANOTHER) for outcome in ("timed_out", "cancelled")}
    decided = [
        *_on("succeeded", to.succeeded, to.succeeded_long_ago),
        *_on("timed_out", to.given_up_waiting, to.deadline_passed),
        *_on("cancelled", to.cancelled_plan, to.cancelled_in_doubt),
        *_on("compensated", to.undone, to.undone_without_a_receipt),
    ]
    disputed = [
        *_on("disputed", to.disputed_by_receipt, to.disputed_by_a_person, verb="reconcile"),
        *_on("disputed", to.disputed_by_effects, to.disputed_by_negative, verb="ask"),
    ]
    every_dispute = (
        to.disputed_by_receipt,
        to.disputed_by_effects,
        to.disputed_by_effects_long_ago,
        to.disputed_by_negative,
        to.timed_out_disputed_by_receipt,
        to.cancelled_disputed_by_receipt,
        to.undone_disputed_by_effects,
    )
    live_dispute = (to.retried_disputed_by_receipt,)
    for give, person in ((timed_out, False), (by_person["timed_out"], True)):
        yield from _row(
            "close_operation",
            "timed_out",
            give,
            *_on("planned", to.planned),
            *_on("in_progress", to.begun, to.retried, part="its holder or a person"),
            *_on("in_doubt", to.lapsed, to.reported_unknown, to.looked_thrice, to.claimed_by_nobody),
            *_on("failed", to.refused, to.looked_up_and_not_found),
            *map(dict, decided),
            *(
                _on("disputed", *every_dispute, *live_dispute, part="a person")
                if person
                else map(dict, disputed)
            ),
        )
    yield from _row("close_operation", "timed_out", by_another["timed_out"], *_on("in_progress", to.begun))
    for give, person in ((cancelled, False), (by_person["cancelled"], True)):
        yield from _row(
            "close_operation",
            "cancelled",
            give,
            *_on("planned", to.planned),
            *_on("in_progress", to.begun, to.retried),
            *_on("in_doubt", to.lapsed, to.reported_unknown, part="a person" if person else ""),
            *_on("failed", to.refused, to.looked_up_and_not_found),
            *map(dict, decided),
            *(_on("disputed", *every_dispute, part="a person") if person else map(dict, disputed)),
            *(_on("disputed", *live_dispute, part="a person, a live lease") if person else ()),
        )


def _time() -> Iterator[Case]:
    table = "Time and other operations"

    def passes(seconds: float) -> Step:
        async def given(desk: Desk) -> None:
            desk.clock.advance(seconds)

        given.__name__ = f"{seconds} s pass"
        return given

    yield from _row(
        table,
        "the lease of the newest attempt runs out",
        passes(300),
        *_on("in_progress", to.begun, to.retried, to.repeated, _reach(to.begun, **SAFE)),
        *_on("succeeded", to.succeeded),
        *_on("compensated", to.undone),
        *_on("disputed", to.retried_disputed_by_receipt),
    )
    yield from _row(
        table,
        "the deadline passes",
        passes(AN_HOUR),
        *_on("planned", _reach(to.planned, deadline_seconds=AN_HOUR)),
        *_on("in_progress", to.begun_with_a_deadline),
        *_on("in_doubt", to.in_doubt_with_a_deadline),
        *_on("failed", to.refused_with_a_deadline),
        *_on("succeeded", to.succeeded_with_a_deadline),
        *_on("timed_out", to.timed_out_with_a_deadline),
        *_on("cancelled", to.cancelled_with_a_deadline),
        *_on("compensated", to.undone_with_a_deadline),
        *_on("disputed", to.disputed_with_a_deadline),
    )

    async def its_undoing_succeeds(desk: Desk) -> None:
        answer = await desk.at("undo").receipt(external_id="undo-1")
        assert answer["state"] == "succeeded"

    yield from _row(
        table,
        "an operation with `compensates: this` succeeds",
        its_undoing_succeeds,
        *_on("in_progress", to.in_progress_undoing_begun),
        *_on("in_doubt", to.in_doubt_undoing_begun),
        *_on("failed", to.failed_undoing_begun),
        *_on("succeeded", to.succeeded_undoing_begun),
        *_on("timed_out", to.timed_out_undoing_begun),
        *_on("cancelled", to.cancelled_undoing_begun),
        *_on("compensated", to.compensated_undoing_begun),
        *_on("disputed", to.disputed_undoing_begun),
        *_on("disputed", to.disputed_by_effects_undoing_begun, part="two effects"),
    )


CASES = tuple(
    case for cases in (_begin, _receipt, _failure, _progress, _reconcile, _close, _time) for case in cases()
)
