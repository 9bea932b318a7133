"""A server that writes its answers by hand: to the first call of a tool what a file holds, then good ones.

`ID` in the file stands for the id of the call.
"""

import json
import sys
from pathlib import Path
from typing import Any

answer: str | None = Path(sys.argv[1]).read_text()
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("send_mail", "get_mail")]
results: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "raw", "version": "1"},
    },
    "tools/list": {"tools": tools},
    "tools/call": {"content": [{"type": "text", "text": "sent"}]},
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "tools/call" and answer is not None:
        said, answer = answer.replace("ID", str(message["id"])), None
    else:
        said = json.dumps(
            {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}
        )
    print(said, flush=True)
