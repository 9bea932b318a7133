"""A grant, request or token whose row cannot be read permits nothing; it hides and hinders no other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.sqlite_journals import damage_loosely
from counterfoil.store.domain.commands import GrantAuthority, IssueToken, RequestAuthority, RevokeGrant
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import RowDamaged
from journals import AGENT, PERSON, Desk, as_caller, folder_in_memory, open_desk

pytestmark = pytest.mark.anyio

POLICY = Policy(authority=(("pay.*", "*"),))


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory: waiting for a disk shows nothing here."""
    with folder_in_memory() as folder:
        yield folder


async def ask(desk: Desk, key: str) -> str:
    """Begin what needs a grant, ask for one, and give the request's id."""
    await desk.at(key).begin(action="pay.card", target=key)
    asked = await desk.journal.request_authority(RequestAuthority(ref=desk.at(key).ref), as_caller(AGENT))
    return str(asked["request"])


async def give(desk: Desk, request: str) -> Any:
    return await desk.journal.grant(GrantAuthority(request=request), as_caller(PERSON))


async def issue(desk: Desk, name: str, digest: str) -> dict[str, Any]:
    command = IssueToken(name=name, sha256=digest * 64, scopes=("counterfoil:read",))
    return await desk.journal.issue_token(command, as_caller(PERSON))


@pytest.mark.parametrize("change", ["asked_at = 'garbage'", "state = 'perhaps'", "action = x'ff'"])
async def test_a_request_that_cannot_be_read_is_named_beside_the_others(tmp_path: Path, change: str) -> None:
    async with open_desk(tmp_path, policy=POLICY) as desk:
        bad, good = await ask(desk, "bad"), await ask(desk, "good")
    damage_loosely(
        tmp_path, "authority_requests", f"UPDATE authority_requests SET {change} WHERE id = '{bad}'"
    )
    async with open_desk(tmp_path, policy=POLICY) as desk:
        for state in ("waiting", None):
            listed = {one["request"]: one for one in await desk.journal.list_requests(state=state)}
            assert listed.keys() == {bad, good}
            assert listed[bad] == {"request": bad, "damaged": True}
            assert listed[good]["request_state"] == "waiting"
        with pytest.raises(RowDamaged, match=bad):
            await give(desk, bad)
        assert (await give(desk, good))["reason"] == "recorded"
        assert (await desk.at("good").begin(action="pay.card", target="good"))["next"] == "perform"
        assert (await desk.at("bad").begin(action="pay.card", target="bad"))["reason"] == "authority_required"
        assert await ask(desk, "another") != bad


@pytest.mark.parametrize("change", ["source = 'nobody'", "constraints = '{broken'", "granted_at = NULL"])
async def test_a_grant_that_cannot_be_read_is_named_beside_the_others(tmp_path: Path, change: str) -> None:
    async with open_desk(tmp_path, policy=POLICY) as desk:
        bad, good = [(await give(desk, await ask(desk, key)))["grant"]["grant"] for key in ("bad", "good")]
    damage_loosely(tmp_path, "grants", f"UPDATE grants SET {change} WHERE id = '{bad}'")
    async with open_desk(tmp_path, policy=POLICY) as desk:
        listed = {one["grant"]: one for one in await desk.journal.list_grants()}
        assert listed.keys() == {bad, good}
        assert listed[bad] == {"grant": bad, "damaged": True, "holds": "no: its row cannot be read"}
        assert listed[good]["holds"] == "yes"
        with pytest.raises(RowDamaged, match=bad):
            await desk.journal.revoke(RevokeGrant(grant=bad), as_caller(PERSON))
        revoked = await desk.journal.revoke(RevokeGrant(grant=good), as_caller(PERSON))
        assert revoked["reason"] == "recorded"


@pytest.mark.parametrize("change", ["scopes = '{broken'", "created_at = 'garbage'"])
async def test_a_token_that_cannot_be_read_keeps_no_other_from_being_taken_back(
    tmp_path: Path, change: str
) -> None:
    async with open_desk(tmp_path) as desk:
        bad, good = (await issue(desk, "bad", "a"))["token"], (await issue(desk, "good", "b"))["token"]
    damage_loosely(tmp_path, "tokens", f"UPDATE tokens SET {change} WHERE id = '{bad}'")
    async with open_desk(tmp_path) as desk:
        listed = {one["token"]: one for one in await desk.journal.list_tokens()}
        assert listed.keys() == {bad, good}
        assert listed[bad] == {
            "token": bad,
            "namespace": "default",
            "damaged": True,
            "holds": "no: its row cannot be read",
        }
        assert (await desk.journal.revoke_token("good", as_caller(PERSON)))["revoked"] == 1
        assert await desk.journal.bearer("b" * 64) is None
        await issue(desk, "third", "c")
        for named in ("bad", bad):
            with pytest.raises(RowDamaged, match=bad):
                await desk.journal.revoke_token(named, as_caller(PERSON))
        with pytest.raises(RowDamaged, match=bad):
            await issue(desk, "bad", "d")


async def test_verification_names_each_row_that_cannot_be_read(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=POLICY) as desk:
        asked = [await ask(desk, key) for key in ("one", "two", "three")]
        given = (await give(desk, asked[0]))["grant"]["grant"]
        token = (await issue(desk, "ci", "a"))["token"]
    for table, change, name in (
        ("authority_requests", "asked_at = 'garbage'", asked[1]),
        ("authority_requests", "asked_at = 'garbage'", asked[2]),
        ("grants", "source = 'nobody'", given),
        ("tokens", "scopes = '{broken'", token),
    ):
        damage_loosely(tmp_path, table, f"UPDATE {table} SET {change} WHERE id = '{name}'")
    async with open_desk(tmp_path, policy=POLICY) as desk:
        faults = " ".join((await desk.journal.reader.verify()).faults)
        assert [name for name in (*asked[1:], given, token) if f"{name} cannot be read" not in faults] == []
        assert asked[0] not in faults
