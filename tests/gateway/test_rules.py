"""What an operator's rule makes of a call: identity, payload, keys, references, and looking things up."""

from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.configuration import SettingsError
from counterfoil.server.configuration_file import read_configuration
from counterfoil.store.domain.commands import OperationRef
from gateway.standing import Mail, said, standing, told

pytestmark = pytest.mark.anyio

LOOKUP = {
    "tool": "find_mail",
    "args": {"to": "{args.to}"},
    "found": "$.count",
    "external_id": "$.items[0].id",
}


def failing(mail: Mail, *, after_effect: bool) -> None:
    """Let the next call fail, after it did its work or before."""

    async def fail(arguments: dict[str, Any]) -> Any:
        if after_effect:
            mail.sent.append({**arguments, "id": f"m-{len(mail.sent) + 1}"})
        del mail.handlers["send_mail"]
        return said("lost the connection", is_error=True)

    mail.handlers["send_mail"] = fail


async def test_payload_worded_anew_is_the_same_call(tmp_path: Path) -> None:
    rules = [{"tool": "send_mail", "payload": ["body"]}]
    async with standing(tmp_path, rules=rules) as stand, stand.client() as client:
        await client.call_tool("send_mail", {"to": "alice", "body": "hello"})
        again = await client.call_tool("send_mail", {"to": "alice", "body": "dear Alice"})
        other = await client.call_tool("send_mail", {"to": "bob", "body": "hello"})

        assert (told(again)["replayed"], told(other)["replayed"]) == (True, False)
        assert len(stand.mail.sent) == 2


async def test_only_identity_arguments_say_what_an_effect_is(tmp_path: Path) -> None:
    rules = [{"tool": "send_mail", "identity": ["to"], "key": "mail:{to}"}]
    async with standing(tmp_path, rules=rules) as stand, stand.client() as client:
        first = await client.call_tool("send_mail", {"to": "alice", "body": "hello", "retry": 1})
        again = await client.call_tool("send_mail", {"to": "alice", "body": "hi", "retry": 2})

        assert (told(first)["key"], told(again)["replayed"]) == ("mail:alice", True)


@pytest.mark.parametrize(("rules", "sent"), [([], 2), ([{"tool": "send_mail", "payload": ["api_key"]}], 1)])
async def test_another_secret_is_another_effect_unless_a_rule_says_that_it_is_payload(
    tmp_path: Path, rules: list[dict[str, Any]], sent: int
) -> None:
    keys = ("sk-live-4f9a8b7c6d5e4f3a2b1c", "sk-live-0a1b2c3d4e5f6a7b8c9d")
    async with standing(tmp_path, rules=rules) as stand, stand.client() as client:
        for key in (keys[0], keys[0], keys[1]):
            await client.call_tool("send_mail", {"to": "alice", "api_key": key})
        (found, *_) = await stand.journal.reader.find()
        recorded = await stand.journal.recorded(OperationRef(operation=found["operation"]))

        assert len(stand.mail.sent) == sent
        assert "sk-live" not in f"{recorded.args}{recorded.payload}"


async def test_the_reference_in_a_result_is_the_receipt(tmp_path: Path) -> None:
    receipt = {"external_id": "$.id", "kind": "message", "system": "smtp"}
    rules = [{"tool": "send_mail", "receipt": receipt}]
    async with standing(tmp_path, rules=rules) as stand, stand.client() as client:
        result = told(await client.call_tool("send_mail", {"to": "alice"}))

        (kept,) = (await stand.checked(result["operation"]))["receipts"]
        assert (kept["external_id"], kept["kind"], kept["system"]) == ("m-1", "message", "smtp")
        assert (kept["assurance"], kept["source"]) == ("captured", "response")


