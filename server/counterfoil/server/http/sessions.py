"""Names the connections of the handshake era without keeping any: all that a session is stands in its id.

A client of that era sends the id that it was given at `initialize` with every request, to whichever worker.
So it tells one connection from another, which is what a holder is known by where no conversation is named
(CONTRACT.md, section 1), and brings the client's name along, which only `initialize` says. It opens nothing:
whoever sends another's id is still the principal of their own token. Nor does an id count on its own: on the
wire it carries a seal (`session_seals.py`), and is read here only behind that.
"""

import base64
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from mcp_types import ClientCapabilities
from msgspec import Struct
from pydantic import ValidationError

from counterfoil.server.asking import shows_forms

__all__ = ["SESSION_HEADER", "HttpSession", "new_session_id", "session_of"]

SESSION_HEADER = "mcp-session-id"

_FORM = re.compile(r"cf1\.(?P<name>[A-Za-z0-9_-]{22})\.(?P<client>[A-Za-z0-9_-]{0,1200})")
_LONGEST_NAME = 200


class HttpSession(Struct, frozen=True, kw_only=True):
    """One connection of the handshake era: its name, what its client calls itself, whether it shows forms."""

    name: str
    client: str | None = None
    client_version: str | None = None
    shows_forms: bool = False


def new_session_id(hello: Mapping[str, Any]) -> str:
    """Give an id for whoever sends `initialize` with these parameters."""
    info = hello.get("clientInfo")
    info = info if isinstance(info, Mapping) else {}
    texts = [info.get("name"), info.get("version")]
    told: list[Any] = [
        text if isinstance(text, str) and len(text) <= _LONGEST_NAME else None for text in texts
    ]
    if _shows_forms(hello.get("capabilities")):
        told.append(True)
    client = base64.urlsafe_b64encode(json.dumps(told, ensure_ascii=False).encode()).rstrip(b"=").decode()
    name = secrets.token_urlsafe(16)
    session_id = f"cf1.{name}.{client}"
    return session_id if _FORM.fullmatch(session_id) else f"cf1.{name}."


def session_of(session_id: str | None) -> HttpSession | None:
    """Read an id that `new_session_id` gave; None for anything else, which names no connection."""
    match = _FORM.fullmatch(session_id or "")
    if match is None:
        return None
    told: Any = None
    if text := match["client"]:
        try:
            told = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (ValueError, RecursionError):
            return None
    client, client_version = (
        (text if isinstance(text, str) and text.isprintable() else None)
        for text in (told[:2] if isinstance(told, list) and len(told) in (2, 3) else (None, None))
    )
    return HttpSession(
        name=match["name"],
        client=client,
        client_version=client_version,
        shows_forms=isinstance(told, list) and told[2:] == [True],
    )


def _shows_forms(capabilities: Any) -> bool:
    try:
        return shows_forms(ClientCapabilities.model_validate(capabilities, by_name=False))
    except ValidationError:
        return False
