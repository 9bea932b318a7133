"""A secret in any field of any tool, of any form, is found nowhere afterwards: no file, no log, no answer.

Every field with every form, with the same code:
`COUNTERFOIL_LONG=1 uv run pytest tests/hostile/test_secrets_in_fields.py`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from counterfoil.server.people.cli import run as command_line
from crash.sessions import LONG
from hostile.fields import REFERENCES, TOOLS, Field, choices, fields_of, minimal, placed
from hostile.secrets import (
    FORMS,
    LABELS,
    OPERATORS_NAME,
    OPERATORS_PATTERN,
    PLAIN,
    leaks_in_files,
    leaks_in_text,
    object_with,
)
from scenarios.servers import Server
from stdio_process import call, modern_call

PADS = (0, 45, 95, 140, 190, 290, 390, 990, 1_480, 3_900)
"""How much stands before a secret, so that wherever a text is cut, some secret is cut in the middle."""

NEEDS_NO_OPERATION = frozenset(("begin_operation", "begin_run", "resume_plan", "find_operations"))


class Told:
    """A server under test, and all that it said."""

    def __init__(self, server: Server, folder: Path, *, is_modern: bool) -> None:
        self.server = server
        self.folder = folder
        self._call = modern_call if is_modern else call
        self.leaks: list[str] = []
        self._sent = 0

    def ask(self, message: dict[str, Any], about: str) -> dict[str, Any]:
        """Send a request and keep what leaks in the answer."""
        self._sent += 1
        answer = self.server.ask({**message, "id": self._sent})
        text = json.dumps(answer, ensure_ascii=False)
        assert '\\"internal\\"' not in text, about
        self.leaks += [f"{about}: {found!r}" for found in leaks_in_text(text)]
        return answer

    def call(self, tool: str, about: str, **arguments: Any) -> dict[str, Any] | None:
        """Call a tool; give its answer, None where it was a fault."""
        result = self.ask(self._call(0, tool, **arguments), about).get("result", {})
        return None if result.get("isError", True) else result["structuredContent"]


def hidden_in(field: Field, form: str, pad: int) -> Iterator[Any]:
    """Give values for a field that hold the secret `form`."""
    if field.kind in ("object", "any"):
        yield object_with(form) if pad % 2 else json.dumps(object_with(form))
        if field.kind == "any":
            yield [form, f"{'x' * pad} {form} after", {"token": PLAIN}]
            yield f"{'x' * pad} {form} after"
        return
    is_alone = field.kind != "text" or pad % 2
    yield form if is_alone else f"{'x' * pad} {form} after"


def put(told: Told, field: Field, value: Any, number: int) -> bool:
    """Call the field's tool with `value` there, on an operation of its own; tell whether it was taken."""
    is_taken = False
    for choice in range(choices(field.tool)) if LONG else (number % choices(field.tool),):
        names = {"run": f"run-{number // 20}", "key": f"key-{number}-{choice}"}
        if field.tool not in NEEDS_NO_OPERATION:
            told.call(
                "begin_operation", field.name, **minimal("begin_operation", **names, target=names["key"])
            )
        known = TOOLS[field.tool].input_model.model_fields
        given = minimal(field.tool, choice=choice)
        given |= {name: names[name] for name in REFERENCES if name in known and name not in field.path}
        if field.tool == "check_operation" and field.path[0] in ("external_id", "system"):
            del given["key"]
        answer = told.call(field.tool, field.name, **{**given, **placed(field.tool, field.path, value)})
        is_taken = is_taken or answer is not None
        if field.tool == "begin_operation" and answer is not None and field.path[0] not in REFERENCES:
            # The same names with another effect: what differs is told.
            other = minimal("begin_operation", **names, action="b", target="t", args={"n": 1}, payload=[1])
            told.call("begin_operation", f"a conflict of {field.name}", **other)
    return is_taken


