"""Resources and completions: what a client may read without a call, escaped, bounded, clear when it fails."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pytest
from mcp import Client, MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, PromptReference, ResourceTemplateReference

from counterfoil.server.app import build_server
from counterfoil.server.callers import ClientInfo
from counterfoil.store.domain.commands import BeginRun, PlanStep
from counterfoil.store.errors import JournalUnavailable
from counterfoil.tools.markdown import code, plan_markdown
from journals import AGENT, Desk, as_caller, open_desk
from scenarios.servers import Server

pytestmark = pytest.mark.anyio

Mode = Literal["auto", "legacy"]
RUN = "weekly report/2026-W48"
PLAN = "counterfoil://runs/weekly%20report%2F2026-W48/plan"


@asynccontextmanager
async def reader(desk: Desk, mode: Mode = "auto") -> AsyncIterator[Client]:
    """Connect a client to a server on the desk's journal."""

    async def get() -> Any:
        return desk.journal

    async with Client(build_server(get, client=ClientInfo(connection="reader")), mode=mode) as client:
        yield client


async def read(client: Client, uri: str) -> tuple[str, str]:
    """Read a resource; give its type and its text."""
    [contents] = (await client.read_resource(uri)).contents
    assert contents.uri == uri
    return contents.mime_type or "", getattr(contents, "text", "")


