"""Ways into each of the nine states, by commands and time only.

Each takes a desk and the terms of the first begin, and leaves the operation in the state that its name says.
Attempts are ten seconds apart, so that a time between them tells them apart.
"""

from typing import Any

from counterfoil.store.domain.commands import Lookup
from counterfoil.store.domain.instants import parse_rfc3339, rfc3339
from journals import AGENT, ANOTHER, PERSON, Desk, as_caller

__all__ = [
    "AN_HOUR",
    "A_DAY_OLD",
    "CALL",
    "KEYED",
    "LOOKUP",
    "REFUSED",
    "SAFE",
    "UNDOING",
]

LOOKUP: dict[str, Any] = {"lookup": Lookup(tool="search_sent")}
KEYED: dict[str, Any] = {"repeat": "keyed", "key_ttl_seconds": 86_400, **LOOKUP}
SAFE: dict[str, Any] = {"repeat": "safe", **LOOKUP}
REFUSED: dict[str, Any] = {"status": 422, "body": "no such mailbox"}
"""What shows that the request was refused before any effect."""

UNDOING: dict[str, Any] = {"kind": "message", "system": "smtp", "external_id": "recall-1"}
A_DAY_OLD = "2026-11-28T12:00:00Z"
AN_HOUR = 3_600
CALL = as_caller(AGENT, call_id="toolu_the_one_call_of_this_begin")


# planned


async def unheard_of(desk: Desk) -> None:
    """Nothing at all: the operation does not exist."""


async def planned(desk: Desk, **terms: Any) -> None:
    first = desk.at("first")
    await first.begin()
    await desk.begin(depends_on=("first",), **terms)
    await first.receipt(external_id="first-1")


# in_progress


async def begun(desk: Desk, **terms: Any) -> None:
    await desk.begin(**terms)


async def begun_by_the_one_call(desk: Desk, **terms: Any) -> None:
    await desk.begin(caller=CALL, **terms)


async def retried(desk: Desk, **terms: Any) -> None:
    """Attempt 1 refused, attempt 2 live."""
    await refused(desk, **terms)
    desk.clock.advance(10)
    await desk.begin()


async def repeated(desk: Desk, **terms: Any) -> None:
    """Attempt 1 unknown, attempt 2 live under the same key."""
    await desk.begin(**{**KEYED, **terms})
    await desk.failure("unknown")
    desk.clock.advance(10)
    await desk.begin()


async def begun_with_weak_receipt(desk: Desk, **terms: Any) -> None:
    await begun(desk, **terms)
    await desk.receipt()


async def begun_with_a_deadline(desk: Desk) -> None:
    await desk.begin(deadline_seconds=AN_HOUR, lease_seconds=2 * AN_HOUR)


# in_doubt


async def lapsed(desk: Desk, **terms: Any) -> None:
    await begun(desk, **terms)
    desk.clock.advance(300)


async def reported_unknown(desk: Desk, **terms: Any) -> None:
    await begun(desk, **terms)
    await desk.failure("unknown")


async def claimed_by_nobody(desk: Desk, **terms: Any) -> None:
    """A claim for an operation that was only planned."""
    await planned(desk, **terms)
    await desk.receipt(external_id=None)


async def settled(desk: Desk, **terms: Any) -> None:
    """In doubt, with the settle time over."""
    await lapsed(desk, **terms)
    desk.clock.advance(301)


async def settled_by_lookup(desk: Desk) -> None:
    await settled(desk, **LOOKUP)


async def lapsed_of_the_one_call(desk: Desk, **terms: Any) -> None:
    await begun_by_the_one_call(desk, **terms)
    desk.clock.advance(300)


async def looked_thrice(desk: Desk, **terms: Any) -> None:
    """Three looks that showed nothing either way."""
    await settled(desk, **{**LOOKUP, **terms})
    for _ in range(3):
        desk.clock.advance(10)
        await looked(desk, "inconclusive")


