"""verify_operation in a real server over real pipes, with the operator's file beside it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

pytestmark = pytest.mark.anyio

RUN = "site/2026-11-29"


def server(folder: Path, *words: str) -> Any:
    """Start the program as a client does."""
    return stdio_client(
        StdioServerParameters(
            command=sys.executable,
            args=["-m", "counterfoil.server", "--journal", str(folder / "journal.db"), *words],
            env={"HOME": str(folder), "COUNTERFOIL_CONFIG": str(folder / "counterfoil.toml")},
        )
    )


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; give its answer, or its fault."""
    result = await client.call_tool(tool, arguments)
    [content] = result.content
    assert content.type == "text"
    told: dict[str, Any] = json.loads(content.text)
    if not result.is_error:
        assert result.structured_content == told
    return told


def git(*words: str, at: Path) -> str:
    """Run git."""
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *who, *words], cwd=at, check=True, capture_output=True, timeout=30)
    return done.stdout.decode().strip()


async def test_a_push_has_succeeded_only_when_the_server_has_seen_it(tmp_path: Path) -> None:
    """O-4 and T-7: an agent's reference is `reported`, what the server saw itself is `verified`.

    Reported: mikehasa/agentacct#92, openclaw/openclaw#144878.
    """
    bare, work = tmp_path / "site.git", tmp_path / "work"
    git("init", "--quiet", "--bare", str(bare), at=tmp_path)
    git("clone", "--quiet", str(bare), str(work), at=tmp_path)
    git("commit", "--quiet", "--allow-empty", "-m", "first", at=work)
    git("push", "--quiet", "origin", "HEAD:refs/heads/main", at=work)
    git("commit", "--quiet", "--allow-empty", "-m", "one", at=work)
    sha = git("rev-parse", "HEAD", at=work)
    (tmp_path / "counterfoil.toml").write_text(
        '[[assurance]]\naction = "git.push"\nrequire = "verified"\n'
        "[defaults]\nsettle_seconds = 1\n"
        f'[probes.main]\ntype = "git_ref"\naction = "git.push"\nrepository = "{bare}"\n'
        'ref = "refs/heads/main"\nsha = "{args.commit}"\n'
    )
    begin = {
        "run": RUN,
        "key": "push:main",
        "action": "git.push",
        "target": "main",
        "args": {"commit": sha},
        "lookup": {"probe": "main"},
    }
    async with Client(server(tmp_path)) as client:
        begun = await call(client, "begin_operation", **begin)
        assert begun["next"] == "perform"
        named = {"operation": begun["operation"]}
        claimed = await call(client, "record_receipt", **named, kind="commit", external_id=sha)
        assert (claimed["next"], claimed["reason"]) == ("reconcile", "receipt_too_weak")
        unseen = await call(client, "verify_operation", **named)
        assert unseen["probe"] == {"name": "main", "found": False}
        assert unseen["state"] != "succeeded"
        git("push", "--quiet", "origin", "HEAD:refs/heads/main", at=work)
        seen = await call(client, "verify_operation", **named, call_id="toolu_0123456789ab")
        assert (seen["next"], seen["state"]) == ("continue", "succeeded")
        assert seen["probe"] == {"name": "main", "found": True}
        assert (seen["receipt"]["assurance"], seen["receipt"]["external_id"]) == ("verified", sha)
        again = await call(client, "verify_operation", **named, call_id="toolu_0123456789ab")
        assert again["reason"] == "duplicate"
        assert (await call(client, "begin_operation", **begin))["next"] == "skip"
        whole = await call(client, "check_operation", **named, detail="evidence")
        assert '"stands_at":"' + sha in whole["content"]
        await call(client, "begin_operation", run=RUN, key="mail", action="mail.send", target="a@example.org")
        fault = await call(client, "verify_operation", run=RUN, key="mail")
        assert (fault["code"], fault["recorded"]) == ("not_found", False)
        assert "[probes.NAME]" in fault["fix"]
        odd = await call(
            client,
            "begin_operation",
            run=RUN,
            key="mail:2",
            action="mail.send",
            target="b@example.org",
            lookup={"probe": "main"},
        )
        fault = await call(client, "verify_operation", operation=odd["operation"])
        assert fault["code"] == "forbidden"


async def test_the_core_set_does_not_offer_it(tmp_path: Path) -> None:
    (tmp_path / "counterfoil.toml").touch()
    offered = {}
    for name in ("core", "all"):
        async with Client(server(tmp_path, "--tools", name)) as client:
            offered[name] = {tool.name for tool in (await client.list_tools()).tools}
    assert "verify_operation" in offered["all"]
    assert "verify_operation" not in offered["core"]