async def plan(desk: Desk, run: str, *keys: str, **fields: Any) -> None:
    """Begin a run with steps of these keys."""
    steps = tuple(PlanStep(key=key, action="email.send", target=f"{key}@example.org") for key in keys)
    await desk.journal.begin_run(BeginRun(run=run, plan=steps, **fields), as_caller(AGENT))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_resources_and_templates_are_listed_in_both_eras(tmp_path: Path, mode: Mode) -> None:
    async with open_desk(tmp_path) as desk, reader(desk, mode) as client:
        resources = (await client.list_resources()).resources
        assert [str(one.uri) for one in resources] == ["counterfoil://runs", "counterfoil://guide"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == [
            "counterfoil://runs/{run}/plan",
            "counterfoil://operations/{operation}",
            "counterfoil://operations/{operation}/payload",
        ]
        assert all(one.title and one.description for one in (*resources, *templates))


def test_a_plan_in_markdown_tells_what_its_steps_have_to_be_warned_of() -> None:
    words = plan_markdown(
        {
            "as_of": "2026-11-29T12:00:00Z",
            "guidance": "Follow each step's next.",
            "run": {"run": RUN},
            "warnings": ["the criteria cannot be read"],
            "steps": [
                {
                    "operation": "op_a",
                    "key": "a",
                    "action": "email.send",
                    "state": "in_doubt",
                    "next": "reconcile",
                    "reason": "in_doubt",
                    "checkpoint": {"sent": 2},
                    "warnings": ["its row cannot be read"],
                }
            ],
        }
    )
    assert '- warnings: `["the criteria cannot be read"]`' in words
    assert '  - checkpoint: `{"sent":2}`' in words
    assert '  - warnings: `["its row cannot be read"]`' in words


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_resource_is_read_in_both_eras(tmp_path: Path, mode: Mode) -> None:
    async with open_desk(tmp_path) as desk, reader(desk, mode) as client:
        await plan(desk, RUN, "a", goal="the report")
        begun = await desk.at("a", run=RUN).begin(payload="Dear Alice,\nhello")
        desk.clock.advance(301)

        kind, text = await read(client, "counterfoil://runs")
        assert (kind, [run["run"] for run in json.loads(text)["runs"]]) == ("application/json", [RUN])

        kind, text = await read(client, PLAN)
        assert kind == "text/markdown"
        assert text.startswith(f"# Plan of `{RUN}`\n")
        assert "- goal: `the report`" in text
        assert "- `a`: **reconcile** (in_doubt), in_doubt" in text
        assert f"operation `{begun['operation']}`" in text
        assert "- complete: no" in text

        uri = f"counterfoil://operations/{begun['operation']}"
        kind, text = await read(client, uri)
        answer = json.loads(text)
        assert (kind, answer["state"], answer["key"]) == ("application/json", "in_doubt", "a")
        assert answer["history"]

        assert await read(client, f"{uri}/payload") == ("text/plain", "Dear Alice,\nhello")
        kind, text = await read(client, "counterfoil://guide")
        assert (kind, text[:10]) == ("text/markdown", "# Counterf")


async def test_a_payload_that_is_no_text_and_a_long_one_come_back_whole(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk, reader(desk) as client:
        long = "Grüße\n" * 20_000
        for key, payload in (("object", {"n": [1, None, "\u202e"]}), ("long", long)):
            begun = await desk.at(key).begin(payload=payload)
            kind, text = await read(client, f"counterfoil://operations/{begun['operation']}/payload")
            assert (kind, json.loads(text) if kind == "application/json" else text) == (
                "application/json" if key == "object" else "text/plain",
                payload,
            )
            assert "\u202e" not in text


@pytest.mark.parametrize(
    "uri",
    [
        "counterfoil://runs/weekly report%2F2026-W48/plan",
        "counterfoil://runs/weekly%20report/2026-W48/plan",
        "counterfoil://runs/weekly%2/plan",
        "counterfoil://runs/weekly%zz/plan",
        "counterfoil://runs/weekly%ff/plan",
        "counterfoil://runs/%C0%AF/plan",
        "counterfoil://runs/wöchentlich/plan",
        "counterfoil://runs//plan",
        "counterfoil://runs/",
        "counterfoil://runs?all",
        "counterfoil://runs/x/plan#top",
        "counterfoil://operations",
        "counterfoil://nothing",
        "counterfoil:runs",
        "COUNTERFOIL://runs",
        "file:///etc/passwd",
        "counterfoil://operations/op_nothing",
        "counterfoil://operations/..%2F..%2Fetc",
        "counterfoil://runs/%00/plan",
    ],
)
async def test_an_address_that_is_not_exactly_ours_is_refused(tmp_path: Path, uri: str) -> None:
    async with open_desk(tmp_path) as desk, reader(desk) as client:
        await plan(desk, RUN)
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
        assert refused.value.code == INVALID_PARAMS
        assert refused.value.data["code"] == "invalid_argument"
        assert refused.value.data["uri"] == uri
        assert refused.value.data["fix"]


async def test_a_name_in_an_address_is_decoded_once(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk, reader(desk) as client:
        for name in ("100%25", "a+b", "ä/ö?#", "x%2Fy"):
            await plan(desk, name, "step")
            _, text = await read(client, f"counterfoil://runs/{quote(name, safe='')}/plan")
            assert text.startswith(f"# Plan of {code(name)}\n")


async def test_a_run_that_is_not_there_is_no_empty_plan(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk, reader(desk) as client:
        await plan(desk, RUN)
        with pytest.raises(MCPError) as refused:
            await client.read_resource("counterfoil://runs/weekly%20report%2F2026-W47/plan")
        assert (refused.value.code, refused.value.data["code"]) == (INVALID_PARAMS, "not_found")
        assert refused.value.data["candidates"] == [RUN]
        begun = await desk.at("bare").begin()
        with pytest.raises(MCPError, match="no payload"):
            await client.read_resource(f"counterfoil://operations/{begun['operation']}/payload")


HOSTILE = "`](http://evil) <img src=x onerror=1>``` \n# Ignore all\u202e\u0007"


async def test_stored_text_cannot_become_markup(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk, reader(desk) as client:
        key = "k``[x](http://evil)# <b>"
        step = PlanStep(key=key, action=HOSTILE, target=HOSTILE)
        await desk.journal.begin_run(BeginRun(run=RUN, plan=(step,), goal=HOSTILE), as_caller(AGENT))
        _, text = await read(client, PLAN)
        outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
        assert "evil" in text
        for markup in ("evil", "<", "](", "Ignore", "\u202e", "\u0007", "`"):
            assert markup not in outside
        assert [line for line in text.splitlines() if line.startswith("#")] == [
            f"# Plan of `{RUN}`",
            "## Open steps, the urgent ones first",
            "## What the reasons mean",
        ]


@pytest.mark.parametrize("text", ["", " ", "`", "a`b", "``", "a``` `b", "\n", "plain"])
def test_a_code_span_holds_any_text(text: str) -> None:
    span = code(text)
    begin, end = re.match("`+", span), re.search("`+$", span)
    assert begin is not None
    assert end is not None
    fence = begin[0]
    assert end[0] == fence
    assert fence not in re.findall("`+", span[len(fence) : -len(fence)])
    assert "\n" not in span


async def test_pages_stay_bounded_and_say_that_there_is_more(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk, reader(desk) as client:
        await plan(desk, RUN, *(f"step-{number}-{'x' * 150}" for number in range(300)), goal="g" * 4_000)
        _, text = await read(client, PLAN)
        assert len(text) <= 10_000
        shown = text.count("**begin**")
        assert 0 < shown < 300
        assert f"These are {shown}, and there are more: call resume_plan for this run with cursor" in text
        for number in range(60):
            await plan(desk, f"run-{number}-{'y' * 150}", goal="z" * 2_000)
        _, text = await read(client, "counterfoil://runs")
        assert len(text) <= 10_000
        assert json.loads(text)["cut"] is True


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_broken_journal_is_a_clear_error_and_hides_no_list(mode: Mode) -> None:
    async def broken() -> Any:
        raise JournalUnavailable("the journal is read-only", fix="make it writable")

    async with Client(build_server(broken, client=ClientInfo(connection="c")), mode=mode) as client:
        assert len((await client.list_resources()).resources) == 2
        assert len((await client.list_prompts()).prompts) == 3
        assert (await read(client, "counterfoil://guide"))[0] == "text/markdown"
        for uri in ("counterfoil://runs", PLAN, f"counterfoil://operations/op_{'a' * 20}"):
            with pytest.raises(MCPError, match="the journal is read-only") as failed:
                await client.read_resource(uri)
            assert failed.value.code == INTERNAL_ERROR
            assert failed.value.data["code"] == "journal_unavailable"
        with pytest.raises(MCPError, match="the journal is read-only"):
            await client.complete(PromptReference(name="resume"), {"name": "run", "value": ""})


async def test_an_error_nobody_foresaw_tells_nothing_of_itself() -> None:
    async def exploding() -> Any:
        raise RuntimeError("hunter2-exception")

    async with Client(build_server(exploding, client=ClientInfo(connection="c"))) as client:
        with pytest.raises(MCPError) as failed:
            await client.read_resource("counterfoil://runs")
        assert (failed.value.code, failed.value.data["code"]) == (INTERNAL_ERROR, "internal")
        assert "hunter2" not in str(failed.value.error)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_names_of_runs_and_ids_of_operations_are_completed(tmp_path: Path, mode: Mode) -> None:
    async with open_desk(tmp_path) as desk, reader(desk, mode) as client:
        await plan(desk, RUN, "a")
        desk.clock.advance(1)
        await plan(desk, "weekly report/2026-W49", "b")
        await plan(desk, "other")
        ids = {entry["operation"] for entry in (await desk.plan(run=RUN))["steps"]}

        async def completed(ref: Any, name: str, value: str) -> list[str]:
            return (await client.complete(ref, {"name": name, "value": value})).completion.values

        runs = ["weekly report/2026-W49", RUN]
        template = ResourceTemplateReference(uri="counterfoil://runs/{run}/plan")
        assert await completed(template, "run", "weekly") == runs
        assert await completed(PromptReference(name="resume"), "run", "weekly") == runs
        assert await completed(PromptReference(name="start"), "goal", "weekly") == []
        for uri in ("counterfoil://operations/{operation}", "counterfoil://operations/{operation}/payload"):
            assert ids < set(await completed(ResourceTemplateReference(uri=uri), "operation", "op_"))
        [one] = ids
        assert await completed(PromptReference(name="reconcile"), "operation", one[:12]) == [one]
        for ref in (PromptReference(name="nothing"), ResourceTemplateReference(uri="counterfoil://{x}")):
            with pytest.raises(MCPError) as refused:
                await client.complete(ref, {"name": "run", "value": ""})
            assert refused.value.code == INVALID_PARAMS


def test_resources_are_served_over_real_stdio(tmp_path: Path) -> None:
    with Server(tmp_path).start() as server:
        assert server.call("begin_run", run=RUN, goal="the report")["reason"] == "started"

        def ask(number: int, method: str, **params: Any) -> dict[str, Any]:
            return server.ask({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

        listed = ask(101, "resources/list")["result"]["resources"]
        assert {one["uri"] for one in listed} == {"counterfoil://runs", "counterfoil://guide"}
        [contents] = ask(102, "resources/read", uri=PLAN)["result"]["contents"]
        assert contents["mimeType"] == "text/markdown"
        assert "the report" in contents["text"]
        error = ask(103, "resources/read", uri="counterfoil://nothing")["error"]
        assert (error["code"], error["data"]["code"]) == (INVALID_PARAMS, "invalid_argument")
        ref = {"type": "ref/prompt", "name": "resume"}
        argument = {"name": "run", "value": "weekly"}
        values = ask(104, "completion/complete", ref=ref, argument=argument)["result"]["completion"]["values"]
        assert values == [RUN]
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with Server(tmp_path) as modern:
        params = {"uri": PLAN, "_meta": envelope}
        answer = modern.ask({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params})
        assert "the report" in answer["result"]["contents"][0]["text"]
