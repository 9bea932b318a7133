"""All that is no effect goes through the gateway as it is, whatever era each side speaks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from gateway.standing import Mail, Stand, said, standing, told

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 20


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    """The client's side of the protocol: with a handshake, and without."""
    return str(request.param)


@pytest.fixture(params=["any", "older"])
def behind(request: pytest.FixtureRequest) -> str:
    """The server's side."""
    return str(request.param)


async def _prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", description="Greets.")])


async def _prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    text = f"Greet {(params.arguments or {}).get('whom')}"
    content = types.TextContent(type="text", text=text)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def _resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri="mail://1", name="one")])


async def _templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template="mail://{id}", name="mail")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def _resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    text = types.TextResourceContents(uri=params.uri, text="Hello", mime_type="text/plain")
    return types.ReadResourceResult(contents=[text])


async def _complete(ctx: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [f"{params.argument.value}lice"]
    return types.CompleteResult(completion=types.Completion(values=values, total=1))


EVERYTHING: dict[str, Any] = {
    "on_list_prompts": _prompts,
    "on_get_prompt": _prompt,
    "on_list_resources": _resources,
    "on_list_resource_templates": _templates,
    "on_read_resource": _resource,
    "on_completion": _complete,
}


@asynccontextmanager
async def everything(folder: Path, era: str, behind: str, **more: Any) -> AsyncIterator[tuple[Client, Stand]]:
    async with (
        standing(folder, Mail(more=EVERYTHING), upstream_era=behind) as stand,
        stand.client(mode=era, **more) as client,
    ):
        yield client, stand


async def test_the_server_is_introduced_as_itself(tmp_path: Path, era: str, behind: str) -> None:
    async with everything(tmp_path, era, behind) as (client, _):
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("mail", "7")
        assert client.instructions == "Mails people."
        assert client.server_capabilities.completions is not None
        assert client.server_capabilities.logging is None


async def test_prompts_pass(tmp_path: Path, era: str, behind: str) -> None:
    async with everything(tmp_path, era, behind) as (client, _):
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greet"]
        got = await client.get_prompt("greet", {"whom": "Bob"})
        assert got.messages[0].content.text == "Greet Bob"


async def test_resources_pass(tmp_path: Path, era: str, behind: str) -> None:
    async with everything(tmp_path, era, behind) as (client, _):
        assert [one.uri for one in (await client.list_resources()).resources] == ["mail://1"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["mail://{id}"]
        assert (await client.read_resource("mail://1")).contents[0].text == "Hello"


async def test_completions_pass(tmp_path: Path, era: str, behind: str) -> None:
    async with everything(tmp_path, era, behind) as (client, _):
        ref = types.PromptReference(type="ref/prompt", name="greet")
        found = await client.complete(ref, {"name": "whom", "value": "A"})
        assert found.completion.values == ["Alice"]


async def test_an_effect_is_recorded_in_every_pair_of_eras(tmp_path: Path, era: str, behind: str) -> None:
    async with everything(tmp_path, era, behind) as (client, stand):
        first = await client.call_tool("send_mail", {"to": "alice"})
        again = await client.call_tool("send_mail", {"to": "alice"})

        assert (told(first)["replayed"], told(again)["replayed"]) == (False, True)
        assert again.structured_content == {"id": "m-1"}
        assert len(stand.mail.sent) == 1


async def test_progress_reaches_the_caller(tmp_path: Path, era: str, behind: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []
    heard = anyio.Event()

    async def call(ctx: Any, params: types.CallToolRequestParams) -> Any:
        await ctx.session.report_progress(1, 4, "a quarter")
        with anyio.fail_after(WAIT_SECONDS):
            await heard.wait()
        return said("done")

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        heard.set()

    mail = Mail()
    mail._call = call  # type: ignore[method-assign]
    async with standing(tmp_path, mail, upstream_era=behind) as stand, stand.client(mode=era) as client:
        await client.call_tool("find_mail", {}, progress_callback=on_progress)

    assert seen == [(1.0, 4.0, "a quarter")]


async def test_a_changed_list_of_tools_reaches_an_older_client(tmp_path: Path) -> None:
    heard = anyio.Event()
    bus = InMemorySubscriptionBus()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.set()

    mail = Mail(more={"on_subscriptions_listen": ListenHandler(bus)})

    async def change(arguments: dict[str, Any]) -> Any:
        acts = types.ToolAnnotations(destructive_hint=True)
        mail.tools.append(types.Tool(name="get_paid", input_schema={"type": "object"}, annotations=acts))
        await bus.publish(ToolsListChanged())
        return said("changed")

    mail.handlers["find_mail"] = change
    async with (
        standing(tmp_path, mail) as stand,
        stand.client(mode="legacy", message_handler=on_message) as client,
    ):
        await client.list_tools()
        with anyio.fail_after(WAIT_SECONDS):
            while not heard.is_set():
                await client.call_tool("find_mail", {})
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        paid = await client.call_tool("get_paid", {})

        assert "_counterfoil" in tools["get_paid"].input_schema["properties"]
        assert told(paid)["replayed"] is False


async def test_a_changed_list_of_tools_reaches_a_client_that_listens(tmp_path: Path, behind: str) -> None:
    mail = Mail()
    bus = InMemorySubscriptionBus()
    mail.more["on_subscriptions_listen"] = ListenHandler(bus)

    async def call(ctx: Any, params: types.CallToolRequestParams) -> Any:
        if behind == "older":
            await ctx.session.send_tool_list_changed()
        else:
            await bus.publish(ToolsListChanged())
        return said("changed")

    mail._call = call  # type: ignore[method-assign]
    async with standing(tmp_path, mail, upstream_era=behind) as stand, stand.client() as client:
        with anyio.fail_after(WAIT_SECONDS):
            async with client.listen(tools_list_changed=True) as events:
                async with anyio.create_task_group() as tasks:

                    async def keep_changing() -> None:
                        while True:
                            await client.call_tool("find_mail", {})

                    tasks.start_soon(keep_changing)
                    async for event in events:
                        assert isinstance(event, ToolsListChanged)
                        break
                    tasks.cancel_scope.cancel()


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_log_lines_reach_an_older_client(tmp_path: Path, behind: str) -> None:
    lines: list[Any] = []
    heard = anyio.Event()

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        lines.append((params.level, params.data))
        heard.set()

    async def set_level(ctx: Any, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    async def call(ctx: Any, params: types.CallToolRequestParams) -> Any:
        await ctx.session.send_log_message("warning", "almost full", related_request_id=ctx.request_id)
        return said("done")

    mail = Mail()
    mail._call = call  # type: ignore[method-assign]
    mail.more["on_set_logging_level"] = set_level
    async with (
        standing(tmp_path, mail, upstream_era=behind) as stand,
        stand.client(mode="legacy", logging_callback=on_log) as client,
    ):
        await client.set_logging_level("info")
        await client.call_tool("find_mail", {})
        with anyio.fail_after(WAIT_SECONDS):
            await heard.wait()

    assert lines == [("warning", "almost full")]
