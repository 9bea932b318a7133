"""How large what a caller sends may be."""

from typing import Any

from msgspec import Struct

__all__ = ["Limits", "bytes_of_body"]


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of CONTRACT.md, section 8. Bodies are counted as `bytes_of_body` does."""

    args_bytes: int = 64 * 1024
    evidence_bytes: int = 64 * 1024
    checkpoint_bytes: int = 64 * 1024
    payload_bytes: int = 256 * 1024
    result_bytes: int = 256 * 1024
    text_characters: int = 4000

    def of_body(self, field: str) -> int:
        """Give the limit of the body called `field`; whatever is not named here counts as args do."""
        return {
            "evidence": self.evidence_bytes,
            "checkpoint": self.checkpoint_bytes,
            "payload": self.payload_bytes,
            "result": self.result_bytes,
        }.get(field, self.args_bytes)


def bytes_of_body(value: Any, written: str) -> int:
    """Count a body: a text by its own bytes in UTF-8, anything else by those of `written`, its compact JSON.

    A letter of just the limit is within it, however many of its line breaks and quotes JSON escapes.
    """
    return len((value if isinstance(value, str) else written).encode())
