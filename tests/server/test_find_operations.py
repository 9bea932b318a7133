"""find_operations on a real journal: what fits, in which order, page by page, with nothing skipped."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import BeginRun, FindOperations
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.limits import Limits
from counterfoil.tools.arguments import take_arguments
from counterfoil.tools.find_operations import FIND_OPERATIONS
from counterfoil.tools.text import LONGEST_ANSWER, length
from journals import AGENT, ANOTHER, Desk, as_caller, open_desk

pytestmark = pytest.mark.anyio

LIMITS = Limits()


async def find(desk: Desk, **fields: Any) -> dict[str, Any]:
    """Search as another session."""
    return await desk.journal.find_operations(FindOperations(**fields), ANOTHER)


def keys(answer: Mapping[str, Any]) -> list[str]:
    """Give the keys of what was found, in order."""
    return [entry["key"] for entry in answer["operations"]]


async def three_runs(desk: Desk) -> None:
    """Two runs of a workflow and one of none, an operation a minute."""
    for run, key, action in (
        ("weekly/1", "alice", "email.send"),
        ("weekly/1", "bob", "email.send"),
        ("weekly/2", "push", "git.push"),
        ("other", "carol", "email.send"),
    ):
        workflow = {"workflow": "weekly"} if run.startswith("weekly") else {}
        await desk.at(key, run=run).begin(action=action, **workflow)
        desk.clock.advance(60)
    await desk.at("push", run="weekly/2").receipt(kind="commit", system="git", external_id="abc123")
    await desk.at("alice", run="weekly/1").receipt(external_id="m-17")


async def test_the_most_recently_changed_come_first(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await three_runs(desk)
        desk.clock.advance(1)
        await desk.at("bob", run="weekly/1").failure("unknown")
        found = await find(desk)
        assert keys(found)[0] == "bob"
        assert sorted(keys(found)[1:3]) == ["alice", "push"]
        assert keys(found)[3] == "carol"
        assert (found["next"], found["reason"], found["cut"]) == ("continue", "listed", False)
        assert "next_cursor" not in found


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"text": "ALICE"}, ["alice"]),
        ({"text": "weekly/"}, ["alice", "bob", "push"]),
        ({"text": "git.p"}, ["push"]),
        ({"text": "Carol@Example"}, ["carol"]),
        ({"text": "%"}, []),
        ({"run": " weekly/1 "}, ["alice", "bob"]),
        ({"workflow": "weekly"}, ["alice", "bob", "push"]),
        ({"action": "git.push"}, ["push"]),
        ({"system": "git"}, ["push"]),
        ({"external_id": "m-17"}, ["alice"]),
        ({"external_id": "m-17", "system": "git"}, []),
        ({"state": "succeeded"}, ["alice", "push"]),
        ({"state": "in_progress"}, ["carol"]),
        ({"state": "in_doubt"}, ["bob"]),
        ({"action": "email.send", "state": "succeeded", "workflow": "weekly"}, ["alice"]),
        ({"since": "2026-11-29T12:04:00Z"}, ["alice", "push"]),
        ({"until": "2026-11-29T14:03:00+02:00"}, ["bob"]),
        ({"since": "2026-11-29T12:03:00Z", "until": "2026-11-29T12:04:00Z"}, ["carol"]),
    ],
    ids=str,
)
async def test_everything_that_is_given_has_to_fit(
    tmp_path: Path, wanted: dict[str, Any], expected: list[str]
) -> None:
    async with open_desk(tmp_path) as desk:
        await three_runs(desk)
        desk.clock.advance(150)
        assert sorted(keys(await find(desk, **wanted))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alice", ["invoice", "letter"]),
        ("alice invoice", ["invoice"]),
        ("invoice  ALICE", ["invoice"]),
        ("letter alice email weekly send", ["letter"]),
        ("letter alice email send weekly daily", []),
        ("letter alice example email send weekly", ["letter"]),
        ("Zürich weekly", ["invoice"]),
        ("weekly bob", []),
    ],
)
async def test_every_word_has_to_fit_wherever_it_stands(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    async with open_desk(tmp_path) as desk:
        weekly = desk.at("letter", run="weekly")
        await weekly.begin(action="email.send", target="alice@example.org")
        await weekly.at("invoice").begin(action="print.invoice", target="alice, ZÜRICH")
        await desk.at("letter", run="monthly").begin(target="bob@example.org")
        assert sorted(keys(await find(desk, text=text))) == expected


@pytest.mark.parametrize("text", ["50%", "a_b", "wow!", "%", "_", "!"])
async def test_what_a_pattern_would_take_for_a_sign_is_found_as_it_stands(tmp_path: Path, text: str) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("plain").begin()
        await desk.at(f"in the key {text}").begin(target="one")
        await desk.at("in-the-target").begin(target=f"TO {text}".upper())
        found = await find(desk, text=text)
        assert sorted(keys(found)) == [f"in the key {text}", "in-the-target"]


async def test_pages_of_what_ended_before_a_moment_hold_nothing_later(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await three_runs(desk)
        moment = desk.clock.text
        before = [entry["key"] for entry in (await find(desk))["operations"]]
        await desk.at("at-the-moment").begin()
        page = await find(desk, until=moment, limit=1)
        found = keys(page)
        while page["cut"]:
            page = await find(desk, until=moment, limit=1, cursor=page["next_cursor"])
            found += keys(page)
        changed_at_it = {"push", "alice"}
        assert found == [key for key in before if key not in changed_at_it]


async def test_states_are_those_of_now_and_not_those_on_record(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("lapses").begin(lease_seconds=60)
        await desk.at("expires").begin(deadline_seconds=90, lease_seconds=60)
        assert sorted(keys(await find(desk, state="in_progress"))) == ["expires", "lapses"]
        desk.clock.advance(60)
        found = await find(desk, state="in_doubt")
        assert sorted(keys(found)) == ["expires", "lapses"]
        assert {entry["next"] for entry in found["operations"]} == {"reconcile"}
        desk.clock.advance(30)
        assert keys(await find(desk, state="in_doubt")) == ["lapses"]
        [expired] = (await find(desk, state="timed_out"))["operations"]
        assert (expired["state"], expired["next"], expired["reason"]) == ("timed_out", "skip", "timed_out")
        assert (await find(desk, state="in_progress"))["operations"] == []


async def test_each_entry_says_what_may_be_done_as_a_check_does(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("first").begin()
        await desk.at("second").begin(depends_on=("first",))
        await desk.at("third").begin(depends_on=("second",))
        for entry in (await find(desk))["operations"]:
            check = await desk.at(entry["key"]).check(caller=ANOTHER)
            assert (entry["next"], entry["reason"], entry["state"]) == (
                check["next"],
                check["reason"],
                check["state"],
            )


async def test_pages_hold_every_operation_once_also_of_the_same_moment(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for number in range(30):
            await desk.at(f"step-{number}").begin()
            if number % 10 == 9:
                desk.clock.advance(1)
        found: list[str] = []
        cursor = None
        while True:
            page = await find(desk, action="email.send", limit=7, cursor=cursor)
            assert len(page["operations"]) <= 7
            found += keys(page)
            if not page["cut"]:
                break
            cursor = page["next_cursor"]
        assert len(found) == 30
        assert set(found) == {f"step-{number}" for number in range(30)}
        assert "changed_meanwhile" not in page


async def test_what_changes_between_the_pages_is_told_and_skips_nothing_else(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for number in range(10):
            await desk.at(f"step-{number}").begin(lease_seconds=3_000)
            desk.clock.advance(1)
        first = await find(desk, limit=5)
        await desk.at("step-2").receipt()
        await desk.at("new").begin()
        rest = await find(desk, limit=5, cursor=first["next_cursor"])
        assert keys(first) == [f"step-{number}" for number in (9, 8, 7, 6, 5)]
        assert keys(rest) == [f"step-{number}" for number in (4, 3, 1, 0)]
        assert rest["changed_meanwhile"] is True


async def test_a_state_that_time_brought_between_the_pages_is_told(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for number in range(6):
            await desk.at(f"old-{number}").begin(lease_seconds=10)
        desk.clock.advance(20)
        await desk.at("young").begin(lease_seconds=10)
        first = await find(desk, state="in_doubt", limit=3)
        desk.clock.advance(20)
        rest = await find(desk, state="in_doubt", limit=3, cursor=first["next_cursor"])
        assert not {"young"} & {*keys(first), *keys(rest)}
        assert rest["changed_meanwhile"] is True
        assert "young" in keys(await find(desk, state="in_doubt"))


async def test_a_cursor_of_another_search_is_refused(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for number in range(3):
            await desk.at(f"step-{number}").begin()
        cursor = (await find(desk, limit=1))["next_cursor"]
        for fields in ({"cursor": "nonsense"}, {"cursor": cursor, "state": "planned"}):
            with pytest.raises(InvalidArgument, match="cursor"):
                await find(desk, **fields)


@pytest.mark.parametrize(
    "fields", [{"state": "lost"}, {"since": "yesterday"}, {"until": "2026-11-29"}, {"limit": 0}], ids=str
)
async def test_what_is_no_state_time_or_limit_is_refused_by_name(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(InvalidArgument, match=next(iter(fields))):
            await find(desk, **fields)


async def test_having_found_nothing_proves_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        found = await find(desk, text="alice")
        assert (found["reason"], found["operations"]) == ("no_history", [])
        assert "proves nothing" in found["guidance"]


async def test_nothing_crosses_namespaces(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk, open_desk(tmp_path, namespace="tenant") as other:
        await desk.begin()
        assert (await find(other))["operations"] == []
        assert await other.journal.suggest("run", "") == ([], False)
        assert await other.journal.suggest("operation", "op_") == ([], False)


async def test_stored_text_comes_back_escaped_and_bounded(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(target="x\u202e\x1b[31m" + "y" * 3_000)
        [entry] = (await find(desk))["operations"]
        assert entry["target"].startswith("x\\u202e\\u001b[31m")
        assert len(entry["target"]) <= 300


async def test_a_page_that_is_too_long_is_made_shorter_and_its_cursor_stays_true(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for number in range(40):
            await desk.at(f"step-{number}").begin(action='"' * 300, target='"' * 250 + str(number))
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            taken = take_arguments(FIND_OPERATIONS.input_model, {"limit": 50, **cursor}, limits=LIMITS)
            page = await FIND_OPERATIONS.run(desk.journal, taken, AGENT)
            assert length(page) <= LONGEST_ANSWER
            found += keys(page)
            if not page["cut"]:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert sorted(found) == sorted(f"step-{number}" for number in range(40))


async def test_names_are_suggested_by_their_beginning_most_recent_first(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for number in range(120):
            await desk.journal.begin_run(BeginRun(run=f"night%/{number:03}"), as_caller(AGENT))
            desk.clock.advance(1)
        await desk.begin()
        names, has_more = await desk.journal.suggest("run", "night%/")
        assert (len(names), names[0], has_more) == (100, "night%/119", True)
        assert await desk.journal.suggest("run", "Night") == ([], False)
        [operation], _ = await desk.journal.suggest("operation", "op_")
        assert operation == (await desk.check())["operation"]


async def test_people_find_a_state_however_many_others_changed_since(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("old").begin(lease_seconds=1)
        for number in range(40):
            desk.clock.advance(1)
            await desk.at(f"step-{number}").begin(lease_seconds=3_000)
        found = await desk.journal.reader.find(state="in_doubt", limit=2)
        assert [(entry["key"], entry["state"], entry["next"]) for entry in found] == [
            ("old", "in_doubt", "reconcile")
        ]
