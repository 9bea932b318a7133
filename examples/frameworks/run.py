"""Kills an agent of a framework amid two mails, lets another one finish, and counts what really happened.

Usage: uv run python examples/frameworks/run.py pydantic_ai|openai_agents|langgraph …
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "common"))
sys.path.append(str(Path(__file__).parents[1]))
from mail_provider import MailProvider
from shared.book import Book
from shared.processes import BOUND_SECONDS, environment, kill, launch, told

HERE = Path(__file__).parent
RUN = "handbook/2026-11"
TAG, ALICE, BOB = "refs/tags/2026-11", "alice@example.org", "bob@example.org"
SENT = {
    ALICE: "Dear Alice, the handbook of November is out.",
    BOB: "Dear Bob, the handbook of November is out.",
}
PUSH = f"push:{TAG}"
PLAN = [
    {"key": PUSH, "action": "git.push", "target": TAG, "lookup": {"tool": "find_tag"}},
    *(
        {
            "key": f"mail:{address}",
            "action": "mail.send",
            "target": address,
            "args": {"subject": "Handbook"},
            "payload": body,
            "depends_on": [PUSH],
            "lookup": {"tool": "find_mail", "instructions": "by reference", "settle_seconds": 1},
        }
        for address, body in SENT.items()
    ),
]
FIRST_PROMPT = f"Work on the run {RUN}. Its steps: {json.dumps(PLAN)}"
SECOND_PROMPT = f"Work on the run {RUN}. Somebody may have begun it."

HOOK = """#!/bin/sh
while read -r old new ref; do echo "{{\\"ref\\": \\"$ref\\"}}" >> '{pushes}'; done
"""
"""What the remote does after each push that changed something."""


def interpreter(script: Path) -> Path:
    """Install what a script declares, as its lock says, and give the Python that has it."""
    uv = shutil.which("uv")
    assert uv is not None, "these stories need uv"
    subprocess.run([uv, "sync", "--quiet", "--locked", "--script", str(script)], check=True)
    found = subprocess.run(
        [uv, "python", "find", "--script", str(script)], check=True, capture_output=True, text=True
    )
    return Path(found.stdout.strip())


def checkout(folder: Path) -> tuple[Path, Book]:
    """Make a clone with one commit and its bare remote, and give it with the remote's own book of pushes."""
    bare, clone, pushes = folder / "origin.git", folder / "clone", Book(folder / "pushes")
    who = ("-c", "user.name=A Clerk", "-c", "user.email=clerk@example.org")
    for words in (
        ("init", "--quiet", "--bare", str(bare)),
        ("clone", "--quiet", str(bare), str(clone)),
        ("-C", str(clone), *who, "commit", "--quiet", "--allow-empty", "--message", "Handbook"),
        ("-C", str(clone), "config", "user.name", "A Clerk"),
        ("-C", str(clone), "config", "user.email", "clerk@example.org"),
    ):
        subprocess.run(["git", *words], check=True, stderr=subprocess.DEVNULL)
    hook = bare / "hooks" / "post-receive"
    hook.write_text(HOOK.format(pushes=pushes.path))
    hook.chmod(0o755)
    return clone, pushes


def main(name: str, folder: Path) -> None:
    script = HERE / name / "agent.py"
    python = interpreter(script)
    clone, pushes = checkout(folder)
    mail = MailProvider(folder / "sent", sends_while_failing=ALICE)
    calls = folder / "calls"

    def start(prompt: str, *, lease_seconds: int) -> subprocess.Popen:
        server = [sys.executable, "-m", "counterfoil.server", "serve", "--journal", f"{folder}/journal.db"]
        wire = [sys.executable, str(HERE / "common" / "wire.py"), str(calls)]
        return launch(
            *(str(python), str(script), prompt, *wire, *server),
            environment={
                **environment(folder),
                "AGENT_CHECKOUT": str(clone),
                "AGENT_MAIL_URL": mail.url,
                "COUNTERFOIL_LEASE_SECONDS": str(lease_seconds),
            },
        )

    mail.failing.set()
    first = start(FIRST_PROMPT, lease_seconds=3)
    mail.wait_for_requests(2, seconds=BOUND_SECONDS)
    kill(first)
    first.stdout.close()
    print(f"{name}, first session: pushed, then killed while two mails were on their way")

    mail.failing.clear()
    (folder / "calls.lose").touch()
    said = told(start(SECOND_PROMPT, lease_seconds=20))
    print(*(f"{name}, second session: {line}" for line in said), sep="\n")
    mail.close()

    mails = sorted((entry["to"], entry["body"]) for entry in mail.sent.entries())
    assert len(mails) == len(SENT), f"{len(mails)} mails, not {len(SENT)}"
    assert mails == sorted(SENT.items()), f"other mails: {mails}"
    assert sorted(mail.requests) == [ALICE, BOB, BOB], f"the provider was asked for {mail.requests}"
    assert pushes.entries() == [{"ref": TAG}], f"pushed: {pushes.entries()}"

    for expected in (
        f"  mail:{ALICE}: reconcile: in_doubt",
        f"  mail:{BOB}: reconcile: in_doubt",
        f"reconcile_operation mail:{ALICE}: continue: recorded",
        f"reconcile_operation mail:{BOB}: continue: recorded",
        f"begin_operation mail:{BOB}: perform: replayed",
        "finished",
    ):
        assert expected in said, f"the second session was not told: {expected}"
    assert not any(PUSH in line for line in said), "what was done was taken up again"
    begun = [entry["answer"] for entry in Book(calls).entries(tool="begin_operation", key=f"mail:{BOB}")]
    assert begun == ["perform", "lost", "perform"], f"Bob's mail was begun so: {begun}"
    print(f"{name}: 1 push, 1 mail to Alice, 1 mail to Bob")


for framework in sys.argv[1:] or sys.exit(__doc__):
    with tempfile.TemporaryDirectory() as temporary:
        main(framework, Path(temporary))
