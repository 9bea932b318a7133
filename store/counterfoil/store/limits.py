"""How large what a caller sends may be."""

from msgspec import Struct

from counterfoil.store.domain.json_numbers import Json

__all__ = ["Limits", "body_bytes"]


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of CONTRACT.md, section 8, which `body_bytes` counts by."""

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


def body_bytes(value: Json, as_json: str) -> int:
    """Count a body: one that is a text by itself, any other as its compact JSON; in UTF-8.

    Whoever sends a mail knows how long it is, not what quotes and escapes make of it.
    """
    return len((value if isinstance(value, str) else as_json).encode())
