"""What a server asks in the middle of a call reaches the person at the client, in every pair of eras."""

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from counterfoil.store.domain.commands import OperationRef, ReconcileOperation
from gateway.standing import Mail, said, standing, told
from journals import PERSON

pytestmark = pytest.mark.anyio

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
QUESTION = types.ElicitRequest(params=types.ElicitRequestFormParams(message="Sure?", requested_schema=FORM))


class AskingMail(Mail):
    """A server that asks before it sends: inside the call, or by its result, as its era has it."""

    def __init__(self, *, is_older: bool) -> None:
        super().__init__()
        self.is_older = is_older

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        if self.is_older:
            answer = await ctx.session.elicit_form("Sure?", FORM, related_request_id=ctx.request_id)
        elif params.request_state is None:
            return types.InputRequiredResult(input_requests={"q": QUESTION}, request_state="state-1")
        else:
            assert params.request_state == "state-1"
            answer = (params.input_responses or {})["q"]
        if answer.action != "accept" or not (answer.content or {}).get("sure"):
            return said("declined", is_error=True)
        self.sent.append(dict(params.arguments or {}))
        return said("sent")


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("behind", ["any", "older"])
async def test_a_question_in_the_middle_of_an_effect_is_asked_and_the_effect_happens_once(
    tmp_path: Path, era: str, behind: str
) -> None:
    asked: list[str] = []

    async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"sure": True})

    mail = AskingMail(is_older=behind == "older")
    async with (
        standing(tmp_path, mail, upstream_era=behind) as stand,
        stand.client(mode=era, elicitation_callback=elicit) as client,
    ):
        first = await client.call_tool("send_mail", {"to": "alice"})
        again = await client.call_tool("send_mail", {"to": "alice"})
        found = await stand.journal.reader.find()

    assert asked == ["Sure?"]
    assert mail.sent == [{"to": "alice"}]
    assert [part.text for part in first.content] == ["sent"]
    assert (told(first)["attempt"], told(again)["replayed"]) == (1, True)
    assert [one["state"] for one in found] == ["succeeded"]


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("behind", ["any", "older"])
async def test_an_answer_that_comes_after_its_attempt_was_settled_is_not_sent(
    tmp_path: Path, era: str, behind: str
) -> None:
    mail = AskingMail(is_older=behind == "older")
    async with standing(tmp_path, mail, upstream_era=behind) as stand:

        async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            stand.clock.advance(3_600)
            (found,) = await stand.journal.reader.find()
            settled = ReconcileOperation(
                ref=OperationRef(operation=found["operation"]),
                finding="not_performed",
                checked_with="the outbox",
                by="human",
            )
            await stand.journal.reconcile_operation(settled, PERSON)
            return types.ElicitResult(action="accept", content={"sure": True})

        async with stand.client(mode=era, elicitation_callback=elicit) as client:
            late = await client.call_tool("send_mail", {"to": "alice"})
        (found,) = await stand.journal.reader.find()

    assert late.is_error
    assert (told(late)["state"], told(late)["reason"]) == ("failed", "lapsed")
    assert found["state"] == "failed"
    assert mail.sent == []


async def test_a_client_that_takes_no_questions_is_not_asked(tmp_path: Path) -> None:
    mail = AskingMail(is_older=True)
    async with standing(tmp_path, mail, upstream_era="older") as stand, stand.client() as client:
        result = await client.call_tool("send_mail", {"to": "alice"})

    assert result.is_error
    assert mail.sent == []