async def looked_twice(desk: Desk) -> None:
    await settled(desk, **LOOKUP)
    for _ in range(2):
        desk.clock.advance(10)
        await looked(desk, "inconclusive")
    desk.clock.advance(10)


async def looked_without_a_lookup(desk: Desk) -> None:
    await settled(desk)
    await looked(desk, "not_performed")


async def repeated_and_lapsed(desk: Desk, **terms: Any) -> None:
    await repeated(desk, **terms)
    desk.clock.advance(300)


async def retried_and_lapsed(desk: Desk, **terms: Any) -> None:
    """Attempt 1 refused, attempt 2 unknown."""
    await retried(desk, **terms)
    desk.clock.advance(300)


async def repeated_and_refused(desk: Desk, **terms: Any) -> None:
    """Attempt 1 unknown, attempt 2 without effect."""
    await repeated(desk, **terms)
    await desk.failure("none", attempt=2, evidence=REFUSED)


async def longest_lease_over(desk: Desk) -> None:
    """In doubt for so long that no extension of the lease would reach past now."""
    await begun(desk)
    desk.clock.advance(24 * AN_HOUR)


async def lapsed_and_looked(desk: Desk) -> None:
    """The lease ran out, and somebody has looked since."""
    await settled(desk, **LOOKUP)
    await looked(desk, "inconclusive")


async def lapsed_and_claimed(desk: Desk) -> None:
    """The lease ran out, and somebody says since that it was done."""
    await lapsed(desk)
    await desk.receipt(external_id=None, caller=ANOTHER)


async def lapsed_and_acknowledged(desk: Desk) -> None:
    """The lease ran out, and an acknowledgement came since."""
    await lapsed(desk)
    await desk.receipt(final=False)


async def key_over(desk: Desk) -> None:
    await begun(desk, **KEYED)
    desk.clock.advance(86_400 - 300)


async def lapsed_with_weak_receipt(desk: Desk) -> None:
    await begun_with_weak_receipt(desk)
    desk.clock.advance(300)


async def in_doubt_with_a_deadline(desk: Desk) -> None:
    await desk.begin(deadline_seconds=AN_HOUR)
    desk.clock.advance(300)


# failed


async def refused(desk: Desk, **terms: Any) -> None:
    await begun(desk, **terms)
    await desk.failure("none", evidence=REFUSED)


async def refused_the_one_call(desk: Desk) -> None:
    await begun_by_the_one_call(desk)
    await desk.failure("none", evidence=REFUSED)


async def refused_twice(desk: Desk, **terms: Any) -> None:
    await retried(desk, **terms)
    await desk.failure("none", attempt=2, evidence=REFUSED)


async def looked_up_and_not_found(desk: Desk, **terms: Any) -> None:
    await settled(desk, **{**LOOKUP, **terms})
    await looked(desk, "not_performed")


async def denied_by_a_person(desk: Desk, **terms: Any) -> None:
    await lapsed(desk, **terms)
    await desk.reconcile("not_performed", caller=PERSON)


async def receipt_set_aside(desk: Desk, **terms: Any) -> None:
    """A person twice denied what a receipt says, the lease being over."""
    await succeeded(desk, **terms)
    desk.clock.advance(300)
    await desk.reconcile("not_performed", caller=PERSON)
    await desk.reconcile("not_performed", caller=PERSON)


async def refused_with_a_deadline(desk: Desk) -> None:
    await desk.begin(deadline_seconds=AN_HOUR)
    await desk.failure("none", evidence=REFUSED)


# succeeded


async def succeeded(desk: Desk, **terms: Any) -> None:
    await begun(desk, **terms)
    await desk.receipt()


async def succeeded_long_ago(desk: Desk, **terms: Any) -> None:
    await succeeded(desk, **terms)
    desk.clock.advance(AN_HOUR)


async def succeeded_the_one_call(desk: Desk) -> None:
    await begun_by_the_one_call(desk)
    await desk.receipt()


async def succeeded_unannounced(desk: Desk) -> None:
    await planned(desk)
    await desk.receipt()


async def succeeded_by_a_finding(desk: Desk) -> None:
    await lapsed(desk)
    await desk.reconcile("performed", **MESSAGE)


