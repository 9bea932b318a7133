"""Bearer tokens in the journal: who may issue one, when one counts, and that the log proves all of it."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from counterfoil.store.domain.commands import IssueToken
from counterfoil.store.errors import Forbidden, InvalidArgument, NotFound
from journals import AGENT, PERSON, START, FakeClock, open_test_journal, plain_sql

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

DIGEST, ANOTHER_DIGEST = "a" * 64, "b" * 64


def token(**other: Any) -> IssueToken:
    """Give a token to be."""
    return replace(IssueToken(name="ci", sha256=DIGEST, scopes=("counterfoil:read",)), **other)


async def test_a_token_is_found_by_its_digest_from_every_namespace(tmp_path: Path) -> None:
    async with open_test_journal(tmp_path, namespace="team") as journal:
        issued = await journal.issue_token(token(), PERSON)
        assert (issued["name"], issued["namespace"], issued["holds"]) == ("ci", "team", "yes")
        bearer = await (await journal.of_namespace("another")).bearer(DIGEST)
        assert bearer is not None
        assert (bearer.namespace, bearer.name, bearer.scopes) == ("team", "ci", ("counterfoil:read",))
        assert await journal.bearer(ANOTHER_DIGEST) is None
        assert await (await journal.of_namespace("another")).list_tokens() == []


async def test_only_a_person_issues_a_token_or_takes_it_back(tmp_path: Path) -> None:
    async with open_test_journal(tmp_path) as journal:
        with pytest.raises(Forbidden):
            await journal.issue_token(token(), AGENT)
        assert await journal.list_tokens() == []
        await journal.issue_token(token(), PERSON)
        with pytest.raises(Forbidden):
            await journal.revoke_token("ci", AGENT)
        assert await journal.bearer(DIGEST) is not None


async def test_a_secret_is_no_name_of_a_token(tmp_path: Path) -> None:
    secret = "ghp_" + "A1b2" * 9
    async with open_test_journal(tmp_path) as journal:
        with pytest.raises(InvalidArgument, match="secret") as refused:
            await journal.issue_token(token(name=secret), PERSON)
        assert secret not in refused.value.message
        assert await journal.list_tokens() == []


async def test_a_token_counts_until_it_is_revoked_or_its_time_is_over(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_test_journal(tmp_path, clock=clock) as journal:
        await journal.issue_token(token(lasts_seconds=60), PERSON)
        await journal.issue_token(token(name="other", sha256=ANOTHER_DIGEST), PERSON)
        clock.at += 59_999_999
        assert await journal.bearer(DIGEST) is not None
        clock.at += 1
        assert await journal.bearer(DIGEST) is None
        assert (await journal.revoke_token("other", PERSON))["revoked"] == 1
        assert await journal.bearer(ANOTHER_DIGEST) is None
        assert (await journal.revoke_token("other", PERSON))["revoked"] == 0
        assert [one["holds"] for one in await journal.list_tokens()] == ["no: expired", "no: revoked"]
        assert (await journal.reader.verify()).faults == ()


async def test_a_name_is_that_of_one_token_that_counts(tmp_path: Path) -> None:
    async with open_test_journal(tmp_path) as journal:
        first = await journal.issue_token(token(), PERSON)
        with pytest.raises(InvalidArgument, match="is that of a token that counts"):
            await journal.issue_token(token(sha256=ANOTHER_DIGEST), PERSON)
        await (await journal.of_namespace("another")).issue_token(token(sha256=ANOTHER_DIGEST), PERSON)
        await journal.revoke_token(first["token"], PERSON)
        await journal.issue_token(token(sha256="c" * 64), PERSON)
        with pytest.raises(NotFound):
            await journal.revoke_token("nobody", PERSON)


@pytest.mark.parametrize("name", ["", " ci", "../ci", "a\nb", "x" * 101, "tökén"])
async def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str) -> None:
    async with open_test_journal(tmp_path) as journal:
        with pytest.raises(InvalidArgument, match="name"):
            await journal.issue_token(token(name=name), PERSON)


async def test_no_token_from_before_a_restore_counts_after_it(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_test_journal(tmp_path, clock=clock) as journal:
        await journal.issue_token(token(), PERSON)
    plain_sql(tmp_path / "journal.db", f"INSERT INTO restores VALUES ({START + 10}, {START + 5})")
    clock.at += 20
    async with open_test_journal(tmp_path, clock=clock) as journal:
        assert await journal.bearer(DIGEST) is None
        assert [one["holds"] for one in await journal.list_tokens()] == ["no: restored"]
        await journal.issue_token(token(sha256=ANOTHER_DIGEST), PERSON)
        assert await journal.bearer(ANOTHER_DIGEST) is not None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tokens SET revoked_at = NULL",
        "UPDATE tokens SET scopes = '[\"counterfoil:approve\"]'",
        f"UPDATE tokens SET sha256 = '{ANOTHER_DIGEST}'",
        "DELETE FROM tokens",
        "UPDATE tokens SET namespace = 'another'",
    ],
)
async def test_a_token_that_was_changed_past_the_log_is_met_by_verification(
    tmp_path: Path, change: str
) -> None:
    async with open_test_journal(tmp_path) as journal:
        await journal.issue_token(token(), PERSON)
        await journal.revoke_token("ci", PERSON)
    plain_sql(tmp_path / "journal.db", change)
    async with open_test_journal(tmp_path) as journal:
        faults = (await journal.reader.verify()).faults
    assert any("there are tokens that its events do not lead to" in fault for fault in faults)
