"""Lets an agent ask, a person permit for a short while, and the permission end before the work was done."""

import hashlib
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from outside import Hosting

sys.path.append(str(Path(__file__).parents[1]))
from shared.processes import command, start, told

AGENT = Path(__file__).parent / "agent.py"
PERMITTED = "12s"
"""Long enough to start an agent on a slow machine, short enough for a story."""


class Story:
    def __init__(self, folder: Path) -> None:
        self.folder, self.hosting = folder, Hosting(folder)
        self.configuration, self.secret = folder / "counterfoil.toml", folder / "secret"
        # In earnest, another user keeps the secret: see docs/authority.md.
        self.secret.write_text("only the person knows this")
        digest = hashlib.sha256(self.secret.read_bytes()).hexdigest()
        self.configuration.write_text(
            f'[[authority]]\naction = "deploy.*"\nrequire = "grant"\n[operator]\nsecret_sha256 = "{digest}"\n'
        )

    def agent(self) -> list[str]:
        """Start a session; give what it said, line by line."""
        return told(start(AGENT, str(self.configuration), folder=self.folder))

    def command(self, *words: str, by_person: bool = False) -> tuple[int, dict]:
        """Give a command, as the person who has the secret or as anybody with a shell."""
        secret = self.secret if by_person else None
        return command(self.folder, *words, configuration=self.configuration, secret=secret)


def main(folder: Path) -> None:
    story = Story(folder)
    story.hosting.close()

    verb, request = story.agent()
    assert verb == "ask: authority_required", verb
    code, answer = story.command("grant", request)
    assert (code, answer["granted"]) == (1, False), "a shell passed for a person"
    assert story.agent()[0] == "ask: authority_required"
    print("the rules ask for a person; an agent with a shell is none")

    code, answer = story.command("grant", request, "--for", PERMITTED, by_person=True)
    assert (code, answer["granted"]) == (0, True), answer
    ends = datetime.fromisoformat(answer["grant"]["expires_at"])
    assert story.agent() == ["perform: first_attempt", "failed"]
    assert story.hosting.releases() == []
    print("permitted, begun, refused by the service: nothing has happened")

    story.hosting.open()
    while (left := (ends - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(left)
    verb, request = story.agent()
    assert verb == "ask: authority_expired", verb
    assert story.hosting.releases() == [], "released without permission"
    print("the permission is over: the same attempt is no longer allowed")

    code, _ = story.command("grant", request, by_person=True)
    assert code == 0
    assert story.agent() == ["perform: retry_after_failure", "succeeded"]
    assert story.agent() == ["skip: already_succeeded"]
    assert story.hosting.releases() == ["1.4"]
    assert story.command("verify")[1]["faults"] == []
    print("renewed by the person: 1 release")


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
