"""A mail spool: the outside system of the stories. It knows nothing of Counterfoil.

    spool.py FOLDER send TO TEXT REFERENCE     # from a shell
    spool.py FOLDER find REFERENCE
    spool.py FOLDER serve                      # as an MCP server, with the tools send_letter and find_letters

Every letter is a line of `letters.jsonl`, so that there are as many as were sent. While the folder holds a
file `held`, a letter that was sent is not acknowledged: whoever sent it is killed between effect and receipt.
"""

import json
import os
import sys
import time
from pathlib import Path
from uuid import uuid4

ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""Without it Claude Code hides a tool until the model has searched for it."""

LONGEST_HOLD_SECONDS = 120
"""Bound on a hold, for a story that failed before it took it away."""


class Spool:
    """The letters in one folder."""

    def __init__(self, folder: Path) -> None:
        self._letters = folder / "letters.jsonl"
        self._held = folder / "held"

    def letters(self) -> list[dict[str, str]]:
        """Give every letter that was sent, oldest first."""
        if not self._letters.exists():
            return []
        return [json.loads(line) for line in self._letters.read_text().splitlines()]

    def hold(self) -> None:
        """Acknowledge no letter from now on."""
        self._held.touch()

    def let_go(self) -> None:
        """Acknowledge letters again."""
        self._held.unlink(missing_ok=True)

    def send(self, to: str, text: str, reference: str) -> dict[str, str]:
        """Send a letter, and give it once it is acknowledged."""
        letter = {"to": to, "text": text, "reference": reference, "message_id": f"<{uuid4()}@spool>"}
        with self._letters.open("a") as spool:
            spool.write(json.dumps(letter) + "\n")
            spool.flush()
            os.fsync(spool.fileno())
        deadline = time.monotonic() + LONGEST_HOLD_SECONDS
        while self._held.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return letter

    def find(self, reference: str) -> list[dict[str, str]]:
        """Give the letters that carry this reference."""
        return [letter for letter in self.letters() if letter["reference"] == reference]


def serve(spool: Spool) -> None:
    """Offer the spool over MCP, as any mail server of a vendor would."""
    from mcp.server import MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("spool")

    @server.tool(meta=ALWAYS_LOADED)
    def send_letter(to: str, text: str, reference: str) -> dict[str, str]:
        """Send a letter."""
        return spool.send(to, text, reference)

    @server.tool(meta=ALWAYS_LOADED, annotations=ToolAnnotations(read_only_hint=True))
    def find_letters(reference: str) -> dict[str, list[dict[str, str]]]:
        """Find the letters that were sent with this reference."""
        return {"letters": spool.find(reference)}

    server.run()


def main(folder: str, command: str, *words: str) -> None:
    """Carry out what the command line says."""
    spool = Spool(Path(folder))
    if command == "serve":
        serve(spool)
    else:
        print(json.dumps(spool.send(*words) if command == "send" else spool.find(*words)))


if __name__ == "__main__":
    main(*sys.argv[1:])