async def repeated_and_succeeded(desk: Desk) -> None:
    """Attempt 1 unknown, attempt 2 with a receipt."""
    await repeated(desk)
    await desk.receipt(attempt=2)


async def retried_and_succeeded(desk: Desk) -> None:
    """Attempt 1 refused, attempt 2 with a receipt."""
    await retried(desk)
    await desk.receipt(attempt=2)


async def refused_repeat_and_succeeded(desk: Desk) -> None:
    """Attempt 1 has the receipt, attempt 2 was refused."""
    await repeated_and_refused(desk)
    await desk.receipt(attempt=1)


async def succeeded_with_a_deadline(desk: Desk) -> None:
    await desk.begin(deadline_seconds=AN_HOUR)
    await desk.receipt()


# timed_out


async def given_up_waiting(desk: Desk, **terms: Any) -> None:
    await lapsed(desk, **terms)
    await desk.close("timed_out")


async def given_up_waiting_for_the_one_call(desk: Desk) -> None:
    await lapsed_of_the_one_call(desk)
    await desk.close("timed_out")


async def deadline_passed(desk: Desk, **terms: Any) -> None:
    await desk.begin(deadline_seconds=AN_HOUR, **terms)
    desk.clock.advance(AN_HOUR)


async def failed_and_timed_out(desk: Desk, **terms: Any) -> None:
    await refused(desk, **terms)
    await desk.close("timed_out")


async def retried_and_timed_out(desk: Desk) -> None:
    await retried_and_lapsed(desk)
    await desk.close("timed_out")


async def repeated_and_timed_out(desk: Desk) -> None:
    await repeated_and_lapsed(desk)
    await desk.close("timed_out")


async def repeated_and_refused_and_timed_out(desk: Desk) -> None:
    await repeated_and_refused(desk)
    await desk.close("timed_out")


async def closed_as_timed_out_over_a_receipt(desk: Desk, **terms: Any) -> None:
    """A receipt contradicted `failed`, and a person decided to count it as timed out."""
    await disputed_by_receipt(desk, **terms)
    await desk.close("timed_out", caller=PERSON)


async def retried_and_closed_as_timed_out_over_a_receipt(desk: Desk) -> None:
    await retried_disputed_by_receipt(desk)
    desk.clock.advance(300)
    await desk.close("timed_out", caller=PERSON)


async def never_attempted_and_timed_out(desk: Desk) -> None:
    """Cancelled from the plan, contradicted by a receipt, and closed by a person."""
    await cancelled_disputed_by_receipt(desk)
    await desk.close("timed_out", caller=PERSON)


async def timed_out_with_weak_receipt(desk: Desk) -> None:
    await lapsed_with_weak_receipt(desk)
    await desk.close("timed_out")


async def timed_out_with_a_deadline(desk: Desk) -> None:
    await in_doubt_with_a_deadline(desk)
    await desk.close("timed_out")


# cancelled


async def cancelled_plan(desk: Desk, **terms: Any) -> None:
    await planned(desk, **terms)
    await desk.close("cancelled")


async def failed_and_cancelled(desk: Desk, **terms: Any) -> None:
    await refused(desk, **terms)
    await desk.close("cancelled")


async def cancelled_the_one_call(desk: Desk) -> None:
    await refused_the_one_call(desk)
    await desk.close("cancelled")


async def retried_and_cancelled(desk: Desk) -> None:
    await refused_twice(desk)
    await desk.close("cancelled")


async def cancelled_in_doubt(desk: Desk, **terms: Any) -> None:
    await lapsed(desk, **terms)
    await desk.close("cancelled", caller=PERSON)


async def repeated_and_cancelled_in_doubt(desk: Desk) -> None:
    await repeated_and_lapsed(desk)
    await desk.close("cancelled", caller=PERSON)


async def repeated_and_refused_and_cancelled_in_doubt(desk: Desk) -> None:
    await repeated_and_refused(desk)
    await desk.close("cancelled", caller=PERSON)