def read_everything(told: Told) -> None:
    """Ask for all that is on record, in every way that a client has."""
    runs = told.call("resume_plan", "runs", limit=50)
    told.call("find_operations", "find", limit=50)
    names, cursor = set[str](), dict[str, Any]()
    while runs is not None:
        names |= {run["run"] for run in runs["runs"]}
        cursor = {"cursor": runs["next_cursor"]} if runs.get("next_cursor") else {}
        runs = told.call("resume_plan", "runs", **cursor) if cursor else None
    assert names
    for run in sorted(names):
        told.ask(request("resources/read", uri=f"counterfoil://runs/{quote(run, safe='')}/plan"), "resource")
        page = told.call("resume_plan", "plan", run=run, include="all")
        while page is not None:
            for step in page["steps"]:
                read_operation(told, step["operation"])
            more = page.get("next_cursor")
            page = told.call("resume_plan", "plan", run=run, include="all", cursor=more) if more else None
    told.ask(request("resources/read", uri="counterfoil://runs"), "resource")


def read_operation(told: Told, operation: str) -> None:
    """Read one operation and all of its bodies."""
    has_payload = False
    for detail in ("full", "args", "payload", "checkpoint", "lookup", "undo", "evidence"):
        offset: int | None = 0
        while offset is not None:
            page = told.call("check_operation", detail, operation=operation, detail=detail, offset=offset)
            offset = None if page is None else page.get("next_offset")
            has_payload |= detail == "payload" and page is not None and page["recorded"]
    told.ask(request("resources/read", uri=f"counterfoil://operations/{operation}"), "resource")
    if has_payload:
        told.ask(request("resources/read", uri=f"counterfoil://operations/{operation}/payload"), "resource")


def request(method: str, **params: Any) -> dict[str, Any]:
    """Give a request, with the envelope that the handshake era ignores."""
    meta = modern_call(0)["params"]["_meta"]
    return {"jsonrpc": "2.0", "id": 0, "method": method, "params": {**params, "_meta": meta}}


