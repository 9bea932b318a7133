"""Files that are copied to another machine: a copy of which nobody knows what became may be made again."""

import pytest

from counterfoil.server.hooks.rules.results import find_reference, is_refusal
from hooks.client import Client, claude_result, client
from hooks.commands import call

__all__ = ["client"]

SEND = "rsync -az dist/ e.org:/www"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (SEND, SEND),
        (f"make && {SEND}", SEND),
        (SEND, f"make && {SEND}"),
        ("rsync -az $SRC e.org:/www", SEND),
        (SEND, "rsync -az $SRC e.org:/www"),
        (SEND, f"{SEND} && npm publish"),
    ],
)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_copy_runs_again_unless_the_very_same_is_done(client: Client, first: str, then: str, is_done: bool):
    call_id = client.new_call()
    assert client.before(first, call=call_id).reason is None
    if is_done:
        client.after(first, {**claude_result(""), "exit_code": 0}, call=call_id)
    else:
        client.failed(first, "Exit code 255\nconnection reset", call=call_id)
    assert (client.before(then).reason is None) == (first != then or not is_done)
    (one, *_) = client.operations()[::-1]
    assert one["action"] == "rsync.send"
    assert one["target"] == "e.org:/www"


def test_what_a_copy_stands_beside_is_held_back_all_the_same(client: Client):
    both = f"{SEND} && npm publish"
    assert client.before(both).reason is None
    assert client.before("npm publish").reason is not None
    assert client.before(both).reason is not None


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("An error occurred (AccessDenied) when calling the Publish operation: no", True),
        ("aws: [ERROR]: An error occurred (ExpiredToken) when calling the Publish operation", True),
        ("Unable to locate credentials. You can configure credentials", True),
        ("Parameter validation failed:\nMissing", True),
        ("An error occurred (Throttling) when calling the Publish operation", False),
        ("An error occurred (InternalFailure) when calling the Publish operation", False),
        ("Read timeout on endpoint URL", False),
    ],
)
def test_aws_refuses_before_any_effect_by_certain_codes(text: str, is_refused: bool):
    rule = call("aws sns publish --topic-arn t --message hi", "/").effects[0].rule
    assert (is_refusal(rule, text, status=254) is not None) == is_refused


def test_what_aws_answers_holds_the_reference():
    rule = call("aws sqs send-message --queue-url q --message-body hi", "/").effects[0].rule
    found = find_reference(rule, text='{\n    "MD5OfMessageBody": "x",\n    "MessageId": "5fea7756-0ea4"\n}')
    assert found is not None
    assert found.external_id == "5fea7756-0ea4"


def test_the_content_of_what_is_copied_is_part_of_what_it_is(tmp_path):
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/index.html").write_text("one")
    (tmp_path / "f.zip").write_text("one")
    commands = [
        "rsync -az dist/ e.org:/www",
        "scp -r dist e.org:/www",
        "aws s3 sync dist s3://b",
        "aws lambda update-function-code --function-name f --zip-file fileb://f.zip",
        "aws lambda update-function-code --function-name f --zip-file=fileb://f.zip",
    ]
    before = [call(command, tmp_path).args for command in commands]
    (tmp_path / "dist/index.html").write_text("two")
    (tmp_path / "f.zip").write_text("two")
    same = [
        command
        for command, args in zip(commands, before, strict=True)
        if call(command, tmp_path).args == args
    ]
    assert same == []
