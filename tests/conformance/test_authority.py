"""Authority on a real journal: what needs a grant is refused without one, and what a person permits is bounded."""

from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import GrantAuthority, OperationRef, RequestAuthority, RevokeGrant
from counterfoil.store.domain.model import ConfiguredGrant
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Forbidden, InvalidArgument
from journals import AGENT, ANOTHER, PERSON, Desk, FakeClock, open_desk

pytestmark = pytest.mark.anyio

GATED = Policy(authority=(("pay.*", "*"),), drift={"model": "block"})
PAY: dict[str, Any] = {"action": "pay.send", "target": "landlord", "args": {"amount": 90, "currency": "EUR"}}


async def verb(answer: dict[str, Any]) -> str:
    return f"{answer['next']}: {answer['reason']}"


async def pay(desk: Desk, **fields: Any) -> str:
    return await verb(await desk.begin(**{**PAY, **fields}))


async def grant(desk: Desk, *, caller: Any = PERSON, **fields: Any) -> dict[str, Any]:
    """Grant the desk's operation, or what `fields` say."""
    if not {"action", "request"} & set(fields):
        fields["ref"] = desk.ref
    return await desk.journal.grant(GrantAuthority(**fields), caller)


async def verified(desk: Desk) -> None:
    assert (await desk.journal.reader.verify()).faults == ()


async def test_an_action_that_needs_a_grant_is_not_performed_without_one(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        assert await pay(desk) == "ask: authority_required"
        assert await desk.state() == "planned"
        assert await verb(await desk.check()) == "ask: authority_required"
        [step] = (await desk.plan())["steps"]
        assert await verb(step) == "ask: authority_required"
        assert await pay(desk.at("other"), action="chat.post") == "perform: first_attempt"
        assert await pay(desk.at("loud"), action="Pay.Send", target="x") == "ask: authority_required"
        given = await grant(desk)
        assert await verb(given) == "continue: recorded"
        assert await verb(await desk.check()) == "begin: first_attempt"
        [step] = [step for step in (await desk.plan())["steps"] if step["key"] == "key-1"]
        assert await verb(step) == "begin: first_attempt"
        performed = await desk.begin(**PAY)
        assert (performed["next"], performed["grant"]) == ("perform", given["grant"]["grant"])
        [attempt] = (await desk.check())["attempts"]
        assert attempt["grant"] == given["grant"]["grant"]
        assert await pay(desk.at("loud"), action="Pay.Send", target="x") == "ask: authority_required"
        await verified(desk)
