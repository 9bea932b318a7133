"""What the journal's server is compared with: the SDK's `MCPServer` with one tool, which commits one row.

The commit is as durable as the journal's. Run by `bench/stdio.py`.
"""

import sqlite3
import sys

from mcp.server import MCPServer

from counterfoil.store.sqlite import journal_mode_for

server = MCPServer("bare")
connection = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
connection.execute(f"PRAGMA journal_mode={journal_mode_for(sqlite3.sqlite_version_info)[0]}")
connection.execute("PRAGMA synchronous=FULL")
connection.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT")


@server.tool()
async def commit(run: str, key: str, action: str, target: str, payload: str) -> dict[str, int]:
    """Commit one row."""
    cursor = connection.execute(
        "INSERT INTO rows (body) VALUES (?)", (f"{run} {key} {action} {target} {payload}",)
    )
    return {"row": cursor.lastrowid or 0}


server.run()
