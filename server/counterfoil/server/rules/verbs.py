"""The words that names of tools and actions are made of: which act, and which read.

One list for the gateway and the hooks; each decides for itself what it makes of a name.
"""

from collections.abc import Sequence

from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["ACTING", "JOINING", "OUTWARD", "READING", "is_checking_out", "leading_words", "name_words"]


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


OUTWARD = _words(
    "send post publish deploy release merge pay charge refund transfer invite reply forward comment",
    "tweet submit",
    "purchase order book checkout announce broadcast notify schedule trigger dispatch",
)
"""What a tool does to the world outside when its name begins or ends with one of these."""

ACTING = OUTWARD | _words(
    "accept ack acknowledge acquire activate add allocate append apply approve archive assign attach",
    "authorize ban bid borrow buy cancel capture claim clear clone close commit complete confirm consume",
    "convert create credit deactivate debit decline decrement delete deliver deny deposit destroy detach",
    "disable dismiss do donate drop enable enqueue enroll execute expire finalize fire flush fulfill",
    "generate give grant import increment init insert install invoke join kick kill launch leave lock",
    "make mark migrate modify move mute open patch pause perform pin pop promote provision pull purge",
    "push put rebook reboot redeem refresh register reject remove rename renew replace reschedule reserve",
    "reset resolve restart restore resume revert revoke rollback rotate run save sell set ship sign spawn",
    "spend start stop subscribe suspend swap sync take terminate toggle trade transition unassign unblock",
    "uninstall unlock unpin unsubscribe update upgrade upload upsert wire withdraw write",
)
"""What changes something: one of these anywhere in a name, and it may act. Words that in names are mostly
things (issue, message, record, request) are left out: behind a reading verb they are what is read."""

READING = _words(
    "get list read search find describe show count lookup view browse fetch check status help inspect"
)
"""What a name begins with that only reads, where nothing else in it acts."""

JOINING = frozenset(("and", "or", "then"))
"""Behind one of these a name says what else the tool does."""

_NO_LOOKING = frozenset(("out", "in", "off"))
"""What makes another verb of a reading one: to check out, in or off is no look."""

_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def name_words(name: str) -> tuple[str, ...]:
    """Split a name into its words: `sendEmail`, `send-email` and `send_email` are two."""
    return tuple(word.lower() for word in _WORD.findall(name))


def leading_words(words: Sequence[str]) -> list[str]:
    """Give the word that each part of a name begins with: `find_and_refund` has two."""
    return [word for at, word in enumerate(words) if at == 0 or words[at - 1] in JOINING]


def is_checking_out(words: Sequence[str]) -> bool:
    """Tell whether a name that begins with "check" means no look."""
    return len(words) > 1 and words[0] == "check" and words[1] in _NO_LOOKING
