"""Two systems outside: a mail spool to be looked up, and a card processor that drops repeats of a key."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen


def _append(path: Path, line: str) -> None:
    """Append one line in one write; it is on disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Spool:
    """A message in it is delivered. It takes the same message twice if it is given twice."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def send(self, *, to: str, subject: str, body: str, key: str) -> str:
        message_id = f"<{key}@spool>"
        _append(self.path, json.dumps({"Message-Id": message_id, "To": to, "Subject": subject, "Body": body}))
        return message_id

    def find(self, *, key: str) -> str | None:
        wanted = f"<{key}@spool>"
        return next((wanted for message in self.messages() if message["Message-Id"] == wanted), None)

    def messages(self) -> list[dict]:
        return _lines(self.path)


class Processor:
    """Charges cards over HTTP. A second request with the same Idempotency-Key gets the first one's charge."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.requests = 0
        self._lock = threading.Lock()
        processor = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(processor.charge(self.headers["Idempotency-Key"], body)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Keep the story's output clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def charge(self, key: str, body: dict) -> dict:
        with self._lock:
            self.requests += 1
            known = next((charge for charge in self.charges() if charge["key"] == key), None)
            if known is None:
                known = {"id": f"ch_{len(self.charges()) + 1}", "key": key, **body}
                _append(self.ledger, json.dumps(known))
            return known

    def charges(self) -> list[dict]:
        return _lines(self.ledger)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def charge_card(url: str, *, customer: str, cents: int, key: str) -> str:
    """Ask the processor for a charge, and give its id."""
    body = json.dumps({"customer": customer, "cents": cents}).encode()
    with urlopen(Request(url, body, {"Idempotency-Key": key}), timeout=10) as response:
        return json.load(response)["id"]
