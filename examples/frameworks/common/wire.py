"""The wire between an agent and its server: notes each call of a tool, and can lose one answer.

Usage: wire.py NOTES SERVER COMMAND…

While a file NOTES.lose is there, the first answer that grants something is lost, and the file with it: the
server has answered, and the agent gets an error instead, as from a gateway whose own connection broke.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

sys.path.append(str(Path(__file__).parents[2]))
from shared.book import Book


def main(notes: Path, *command: str) -> int:
    book, lose = Book(notes), notes.with_name(f"{notes.name}.lose")
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    asked: dict[str | int, dict] = {}

    def pass_answers(answers: BinaryIO) -> None:
        for line in answers:
            message = json.loads(line)
            called = asked.pop(message.get("id"), None) if "method" not in message else None
            granted = called and _next(message) == "perform"
            if granted and lose.exists():
                lose.unlink()
                book.add(**called, answer="lost")
                line = _lost(message["id"])
            elif called:
                book.add(**called, answer=_next(message))
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    threading.Thread(target=pass_answers, args=(server.stdout,)).start()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            parameters = message["params"]
            arguments = parameters.get("arguments") or {}
            asked[message["id"]] = {"tool": parameters["name"], "key": arguments.get("key")}
        server.stdin.write(line)
        server.stdin.flush()
    server.stdin.close()
    return server.wait()


def _lost(request: str | int) -> bytes:
    error = {"code": -32603, "message": "the connection to the server was lost"}
    return json.dumps({"jsonrpc": "2.0", "id": request, "error": error}).encode() + b"\n"


def _next(message: dict) -> str | None:
    return ((message.get("result") or {}).get("structuredContent") or {}).get("next")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