@contextmanager
def served(tmp_path: Path, *, is_modern: bool) -> Iterator[Told]:
    """Give a real server with every log line and every span on stderr, and the operator's own rules."""
    rules = f"[redact]\nnames = ['{OPERATORS_NAME}']\npatterns = ['{OPERATORS_PATTERN}']\n"
    config = tmp_path / "config.toml"  # Outside the folder that is searched.
    config.write_text(rules)
    folder = tmp_path / "served"
    folder.mkdir()
    environment = {
        "COUNTERFOIL_LOG": "debug",
        "COUNTERFOIL_CONFIG": str(config),
        "OTEL_TRACES_EXPORTER": "console",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    with Server(folder, **environment) as server:
        if not is_modern:
            server.start()
        yield Told(server, folder, is_modern=is_modern)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    """A server spoken to in the handshake era."""
    with served(tmp_path, is_modern=False) as told:
        yield told


@pytest.fixture
def told_modern(tmp_path: Path) -> Iterator[Told]:
    """A server spoken to as of 2026-07-28, where each call says who its client is."""
    with served(tmp_path, is_modern=True) as told:
        yield told


def end(told: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Search the files of the running server, end it, and search files, logs, spans and what people see."""
    told.leaks += leaks_in_files(told.folder)
    assert told.server.end_by()[0] == 0
    errors = told.server.errors()
    assert '"name": "tools/call' in errors, "no spans were told"
    assert "Traceback" not in errors
    told.leaks += leaks_in_files(told.folder)
    monkeypatch.setenv("COUNTERFOIL_JOURNAL", f"sqlite:///{told.folder / 'journal.db'}")
    monkeypatch.setenv("HOME", str(told.folder.parent))
    capsys.readouterr()
    for words in (
        ("export",),
        ("export", "-o", str(told.folder / "exported")),
        ("backup", str(told.folder / "backed-up")),
        ("runs", "--json"),
        ("find", "--json"),
        ("requests", "--json"),
        ("plan", "run-0", "--json"),
        ("plan", "run-0"),
        ("show", "run-0", "key-0-0"),
        ("check",),
        ("verify",),
        ("find", FORMS["github_token"]),
        ("show", "run-0", FORMS["stripe_key"]),
    ):
        with suppress(SystemExit):
            command_line(words)
        out, err = capsys.readouterr()
        told.leaks += [f"{words[0]}: {found!r}" for found in leaks_in_text(out + err)]
    assert (told.folder / "exported").stat().st_size > 1_000
    assert (told.folder / "backed-up").stat().st_size > 10_000
    told.leaks += leaks_in_files(told.folder)


def test_there_is_a_secret_of_every_form_that_the_store_knows() -> None:
    assert sorted(LABELS - set(FORMS)) == []


def test_a_secret_in_any_field_is_found_nowhere(
    told: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forms, pads = cycle(FORMS.values()), cycle(PADS)
    number, texts, taken = 0, 0, 0
    for field in (field for tool in TOOLS for field in fields_of(tool)):
        for form in list(FORMS.values()) if LONG else islice(forms, 1):
            for value in hidden_in(field, form, next(pads)):
                is_taken = put(told, field, value, number)
                number += 1
                if field.kind in ("text", "object", "any"):
                    texts, taken = texts + 1, taken + is_taken
    assert taken > texts * 0.6, "most were refused: nothing was shown"
    read_everything(told)
    end(told, capsys, monkeypatch)
    assert told.leaks == []


def test_a_secret_in_a_name_that_no_tool_takes_is_found_nowhere(
    told: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = {"run": "run-0", "key": "key-0-0"}
    told.call("begin_operation", "base", **minimal("begin_operation", **ref))
    for form, pad in zip(FORMS.values(), cycle(PADS), strict=False):
        for name in (form, "x" * min(pad, 50) + " " + form):
            told.call("begin_operation", "a name", **minimal("begin_operation", **ref), **{name: 1})
            told.call("check_operation", "a name in trace", **ref, trace={name: form})
            told.call(
                "begin_run", "a name in a step", run="run-0", plan=[{"key": "k", "action": "a", name: form}]
            )
        named = json.dumps("x" * min(pad, 190) + " " + form)
        for args in (f"{{{named}: 1, {named}: 2}}", f"{{{named}: {'[' * 40}{']' * 40}}}"):
            told.call("begin_operation", "a member", **minimal("begin_operation", **ref), args=args)
        told.call("begin_operation", "password", **minimal("begin_operation", **ref), password=form)
        told.ask(request("tools/call", name=form, arguments={}), "a tool's name")
        told.ask(request("tools/call", name="check_operation", arguments=form), "arguments as text")
        told.ask(request("tools/call", name="check_operation", arguments=[form]), "arguments as a list")
        told.ask(request(form), "a method")
        told.ask(request("resources/read", uri=f"counterfoil://{quote(form)}"), "an address")
        told.ask(
            request("resources/read", uri=f"counterfoil://operations/{quote(form, safe='')}"), "an address"
        )
        told.ask(
            request("resources/read", uri=f"counterfoil://runs/{quote(form, safe='')}/plan"), "an address"
        )
        told.ask(request("prompts/get", name=form, arguments={form: form}), "a prompt")
        told.ask(
            request("prompts/get", name="start", arguments={"run": "r", "goal": form}), "a prompt's goal"
        )
        told.ask(request("prompts/get", name="resume", arguments={"run": form[:200]}), "a prompt's run")
        prompt = {"type": "ref/prompt", "name": "resume"}
        told.ask(
            request("completion/complete", ref=prompt, argument={"name": "run", "value": form}), "completion"
        )
    end(told, capsys, monkeypatch)
    assert told.leaks == []


def test_a_secret_in_what_a_client_says_of_itself_is_found_nowhere(
    told_modern: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = told_modern
    for number, (form, pad) in enumerate(zip(FORMS.values(), cycle(PADS), strict=False)):
        for text in (form, "x" * pad + " " + form):
            message = modern_call(
                0, **minimal("begin_operation", run="run-0", key=f"key-{number}-{len(text)}")
            )
            meta = message["params"]["_meta"]
            meta["io.modelcontextprotocol/clientInfo"] = {"name": text, "version": text, "title": text}
            meta |= {
                "claudecode/toolUseId": text,
                "threadId": text,
                "traceparent": text,
                "tracestate": f"vendor={form}",
            }
            if pad % 2:
                meta["traceparent"] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            meta |= {"sessionId": text, "callId": text, "baggage": text, text: text}
            told.ask(message, "_meta")
        told.server.send(
            {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": form, "reason": form},
            }
        )
        told.server.send({"jsonrpc": "2.0", "method": form, "params": {form: form}})
    read_everything(told)
    end(told, capsys, monkeypatch)
    assert told.leaks == []
