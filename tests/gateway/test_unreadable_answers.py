"""An answer that cannot be read ends its call: in doubt where the tool acts, and the next call works."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.wire import answered_id
from stdio_process import FOLDER, StdioProcess, call

ANSWERS = {
    "a lone surrogate": '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\\ud800"}]}}',
    "a number of 5,000 digits": '{"jsonrpc":"2.0","id":ID,"result":{"a":%s}}' % ("9" * 5_000),
    "5,000 arrays": '{"jsonrpc":"2.0","id":ID,"result":{"a":%s}}' % ("[" * 5_000 + "]" * 5_000),
    "5,000 arrays before the id": '{"result":{"a":%s},"id":ID}' % ("[" * 5_000 + "]" * 5_000),
    "no result": '{"jsonrpc":"2.0","id":ID,"result":null}',
    "no error": '{"jsonrpc":"2.0","id":ID,"error":null}',
    "neither": '{"jsonrpc":"2.0","id":ID}',
    "an error that is a text": '{"jsonrpc":"2.0","id":ID,"error":"x"}',
}

NO_ANSWERS = {
    "a line that breaks off before the id": '{"jsonrpc":"2.0","id":',
    "no object": "[7]",
    "no JSON": "hello",
    "no id": '{"jsonrpc":"2.0","result":null}',
    "a null id": '{"jsonrpc":"2.0","id":null,"result":null}',
    "two ids": '{"jsonrpc":"2.0","id":7,"id":8,"result":null}',
    "a request of its own": '{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"a":"\\ud800"}}',
    "what breaks off before it says what it is": '{"jsonrpc":"2.0","id":7,',
}


class Gateway(StdioProcess):
    """`counterfoil gateway` before a server that answers the first call of a tool as it is told."""

    program = ("-m", "counterfoil.server")

    def __init__(self, folder: Path, answer: str) -> None:
        (folder / "answer").write_text(answer)
        server = (sys.executable, str(FOLDER / "gateway" / "raw_process.py"), str(folder / "answer"))
        settings = {"COUNTERFOIL_JOURNAL": f"sqlite:///{folder}/journal.db", "COUNTERFOIL_RUN": "run-1"}
        super().__init__("gateway", "--", *server, **settings)

    def receive(self) -> dict[str, Any]:
        """Give the next answer; what else is told meanwhile is left out."""
        while "method" in (message := super().receive()):
            pass
        return message


@pytest.mark.parametrize("name", ["a lone surrogate", "5,000 arrays before the id", "no result"])
def test_an_answer_that_cannot_be_read_leaves_its_call_in_doubt(tmp_path: Path, name: str) -> None:
    with Gateway(tmp_path, ANSWERS[name]) as gateway:
        gateway.initialize()
        first = gateway.ask(call(1, "send_mail", to="alice"))
        told = json.loads(first["result"]["content"][0]["text"])
        assert first["result"]["isError"] is True
        assert (told["next"], told["state"]) == ("reconcile", "in_doubt")
        assert "cannot be read" in json.dumps(told) or "does not fit the protocol" in json.dumps(told)
        good = gateway.ask(call(2, "send_mail", to="bob"))
        assert good["result"]["content"][0]["text"] == "sent"


def test_a_reading_tool_whose_answer_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with Gateway(tmp_path, ANSWERS["a lone surrogate"]) as gateway:
        gateway.initialize()
        read = gateway.ask(call(1, "get_mail"))
        assert "cannot be read" in read["error"]["message"]
        assert gateway.ask(call(2, "get_mail"))["result"]["content"][0]["text"] == "sent"


@pytest.mark.parametrize("line", ANSWERS.values(), ids=ANSWERS.keys())
def test_the_call_that_a_line_answers_is_made_out(line: str) -> None:
    assert answered_id(line.replace("ID", "7").encode()) == 7


@pytest.mark.parametrize("line", NO_ANSWERS.values(), ids=NO_ANSWERS.keys())
def test_a_line_that_does_not_say_which_call_it_answers_answers_none(line: str) -> None:
    assert answered_id(line.encode()) is None
