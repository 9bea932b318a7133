"""The agent's own tools: they push to a git remote, send mails over HTTP, and look in both.

Nothing here knows of Counterfoil. Every effect carries a reference, by which it is found again. The
environment says where the two systems are: AGENT_CHECKOUT is a clone with a remote `origin`, AGENT_MAIL_URL
the provider of mail.
"""

import asyncio
import json
import os
import subprocess
from datetime import UTC, datetime
from urllib.parse import urlencode
from urllib.request import Request, urlopen

BOUND_SECONDS = 60
"""Bound on one request. No tool here tries again by itself: one grant is one request."""


async def push_tag(target: str, reference: str) -> str:
    """Push the present commit as the tag `target`, such as refs/tags/1.2, with a reference in its message."""
    name = target.removeprefix("refs/tags/")
    await _git("tag", "--force", "--annotate", "--message", f"Reference: {reference}", name)
    await _git("push", "--quiet", "origin", target)
    return json.dumps(await _tag(target))


async def find_tag(target: str, reference: str) -> str:
    """Look whether the tag `target` is at the remote, and give its receipt; the name alone identifies it."""
    return json.dumps({"found": await _tag(target)})


async def send_mail(target: str, subject: str, body: str, reference: str) -> str:
    """Send a mail to the address `target` under a reference, and give the provider's receipt."""
    mail = {"to": target, "subject": subject, "body": body, "reference": reference}
    sent = await asyncio.to_thread(_request, "/mails", json.dumps(mail).encode())
    return json.dumps(_receipt(sent["id"]))


async def find_mail(target: str, reference: str) -> str:
    """Look whether the provider sent a mail to `target` under this reference, and give its receipt."""
    query = urlencode({"to": target, "reference": reference})
    found = await asyncio.to_thread(_request, f"/mails?{query}")
    return json.dumps({"found": _receipt(found["id"]) if found["id"] else None})


async def wait_until(moment: str) -> str:
    """Do nothing until the moment that an answer named as retry_at."""
    left = (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()
    await asyncio.sleep(max(0.0, left))
    return json.dumps({"waited_until": moment})


TOOLS = (push_tag, find_tag, send_mail, find_mail, wait_until)


def _receipt(message_id: str) -> dict[str, str]:
    return {"kind": "message", "system": "mail", "external_id": message_id}


def _request(path: str, body: bytes | None = None) -> dict[str, str | None]:
    url = os.environ["AGENT_MAIL_URL"] + path
    with urlopen(Request(url, body), timeout=BOUND_SECONDS) as response:
        return json.load(response)


async def _tag(name: str) -> dict[str, str] | None:
    listed = await _git("ls-remote", "origin", name)
    return {"kind": "commit", "system": "git", "external_id": listed.split()[0]} if listed else None


async def _git(*words: str) -> str:
    return await asyncio.to_thread(
        subprocess.check_output,
        ["git", "-C", os.environ["AGENT_CHECKOUT"], *words],
        text=True,
        timeout=BOUND_SECONDS,
        stdin=subprocess.DEVNULL,
    )
