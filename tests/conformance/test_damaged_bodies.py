"""A body that is not what was recorded any more is named as damaged; nothing is sent or judged by it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.sqlite_journals import damage
from counterfoil.store.domain.commands import Lookup
from counterfoil.store.errors import BodyDamaged, JournalUnavailable
from journals import ANOTHER, folder_in_memory, open_desk, plain_sql

pytestmark = pytest.mark.anyio

KEYED = {"repeat": "keyed", "key_ttl_seconds": 86_400.0}

CHANGES = {
    "another text": """'"another body"'""",
    "no JSON": """'"a body'""",
    "no UTF-8": "CAST(x'22ff22' AS TEXT)",
}


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.mark.parametrize("text", CHANGES.values(), ids=CHANGES.keys())
async def test_a_repeat_is_not_permitted_with_a_payload_that_is_another_by_now(
    folder: Path, text: str
) -> None:
    async with open_desk(folder) as desk:
        await desk.begin(payload="a body", **KEYED)
    damage(folder, f"UPDATE bodies SET body = {text}")
    async with open_desk(folder) as desk:
        desk.clock.advance(301)
        with pytest.raises(JournalUnavailable) as fault:
            await desk.begin(caller=ANOTHER, payload="a body", **KEYED)
        assert fault.value.recorded is False
        checked = await desk.check()
        assert (checked["state"], checked["attempt"]) == ("in_doubt", 1)
        assert (await desk.receipt(attempt=1))["state"] == "succeeded"


@pytest.mark.parametrize("text", [CHANGES["another text"], CHANGES["no JSON"]])
async def test_what_only_shows_a_damaged_body_names_it_and_serves_the_rest(folder: Path, text: str) -> None:
    async with open_desk(folder) as desk:
        begun = await desk.begin(payload="a body", lookup=Lookup(tool="mail_search", args={"to": "alice"}))
        await desk.progress(attempt=1, checkpoint={"page": 7})
    plain_sql(folder / "journal.db", f"UPDATE bodies SET body = {text}")
    async with open_desk(folder) as desk:
        desk.clock.advance(301)
        (step,) = (await desk.plan())["steps"]
        assert (step["next"], step["reason"]) == ("reconcile", "in_doubt")
        assert step["lookup"]["tool"] == "mail_search"
        assert step["lookup"]["args"]["damaged"] is True
        again = await desk.begin(caller=ANOTHER)
        assert (again["operation"], again["next"]) == (begun["operation"], "reconcile")
        assert again["recorded"]["payload"]["damaged"] is True
        assert again["checkpoint"]["damaged"] is True
        shown = await desk.check(detail="payload")
        assert (shown["recorded"], shown["damaged"]) == (False, True)
        assert "counterfoil verify" in shown["note"]


async def test_a_damaged_context_is_a_fault_and_not_taken_for_an_unknown_one(folder: Path) -> None:
    async with open_desk(folder) as desk:
        await desk.begin(context={"model": "m-1"})
    damage(folder, "UPDATE contexts SET body = '{}'")
    async with open_desk(folder) as desk:
        with pytest.raises(BodyDamaged, match="a context on record is not what was recorded"):
            await desk.at("key-2").begin(context={"model": "m-2"})
