"""A mail server that knows nothing of a journal. Told to, it dies between the mail and its answer."""

import os
import signal
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

sys.path.append(str(Path(__file__).parents[1]))
from shared.book import Book

server = MCPServer("mail")
book = Book(Path(os.environ["BOOK"]))


@server.tool()
def send_mail(to: str, invoice: int, body: str) -> dict[str, str]:
    """Send a mail about an invoice."""
    message_id = f"m-{len(book.entries()) + 1}"
    book.add(message_id=message_id, to=to, invoice=invoice, body=body)
    if os.environ.get("DIE_ONCE") and len(book.entries()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"message_id": message_id}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_mail(to: str, invoice: int) -> dict[str, object]:
    """Find the mails about an invoice."""
    found = book.entries(to=to, invoice=invoice)
    return {"count": len(found), "messages": found}


server.run()