async def closed_as_cancelled_over_a_receipt(desk: Desk, **terms: Any) -> None:
    await disputed_by_receipt(desk, **terms)
    await desk.close("cancelled", caller=PERSON)


async def retried_and_closed_as_cancelled_over_a_receipt(desk: Desk) -> None:
    await retried_disputed_by_receipt(desk)
    desk.clock.advance(300)
    await desk.close("cancelled", caller=PERSON)


async def cancelled_with_weak_receipt(desk: Desk) -> None:
    await lapsed_with_weak_receipt(desk)
    await desk.close("cancelled", caller=PERSON)


async def cancelled_with_a_deadline(desk: Desk) -> None:
    await refused_with_a_deadline(desk)
    await desk.close("cancelled")


# compensated


async def undone(desk: Desk, **terms: Any) -> None:
    await succeeded(desk, **terms)
    await desk.reconcile("compensated", **UNDOING)


async def undone_long_ago(desk: Desk, **terms: Any) -> None:
    await undone(desk, **terms)
    desk.clock.advance(AN_HOUR)


async def undone_the_one_call(desk: Desk) -> None:
    await succeeded_the_one_call(desk)
    await desk.reconcile("compensated", **UNDOING)


async def undone_without_a_receipt(desk: Desk, **terms: Any) -> None:
    """Undone from `in_doubt`: no receipt of the effect itself is on file."""
    await lapsed(desk, **terms)
    await desk.reconcile("compensated", **UNDOING)


async def undone_by_another_operation(desk: Desk) -> None:
    answer = await desk.begin()
    await desk.receipt()
    undo = desk.at("undo")
    await undo.begin(compensates=answer["operation"])
    await undo.receipt(external_id="undo-1")


async def repeated_and_undone(desk: Desk) -> None:
    await repeated_and_lapsed(desk)
    await desk.reconcile("compensated", **UNDOING)


async def repeated_and_succeeded_and_undone(desk: Desk) -> None:
    await repeated_and_succeeded(desk)
    await desk.reconcile("compensated", **UNDOING)


async def retried_and_undone(desk: Desk) -> None:
    await retried_and_lapsed(desk)
    await desk.reconcile("compensated", **UNDOING)


async def repeated_and_refused_and_undone(desk: Desk) -> None:
    await repeated_and_refused(desk)
    await desk.reconcile("compensated", **UNDOING)


async def undone_with_a_deadline(desk: Desk) -> None:
    await succeeded_with_a_deadline(desk)
    await desk.reconcile("compensated", **UNDOING)


# disputed


async def disputed_by_receipt(desk: Desk, **terms: Any) -> None:
    """Failed, and then a receipt of the attempt that failed."""
    await refused(desk, **terms)
    await desk.receipt()


async def disputed_by_a_person(desk: Desk, **terms: Any) -> None:
    await succeeded(desk, **terms)
    await desk.reconcile("not_performed", caller=PERSON)


async def disputed_by_a_person_long_ago(desk: Desk) -> None:
    await disputed_by_a_person(desk)
    desk.clock.advance(AN_HOUR)


async def disputed_the_one_call(desk: Desk) -> None:
    await refused_the_one_call(desk)
    await desk.receipt()


async def disputed_by_effects(desk: Desk, **terms: Any) -> None:
    await succeeded(desk, **terms)
    await desk.receipt(external_id="m-2")


async def disputed_by_effects_long_ago(desk: Desk) -> None:
    await disputed_by_effects(desk)
    desk.clock.advance(AN_HOUR)


async def disputed_by_negative(desk: Desk, **terms: Any) -> None:
    """A receipt against `failed`, and an agent that looked and did not find it."""
    await disputed_by_receipt(desk, **terms)
    await desk.reconcile("not_performed", as_of=desk.clock.text)


async def retried_disputed_by_receipt(desk: Desk, **terms: Any) -> None:
    """Attempt 2 is live, and attempt 1, which was refused, has a receipt."""
    await retried(desk, **terms)
    await desk.receipt(attempt=1)


