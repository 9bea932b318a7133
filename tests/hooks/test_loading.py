"""What a hook loads: it is a process for every call of an agent, and loading is most of what it costs."""

import json
import subprocess
import sys
from typing import Any

import pytest

from hooks.client import WAIT_SECONDS, Client, claude_result, client

__all__ = ["client"]

POST = "curl -X POST https://api.example.org/charges -d amount=5"
MAIL = {
    "tool_name": "mcp__gmail__send_email",
    "tool_input": {"to": "alice@example.org", "subject": "Invoice"},
}

NOT_FOR_A_HOOK = frozenset(
    (
        # What serves MCP, and whatever has an event loop.
        *(
            "mcp",
            "mcp_types",
            "pydantic",
            "anyio",
            "asyncio",
            "aiosqlite",
            "starlette",
            "httpx2",
            "click",
            "rich",
        ),
        *("counterfoil.tools", "counterfoil.server.people", "counterfoil.server.gateway"),
        *("counterfoil.server.http", "counterfoil.server.probes", "counterfoil.server.app"),
        # What is needed where there is something to tell, to look up, to refuse or to migrate.
        *("logging", "traceback", "difflib", "tomllib", "counterfoil.server.configuration_file"),
        *("psycopg", "subprocess", "socket", "ssl", "email", "http", "signal", "selectors"),
        # What others load without our asking: `importlib.resources`, `typing_extensions`, orjson.
        *(
            "importlib.resources",
            "importlib.metadata",
            "zipfile",
            "tempfile",
            "shutil",
            "random",
            "bz2",
            "lzma",
        ),
        *(
            "typing_extensions",
            "inspect",
            "ast",
            "dis",
            "tokenize",
            "dataclasses",
            "orjson",
            "tree_sitter_bash",
        ),
    )
)
"""Each of these once took a hook a millisecond or more, or would."""

SHOWN = (
    "import atexit, sys\n"
    "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"
    "from counterfoil.server.main import main\n"
    "sys.exit(main())"
)


def loaded(client: Client, name: str, **told: Any) -> frozenset[str]:
    """Give the modules that a hook has loaded when it ends; it must not hold the call back."""
    common = {"session_id": client.session, "cwd": str(client.folder), "hook_event_name": name}
    ran = subprocess.run(
        [sys.executable, "-c", SHOWN, "hook", name],
        input=json.dumps({**common, **told}).encode(),
        capture_output=True,
        env=client.environ(),
        cwd=client.folder,
        timeout=WAIT_SECONDS,
        check=True,
    )
    assert b"permissionDecision" not in ran.stdout
    return frozenset(ran.stderr.decode().splitlines())


def of_python() -> frozenset[str]:
    """Give the modules that Python has loaded of itself."""
    code = "import atexit, sys; print(*sys.modules, sep='\\n')"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=WAIT_SECONDS, check=True
    )
    return frozenset(shown.stdout.decode().splitlines())


def needless(modules: frozenset[str]) -> list[str]:
    return sorted(name for name in modules - of_python() if name in NOT_FOR_A_HOOK)


@pytest.mark.parametrize(
    ("given", "response"),
    [
        ({"tool_name": "Bash", "tool_input": {"command": POST}}, claude_result('{"id": "ch_1"}')),
        (MAIL, {"content": [{"type": "text", "text": '{"id": "m-1"}'}]}),
    ],
)
def test_an_effect_loads_nothing_that_it_has_no_use_for(client: Client, given, response):
    call = client.new_call()
    client.before("curl -X POST https://api.example.org/first")  # It makes the journal.
    before = loaded(client, "PreToolUse", **given, tool_use_id=call)
    assert "counterfoil.store.journal" in before
    assert needless(before) == []
    after = loaded(client, "PostToolUse", **given, tool_use_id=call, tool_response=response)
    assert "counterfoil.server.hooks.recording" in after
    assert needless(after) == []
    assert ("tree_sitter" in before) is (given["tool_name"] == "Bash")


def test_a_call_that_is_no_effect_loads_nothing_that_python_has_not_loaded(client: Client):
    given = {"tool_name": "Bash", "tool_input": {"command": "git status"}, "tool_use_id": client.new_call()}
    modules = loaded(client, "PreToolUse", **given) - of_python()
    assert {name for name in modules if name.partition(".")[0] != "counterfoil"} <= {"gc"}