async def test_a_result_without_a_reference_is_known_by_its_digest(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        result = told(await client.call_tool("send_mail", {"to": "alice"}))

        (kept,) = (await stand.checked(result["operation"]))["receipts"]
        assert kept["external_id"].startswith("sha256:")
        assert (kept["system"], kept["assurance"]) == ("mcp:mail", "captured")


async def test_what_is_in_doubt_is_looked_up_and_found(tmp_path: Path) -> None:
    mail = Mail()
    failing(mail, after_effect=True)
    rules = [{"tool": "send_mail", "lookup": LOOKUP}]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        first = await client.call_tool("send_mail", {"to": "alice"})
        again = await client.call_tool("send_mail", {"to": "alice"})

        assert (first.is_error, again.is_error) == (True, False)
        assert (told(again)["state"], told(again)["replayed"]) == ("succeeded", True)
        assert '"external_id":"m-1"' in again.content[0].text
        assert len(mail.sent) == 1


async def test_what_was_not_found_is_done_once_the_settle_time_is_over(tmp_path: Path) -> None:
    mail = Mail()
    failing(mail, after_effect=False)
    rules = [{"tool": "send_mail", "lookup": LOOKUP}]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        await client.call_tool("send_mail", {"to": "alice"})
        early = await client.call_tool("send_mail", {"to": "alice"})
        checked = await stand.checked(told(early)["operation"])
        stand.clock.advance(301)
        late = await client.call_tool("send_mail", {"to": "alice"})

        assert early.is_error
        assert "findings" not in checked
        assert '"reason":"settling"' in early.content[0].text
        assert '"retry_at":"2026-11-29T12:05:00' in early.content[0].text
        assert (late.is_error, told(late)["attempt"], len(mail.sent)) == (False, 2, 1)


async def test_a_look_that_fails_settles_nothing(tmp_path: Path) -> None:
    mail = Mail()
    failing(mail, after_effect=False)

    async def find(arguments: dict[str, Any]) -> Any:
        return said("no connection", is_error=True)

    mail.handlers["find_mail"] = find
    rules = [{"tool": "send_mail", "lookup": LOOKUP}]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        await client.call_tool("send_mail", {"to": "alice"})
        stand.clock.advance(301)
        again = await client.call_tool("send_mail", {"to": "alice"})

        assert again.is_error
        assert "the lookup answered with an error" in again.content[0].text
        assert mail.sent == []


@pytest.mark.parametrize("mark", [{"error": "the index is down"}, {"errors": ["x"]}, {"ok": False}])
async def test_an_empty_look_that_tells_of_a_failure_settles_nothing(
    tmp_path: Path, mark: dict[str, Any]
) -> None:
    mail = Mail()
    failing(mail, after_effect=True)

    async def find(arguments: dict[str, Any]) -> Any:
        return said("nothing", structured_content={"items": [], "count": 0, **mark})

    mail.handlers["find_mail"] = find
    rules = [{"tool": "send_mail", "lookup": LOOKUP}]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        await client.call_tool("send_mail", {"to": "alice"})
        stand.clock.advance(301)
        again = await client.call_tool("send_mail", {"to": "alice"})

        assert "tells of a failure" in again.content[0].text
        assert (told(again)["state"], len(mail.sent)) == ("in_doubt", 1)


async def test_a_lookup_that_acts_is_never_called(tmp_path: Path) -> None:
    mail = Mail()
    failing(mail, after_effect=False)
    rules = [{"tool": "send_mail", "lookup": {**LOOKUP, "tool": "send_mail"}}]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        await client.call_tool("send_mail", {"to": "alice"})
        again = await client.call_tool("send_mail", {"to": "alice"})

        assert '"reason":"in_doubt"' in again.content[0].text
        assert mail.sent == []


async def test_a_keyed_tool_is_sent_the_same_key_and_payload_again(tmp_path: Path) -> None:
    mail = Mail()
    failing(mail, after_effect=True)
    rules = [
        {
            "tool": "send_mail",
            "payload": ["body"],
            "repeat": "keyed",
            "key_ttl_seconds": 86_400,
            "idempotency_argument": "idem",
        }
    ]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        await client.call_tool("send_mail", {"to": "alice", "body": "hello"})
        again = await client.call_tool("send_mail", {"to": "alice", "body": "worded anew"})

        assert (again.is_error, told(again)["attempt"]) == (False, 2)
        assert [mail["body"] for mail in stand.mail.sent] == ["hello", "hello"]
        keys = {mail["idem"] for mail in stand.mail.sent}
        assert len(keys) == 1
        assert len(keys.pop()) == 36


async def test_after_its_key_is_over_a_keyed_call_is_in_doubt(tmp_path: Path) -> None:
    mail = Mail()
    failing(mail, after_effect=True)
    keyed = {"repeat": "keyed", "key_ttl_seconds": 600, "idempotency_argument": "idem"}
    rules = [{"tool": "send_mail", **keyed}]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        await client.call_tool("send_mail", {"to": "alice"})
        stand.clock.advance(601)
        again = await client.call_tool("send_mail", {"to": "alice"})

    assert '"reason":"in_doubt"' in again.content[0].text
    assert len(mail.sent) == 1


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_an_idempotent_hint_counts_only_where_a_rule_trusts_it(
    tmp_path: Path, is_trusted: bool
) -> None:
    mail = Mail()
    mail.tools[0].annotations.idempotent_hint = True
    failing(mail, after_effect=True)
    rules = [{"tool": "send_mail", "trust_idempotent_hint": is_trusted}]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        await client.call_tool("send_mail", {"to": "alice"})
        again = await client.call_tool("send_mail", {"to": "alice"})

        assert again.is_error is not is_trusted
        assert len(mail.sent) == (2 if is_trusted else 1)


async def test_a_rule_goes_before_what_a_server_says_of_its_tools(tmp_path: Path) -> None:
    rules = [{"tool": "send_mail", "effect": False}, {"tool": "find_mail", "effect": True}]
    async with standing(tmp_path, rules=rules) as stand, stand.client() as client:
        for _ in range(2):
            await client.call_tool("send_mail", {"to": "alice"})
            await client.call_tool("find_mail", {"to": "alice"})

        assert (len(stand.mail.sent), stand.mail.read) == (2, 1)


async def test_the_run_is_the_one_that_the_operator_names(tmp_path: Path) -> None:
    async with standing(tmp_path, run="report/W48") as stand, stand.client() as client:
        result = told(await client.call_tool("send_mail", {"to": "alice"}))
        named = {"_counterfoil": {"run": "another"}}
        other = told(await client.call_tool("send_mail", {"to": "alice", **named}))

        assert (result["run"], other["run"]) == ("report/W48", "another")
        recorded = await stand.journal.recorded(OperationRef(operation=result["operation"]))
        assert recorded.run == "report/W48"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[[tools]]\ntool = "x"\npayloads = ["a"]', "did you mean payload"),
        ('[[tools]]\nserver = "x"', "tools[0].tool: it is missing"),
        ('[[tools]]\ntool = "x"\nrepeat = "keyed"', "key_ttl_seconds"),
        ('[[tools]]\ntool = "x"\nidentity = ["a"]\npayload = ["a"]', "payload"),
        ('[[tools]]\ntool = "x"\nrefused = ["("]', "no regular expression"),
        ('[[tools]]\ntool = "x"\nkey = "mail:{to"', "tools[0].key"),
        ('[[tools]]\ntool = "x"\nkey = "mail:to}"', "tools[0].key"),
        ('[[tools]]\ntool = "x"\nkey = "mail:{}"', "tools[0].key"),
        (f'[[tools]]\ntool = "x"\nkey = "{201 * "k"}"', "tools[0].key"),
        ('[[tools]]\ntool = "x"\n[tools.lookup]\ntool = "y"\nargs = { q = "{operation}" }', "found"),
        ("[gateway.servers.mail]\n", "command"),
        ('[gateway.servers.mail]\ncommand = ["a"]\nurl = "http://x"', "command"),
        ('[gateway.servers."a b"]\ncommand = ["a"]', "its name"),
        ('[gateway]\nrunn = "x"', "did you mean run"),
    ],
)
def test_a_configuration_that_cannot_be_honoured_is_refused_by_name(
    tmp_path: Path, text: str, named: str
) -> None:
    file = tmp_path / "counterfoil.toml"
    file.write_text(text)

    with pytest.raises(SettingsError, match=named.replace("[", r"\[")):
        read_configuration(file)