async def repeated_disputed_by_receipt(desk: Desk) -> None:
    """Attempts 1 and 2 unknown, timed out, and then a receipt of attempt 2."""
    await repeated_and_timed_out(desk)
    await desk.receipt(attempt=2)


async def repeated_and_refused_disputed_by_receipt(desk: Desk) -> None:
    await repeated_and_refused(desk)
    await desk.receipt(attempt=2)


async def timed_out_disputed_by_receipt(desk: Desk) -> None:
    await given_up_waiting(desk)
    await desk.receipt()


async def cancelled_disputed_by_receipt(desk: Desk) -> None:
    await cancelled_plan(desk)
    await desk.receipt()


async def cancelled_failure_disputed_by_receipt(desk: Desk) -> None:
    await failed_and_cancelled(desk)
    await desk.receipt()


async def undone_disputed_by_effects(desk: Desk) -> None:
    await undone(desk)
    await desk.receipt(external_id="m-2")


async def disputed_with_a_deadline(desk: Desk) -> None:
    await refused_with_a_deadline(desk)
    await desk.receipt()


# undone by another operation, which was granted while this one was succeeded


async def _with_its_undoing_begun(desk: Desk, **terms: Any) -> None:
    answer = await desk.begin(**terms)
    await desk.receipt()
    await desk.at("undo").begin(compensates=answer["operation"], lease_seconds=AN_HOUR)


async def succeeded_undoing_begun(desk: Desk) -> None:
    await _with_its_undoing_begun(desk)


async def failed_undoing_begun(desk: Desk) -> None:
    await _with_its_undoing_begun(desk)
    desk.clock.advance(300)
    await desk.reconcile("not_performed", caller=PERSON)
    await desk.reconcile("not_performed", caller=PERSON)


async def in_progress_undoing_begun(desk: Desk) -> None:
    await failed_undoing_begun(desk)
    await desk.begin()


async def in_doubt_undoing_begun(desk: Desk) -> None:
    await in_progress_undoing_begun(desk)
    desk.clock.advance(300)


async def timed_out_undoing_begun(desk: Desk) -> None:
    await failed_undoing_begun(desk)
    await desk.close("timed_out")


async def cancelled_undoing_begun(desk: Desk) -> None:
    await failed_undoing_begun(desk)
    await desk.close("cancelled")


async def compensated_undoing_begun(desk: Desk) -> None:
    await _with_its_undoing_begun(desk)
    await desk.reconcile("compensated", **UNDOING)


async def disputed_undoing_begun(desk: Desk) -> None:
    await _with_its_undoing_begun(desk)
    await desk.reconcile("not_performed", caller=PERSON)


async def disputed_by_effects_undoing_begun(desk: Desk) -> None:
    await _with_its_undoing_begun(desk)
    await desk.receipt(external_id="m-2")


# what is told and asked

MESSAGE: dict[str, Any] = {"kind": "message", "system": "smtp", "external_id": "m-1"}


async def looked(desk: Desk, finding: str, **fields: Any) -> dict[str, Any]:
    """Ask, look, and reconcile with the `as_of` of the answer that sent the caller to look."""
    as_of = (await desk.check())["as_of"]
    return await desk.reconcile(finding, as_of=as_of, **fields)


async def looked_before_attempt_2(desk: Desk, finding: str) -> dict[str, Any]:
    """Reconcile with a time between the grants of attempts 1 and 2."""
    attempts = (await desk.check())["attempts"]
    assert len(attempts) == 2
    text = attempts[1]["granted_at"]
    as_of = rfc3339(parse_rfc3339(text, field="granted_at") - 5_000_000)
    return await desk.reconcile(finding, as_of=as_of)


async def found_as_foreign(desk: Desk) -> dict[str, Any]:
    return await looked(desk, "performed", **MESSAGE, performed_at=A_DAY_OLD)


async def found_undone_as_foreign(desk: Desk) -> dict[str, Any]:
    return await looked(desk, "compensated", **UNDOING, performed_at=A_DAY_OLD)
