"""A model that says what a script says, on loopback, to whatever client asks it.

A prompt names its script: `[script first]`. The step is the number of tool answers that came after that
prompt, so that a request sent twice, a side question or a resumed conversation never puts it out of step.
A step, or its input, may be made out of the prompt and the answers before it. Everything that a client sent
is kept: that is what the model was shown.

The server is also the client's proxy, and refuses: nothing that a client wants from elsewhere is reached.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from clients.wire_formats import FORMATS, Conversation, Reply

__all__ = ["Answer", "Call", "Input", "Say", "Script", "ScriptedModel", "Turn", "prompt_of"]

_NAMED = re.compile(r"\[script ([\w-]+)\]")
_SIDE_ANSWER = "{}"
"""To a request that offers no tools, such as for a title: an object where one is wanted, dull elsewhere."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answered, as the model was shown it."""

    text: str

    @property
    def value(self) -> Any:
        """Give the JSON object or array that the answer holds, whatever the client wrote around it.

        Of a whole result of MCP, as `letta mcp call` prints it, it is what the tool said.

        Raises:
            ValueError: there is none.
        """
        for found in re.finditer(r"[\[{]", self.text):
            try:
                value = json.JSONDecoder().raw_decode(self.text, found.start())[0]
            except json.JSONDecodeError:
                continue
            is_result = isinstance(value, Mapping) and isinstance(value.get("content"), list)
            return json.loads(value["content"][0]["text"]) if is_result else value
        raise ValueError(f"no JSON in {self.text[:500]!r}")

    def at(self, *path: str | int) -> Any:
        """Give what lies at this path in the answer's JSON."""
        value = self.value
        for step in path:
            value = value[step]
        return value

    def matching(self, pattern: str) -> str:
        """Give the first group of the first match in the answer's text.

        Raises:
            ValueError: nothing matches.
        """
        found = re.search(pattern, self.text)
        if found is None:
            raise ValueError(f"nothing like {pattern} in {self.text[:500]!r}")
        return found.group(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a step may be made of: the prompt that named the script, and the answers since."""

    prompt: Answer
    answers: Sequence[Answer]

    def __getitem__(self, place: int) -> Answer:
        return self.answers[place]


Input = Mapping[str, Any] | Callable[[Turn], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Call:
    """Calls a tool, named by a regular expression, with an input that may come out of earlier answers."""

    tool: str
    input: Input


@dataclass(frozen=True, slots=True)
class Say:
    """Says a text, which ends the turn."""

    text: str


Step = Call | Say | Callable[[Turn], Call | Say]
"""A step that is a function is decided when it comes to it."""

Script = Sequence[Step]


def prompt_of(script: str) -> str:
    """Give a prompt that makes the model follow this script."""
    return f"Do your work. [script {script}]"


class ScriptedModel:
    """Serves scripts by name until it is closed; give it as a context."""

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self.scripts = dict(scripts)
        self.requests: list[Mapping[str, Any]] = []
        self.problems: list[str] = []
        self.follow_up: Callable[[Answer], Call | None] = lambda _: None
        """Gives the call by which a model waits for an answer that is not there yet; its own replaces it."""
        self._lock = threading.Lock()
        self._turns: dict[str, Turn] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Give where it is reached."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def shown(self, script: str) -> Sequence[Answer]:
        """Give the tool answers that the model was shown while it followed this script."""
        with self._lock:
            return self._turns[script].answers if script in self._turns else ()

    def was_shown(self, text: str) -> bool:
        """Tell whether any request held this text, anywhere: instructions, tools or messages."""
        with self._lock:
            return any(text in json.dumps(request, ensure_ascii=False) for request in self.requests)

    def take(self, body: Mapping[str, Any], conversation: Conversation) -> Reply:
        """Keep a request, and give what the script says to it."""
        with self._lock:
            self.requests.append(body)
            if not conversation.tools:
                return Reply(text=_SIDE_ANSWER, input={})
            named = [
                (place, name)
                for place, entry in enumerate(conversation.entries)
                if not entry.is_tool_answer
                for name in _NAMED.findall(entry.text)
            ]
            if not named:
                return Reply(text="No script was named.", input={})
            place, name = named[-1]
            answers: list[Answer] = []
            for entry in conversation.entries[place:]:
                if entry.is_tool_answer:
                    if answers and self.follow_up(answers[-1]):
                        answers.pop()
                    answers.append(Answer(entry.text))
            turn = Turn(prompt=Answer(conversation.entries[place].text), answers=answers)
            self._turns[name] = turn
            try:
                waiting = self.follow_up(answers[-1]) if answers else None
                script = self.scripts[name]
                done = len(answers)
                step = waiting or (script[done] if done < len(script) else Say("Done."))
                return self._reply(step, turn, conversation.tools)
            except Exception as error:
                self.problems.append(f"{name}, step {len(answers)}: {error!r}")
                return Reply(text="The script is broken.", input={})

    @staticmethod
    def _reply(step: Step, turn: Turn, tools: Sequence[str]) -> Reply:
        if not isinstance(step, Call | Say):
            step = step(turn)
        if isinstance(step, Say):
            return Reply(text=step.text, input={})
        offered = [tool for tool in tools if re.fullmatch(step.tool, tool)]
        if len(offered) != 1:
            raise LookupError(f"{step.tool} is {offered or 'none'} of {sorted(tools)}")
        return Reply(tool=offered[0], input=step.input(turn) if callable(step.input) else step.input)


def _handler_of(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing on stderr."""

        def do_CONNECT(self) -> None:
            self._refuse_elsewhere()

        def do_HEAD(self) -> None:
            self._send(200, "application/json", b"")

        def do_GET(self) -> None:
            if self.path.startswith("http"):
                self._refuse_elsewhere()
            elif urlsplit(self.path).path.endswith("/models"):
                models = {"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []}
                self._send(200, "application/json", json.dumps(models).encode())
            else:
                self._send(404, "application/json", b"{}")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = urlsplit(self.path).path
            if self.path.startswith("http"):
                self._refuse_elsewhere()
                return
            for form in FORMATS:
                if form.is_asked(path):
                    asked = json.loads(body)
                    reply = model.take(asked, form.read(asked))
                    self._send(200, *form.write(reply, asked, path))
                    return
            # Counts of tokens, telemetry and the like: every client under test does without them.
            self._send(404, "application/json", b"{}")

        def _refuse_elsewhere(self) -> None:
            self._send(403, "text/plain", b"")

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
