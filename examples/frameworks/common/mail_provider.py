"""The mail provider: it sends the same mail twice if it is told to, and can be asked what it sent.

While it is `failing` it answers no request: a mail to one address is sent and only the answer is lost; a mail
to any other is lost itself. From outside the two look the same.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

sys.path.append(str(Path(__file__).parents[2]))
from shared.book import Book


class MailProvider:
    """What it sent stands in its book; `requests` counts the mails that it was asked to send, by address."""

    def __init__(self, path: Path, *, sends_while_failing: str) -> None:
        self.sent = Book(path)
        self.requests: list[str] = []
        self.failing = threading.Event()
        self._sends_while_failing = sends_while_failing
        self._closing = threading.Event()
        self._asked = threading.Condition()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                mail = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                message_id = provider.take(mail)
                if message_id is None:
                    provider._closing.wait()
                else:
                    self._answer({"id": message_id})

            def do_GET(self) -> None:
                found = provider.sent.entries(**dict(parse_qsl(urlsplit(self.path).query)))
                self._answer({"id": found[0]["id"] if found else None})

            def _answer(self, answer: dict) -> None:
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Keep the story's output clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, mail: dict) -> str | None:
        """Send a mail and give its id, None where nobody will ever answer."""
        failing = self.failing.is_set()
        message_id = f"<{mail['reference']}@mail>"
        if not failing or mail["to"] == self._sends_while_failing:
            self.sent.add(**mail, id=message_id)
        with self._asked:
            self.requests.append(mail["to"])
            self._asked.notify_all()
        return None if failing else message_id

    def wait_for_requests(self, count: int, *, seconds: float) -> None:
        """Wait until it was asked to send so many mails, for a bound time."""
        with self._asked:
            assert self._asked.wait_for(lambda: len(self.requests) >= count, seconds), self.requests

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
