"""An agent that has never heard of a journal mails through a gateway; the mail server dies in the middle."""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

sys.path.append(str(Path(__file__).parents[1]))
from shared.book import Book
from shared.processes import environment
from shared.session import say

HERE = Path(__file__).parent


@asynccontextmanager
async def session(folder: Path, configuration: Path) -> AsyncIterator[Client]:
    """Connect as a client does that starts the gateway in the place of the mail server."""
    place = ("--journal", f"sqlite:///{folder}/journal.db", "--config", str(configuration))
    gateway = StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil.server", "gateway", *place],
        env={**environment(folder), "BOOK": str(folder / "book"), "DIE_ONCE": "1"},
    )
    async with Client(gateway, read_timeout_seconds=30) as client:
        yield client


def told(result: CallToolResult) -> dict:
    """Give what the gateway says of a result."""
    return (result.meta or {})["counterfoil/gateway"]


async def main(folder: Path) -> None:
    configuration = folder / "counterfoil.toml"
    words = (HERE / "counterfoil.toml").read_text()
    command = json.dumps([sys.executable, str(HERE / "mail_server.py")])
    configuration.write_text(words.replace('["python3", "mail_server.py"]', command))
    book = Book(folder / "book")

    async with session(folder, configuration) as client:
        mail = {"to": "alice@example.org", "invoice": 42, "body": "Dear Alice, please find enclosed …"}
        result = await client.call_tool("send_mail", mail)
        assert result.is_error
        say(f"first session: the mail server died; {told(result)['next']}: {told(result)['reason']}")
    assert len(book.entries()) == 1

    async with session(folder, configuration) as client:
        again = {"to": "alice@example.org", "invoice": 42, "body": "Good day Alice, here is your invoice."}
        result = await client.call_tool("send_mail", again)
        assert told(result)["replayed"], "the mail was sent a second time"
        say(f"second session, in other words: {told(result)['state']}, found by the gateway")

        other = {"to": "bob@example.org", "invoice": 42, "body": "Dear Bob, …"}
        result = await client.call_tool("send_mail", other)
        assert result.structured_content == {"message_id": "m-2"}
        result = await client.call_tool("send_mail", other)
        assert told(result)["replayed"], "the mail was sent a second time"
        assert result.structured_content == {"message_id": "m-2"}
        say("the same call to Bob twice: the second was answered from the journal")

    sent = [entry["to"] for entry in book.entries()]
    assert sent == ["alice@example.org", "bob@example.org"], f"{len(sent)} mails, not 2"
    say("2 people, 2 mails, and an agent that knew of no journal")


with tempfile.TemporaryDirectory() as name:
    asyncio.run(main(Path(name)))
