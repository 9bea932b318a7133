"""Draws bearer tokens, and gives the digest by which the journal knows one."""

import hashlib
import re
import secrets

__all__ = ["is_bearer_token", "new_bearer_token", "token_digest"]

_BEGINNING = "cft_"
_BYTES = 32
_FORM = re.compile(rf"{_BEGINNING}[A-Za-z0-9_-]{{43}}")


def new_bearer_token() -> str:
    """Give 256 random bits, under a beginning by which a scanner for secrets knows them."""
    return f"{_BEGINNING}{secrets.token_urlsafe(_BYTES)}"


def is_bearer_token(text: str) -> bool:
    """Tell whether `text` has the form of one, so that nothing else is looked up."""
    return _FORM.fullmatch(text) is not None


def token_digest(token: str) -> str:
    """Give what is kept of a token, and by which it is found: no two have one, and none leads back.

    Looking it up compares no secret byte by byte: whoever guesses chooses a digest, not its beginning.
    """
    return hashlib.sha256(token.encode()).hexdigest()
