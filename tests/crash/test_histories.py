"""The checker of histories finds each kind of bad one, and nothing in a good one."""

from typing import Any

from crash.history import Call, faults_in

RUN = {"run": "run-1", "key": "key-1"}
OPERATION = "op-1"


def call(start: int, end: int | None, tool: str, given: dict[str, Any] | None = None, **answer: Any) -> Call:
    """Give a call about the one operation; without an end it was never answered."""
    told = {"as_of": f"2026-11-29T12:00:{start:02}Z", "operation": OPERATION, **answer}
    return Call(
        tool=tool,
        given={"operation": OPERATION, "call_id": f"call {start}", **(given or {})},
        caller="one",
        start=start,
        end=end,
        answer=None if end is None else told,
    )


def begin(
    start: int, end: int | None, *, attempt: int = 1, call_id: str | None = None, **answer: Any
) -> Call:
    """Give a begin that was granted an attempt, with a lease of ten."""
    given = {**RUN, "call_id": call_id or f"call {start}"}
    grant = {
        "next": "perform",
        "state": "in_progress",
        "attempt": attempt,
        "replayed": False,
        "idempotency_key": "key",
        "lease_expires_at": f"2026-11-29T12:00:{start + 10:02}Z",
    }
    return call(start, end, "begin_operation", given, **{**grant, **answer})


def receipt(start: int, end: int, *, attempt: int = 1, reference: str = "m-1", **answer: Any) -> Call:
    """Give a receipt that was taken."""
    return call(
        start,
        end,
        "record_receipt",
        {"attempt": attempt},
        **{
            "next": "continue",
            "state": "succeeded",
            "attempt": attempt,
            "receipt": {"external_id": reference},
            **answer,
        },
    )


def failure(start: int, end: int, *, attempt: int = 1, **answer: Any) -> Call:
    """Give a failure that counted."""
    told = {"next": "continue", "state": "failed", "attempt": attempt, **answer}
    return call(start, end, "record_failure", {"attempt": attempt}, **told)


def check(start: int, end: int, *, state: str = "succeeded", attempt: int = 1, **answer: Any) -> Call:
    """Give a check that shows the one receipt."""
    shown = {"next": "skip", "receipts": [{"external_id": "m-1"}]}
    return call(start, end, "check_operation", state=state, attempt=attempt, **{**shown, **answer})


GOOD = [begin(1, 2), failure(3, 4), begin(5, 6, attempt=2), receipt(7, 8, attempt=2), check(9, 10, attempt=2)]


def test_a_good_history_has_no_fault() -> None:
    assert faults_in(GOOD) == []


def test_an_answer_on_its_way_while_another_came_may_be_the_older_one() -> None:
    slow = check(4, 12, state="in_progress", attempt=1, next="wait", receipts=[])
    assert faults_in([*GOOD, slow]) == []


def test_an_attempt_granted_twice_is_found() -> None:
    twice = begin(5, 7, attempt=2, call_id="another call")
    assert faults_in([*GOOD, twice]) == [
        "attempt 2 of op-1 was granted 2 times",
        "attempt 2 of op-1 was granted to two calls",
    ]


def test_a_grant_given_again_to_its_own_call_is_none_twice() -> None:
    again = begin(6, 7, attempt=2, call_id="call 5", replayed=True)
    assert faults_in([*GOOD, again]) == []
    strange = begin(6, 7, attempt=2, replayed=True)
    assert faults_in([*GOOD, strange]) == ["attempt 2 of op-1 was granted to two calls"]


def test_an_attempt_with_two_keys_is_found() -> None:
    again = begin(6, 7, attempt=2, call_id="call 5", replayed=True, idempotency_key="another")
    assert faults_in([*GOOD, again]) == ["attempt 2 of op-1 has two keys"]


def test_an_attempt_that_nobody_was_granted_is_found() -> None:
    without = [known for known in GOOD if known.start != 5]
    assert faults_in(without) == ["attempts [2] of op-1 were granted to nobody"]
    assert faults_in([*without, begin(4, None)]) == []


def test_an_attempt_granted_beside_a_live_one_is_found() -> None:
    beside = [begin(1, 2), begin(3, 4, attempt=2)]
    assert faults_in(beside) == ["attempt 2 of op-1 was granted while 1 was live"]
    assert faults_in([begin(1, 2), begin(12, 13, attempt=2)]) == []


def test_a_lease_that_was_extended_is_held_to_its_new_end() -> None:
    longer = call(
        3,
        4,
        "record_progress",
        {"attempt": 1},
        next="continue",
        state="in_progress",
        attempt=1,
        lease_expires_at="2026-11-29T12:00:20Z",
    )
    assert faults_in([begin(1, 2), longer, begin(12, 13, attempt=2)]) == [
        "attempt 2 of op-1 was granted while 1 was live"
    ]


def test_an_answer_that_goes_behind_a_complete_one_is_found() -> None:
    """In its attempt, in its state, and in its time."""
    older = check(11, 12, attempt=1)
    assert faults_in([*GOOD, older]) == [
        "check_operation says succeeded, attempt 1 of op-1, after attempt 2 had been told"
    ]
    open_again = check(11, 12, state="in_doubt", attempt=2)
    assert faults_in([*GOOD, open_again]) == [
        "check_operation says in_doubt, attempt 2 of op-1, after (True, 0, 0) had been told"
    ]
    back = [begin(1, 2), failure(3, 4), check(5, 6, state="in_progress", receipts=[])]
    assert faults_in(back) == [
        "check_operation says in_progress, attempt 1 of op-1, after (False, 1, 2) had been told"
    ]
    late = check(11, 12, attempt=2, as_of="2026-11-29T12:00:03Z")
    assert faults_in([*GOOD, late]) == [
        "check_operation was answered as of 2026-11-29T12:00:03Z, after 2026-11-29T12:00:09Z had been told"
    ]


def test_a_plan_that_is_older_than_what_was_told_is_found() -> None:
    steps = [{"operation": OPERATION, "state": "failed", "attempt": 1}]
    plan = Call(
        tool="resume_plan",
        given={},
        caller="one",
        start=11,
        end=12,
        answer={"as_of": "2026-11-29T12:00:11Z", "next": "continue", "steps": steps},
    )
    assert faults_in([*GOOD, plan]) == [
        "resume_plan says failed, attempt 1 of op-1, after attempt 2 had been told"
    ]


def test_a_receipt_acknowledged_and_then_absent_is_found() -> None:
    absent = check(11, 12, attempt=2, receipts=[])
    assert faults_in([*GOOD, absent]) == [
        "check_operation says succeeded, attempt 2 of op-1, without ['m-1'], which had been acknowledged",
        "m-1 of op-1 was acknowledged, and is absent in the end",
    ]


def test_a_word_of_an_attempt_that_is_over_is_found_where_it_counted() -> None:
    over = [begin(1, 2), begin(12, 13, attempt=2), failure(14, 15, attempt=1, state="in_progress")]
    assert faults_in(over)[-1] == "record_failure counted for attempt 1 of op-1, which is over"


def test_a_run_that_was_started_twice_is_found() -> None:
    starts = [
        Call(
            tool="begin_run",
            given={"run": "run-1"},
            caller=name,
            start=1,
            end=2,
            answer={"as_of": "2026-11-29T12:00:01Z", "next": "continue", "reason": "started"},
        )
        for name in ("one", "two")
    ]
    assert faults_in(starts[:1]) == []
    assert faults_in(starts) == ["run-1 was started 2 times"]
