"""An agent's session: a real server over stdio, a tool call, and a run that is followed by `next` alone."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from mcp import Client, StdioServerParameters

from shared.processes import environment


@asynccontextmanager
async def session(folder: Path, *words: str) -> AsyncIterator[Client]:
    """Connect to a server of its own on the story's journal; `words` are more of the server's options."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil.server", "serve", "--journal", f"sqlite:///{folder}/journal.db", *words],
        env=environment(folder),
    )
    async with Client(server, read_timeout_seconds=30) as client:
        yield client


async def call(client: Client, tool: str, **arguments: object) -> dict:
    """Call a tool, and give its answer. A fault ends the story."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


def verb(answer: Mapping) -> str:
    """Give what an answer or a step says, in short."""
    return f"{answer['next']}: {answer['reason']}"


def say(line: str) -> None:
    """Print a line at once: whoever tells the story reads it before this process is killed."""
    print(line, flush=True)


async def wait_until(moment: str) -> None:
    """Wait for the moment that an answer named as `retry_at`."""
    await asyncio.sleep(max(0.0, (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()))


async def take_up(client: Client, run: str, **arguments: object) -> dict:
    """Begin a run, after the hold of whoever died at it is over."""
    while True:
        answer = await call(client, "begin_run", run=run, **arguments)
        say(f"{run}: {verb(answer)}")
        if answer["next"] != "wait":
            return answer
        await wait_until(answer["retry_at"])


async def follow(
    client: Client,
    run: str,
    *,
    perform: Callable[[Mapping], dict],
    look_up: Callable[[Mapping], dict | None],
    terms: Mapping[str, Mapping] | None = None,
) -> None:
    """Do what the plan says until nothing is open, with what is on record and no memory of one's own.

    `perform` carries out an effect as begin_operation granted it, with its action, target, args and payload;
    `look_up` looks for the effect of a step. Both give a receipt. `terms` are for a begin, by key.
    """
    while steps := (plan := await call(client, "resume_plan", run=run))["steps"]:
        for step in steps:
            say(f"{step['key']}: {verb(step)}")
            match step["next"]:
                case "reconcile":
                    await _reconcile(client, step, plan["as_of"], look_up(step))
                case "begin":
                    await _begin(client, run, step, perform, (terms or {}).get(step["key"], {}))
                case "wait":
                    if "retry_at" in step:
                        await wait_until(step["retry_at"])
                case other:
                    sys.exit(f"{step['key']}: this story has no {other}")


async def _reconcile(client: Client, step: Mapping, as_of: str, receipt: dict | None) -> None:
    answer = await call(
        client,
        "reconcile_operation",
        operation=step["operation"],
        finding="performed" if receipt else "not_performed",
        checked_with=step["lookup"]["tool"],
        as_of=as_of,
        **(receipt or {}),
    )
    if answer["next"] == "wait":
        await wait_until(answer["retry_at"])


async def _begin(
    client: Client, run: str, step: Mapping, perform: Callable[[Mapping], dict], terms: Mapping
) -> None:
    effect = {"action": step["action"], "target": step["target"]}
    for body, read in (("args", json.loads), ("payload", str)):
        kept = await call(client, "check_operation", operation=step["operation"], detail=body)
        if kept["recorded"]:
            effect[body] = read(kept["content"])
    begun = await call(client, "begin_operation", run=run, key=step["key"], **effect, **terms)
    say(f"{step['key']}: begun, {verb(begun)}")
    if begun["next"] == "perform":
        await call(
            client,
            "record_receipt",
            operation=begun["operation"],
            attempt=begun["attempt"],
            **perform({**effect, "idempotency_key": begun["idempotency_key"]}),
        )
