"""Opens the journal that the settings name, under their policy and this machine's clock."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterfoil.server.journals import JournalOpener
    from counterfoil.server.settings import Settings
    from counterfoil.store.domain.states import Policy
    from counterfoil.store.journal import Journal
    from counterfoil.store.probing import Prober

__all__ = ["journal_opener", "open_directly_from", "open_from", "policy_of", "prober_of"]

_SECRET_BYTES = 32
"""The key of an HMAC-SHA-256 is as long as its digest."""


def journal_opener(settings: "Settings") -> "JournalOpener":
    """Give what opens the journal of `settings` anew each time it is called."""

    def opener() -> "AbstractAsyncContextManager[Journal]":
        return open_from(settings)

    return opener


@asynccontextmanager
async def open_from(
    settings: "Settings", *, is_made: bool = True, key_of: "Journal | None" = None
) -> "AsyncIterator[Journal]":
    """Open the journal of `settings`; closed when the block ends.

    Where there is none it is made, unless it would be one in PostgreSQL and `is_made` is off; with `key_of`,
    under the key of that journal.

    Raises:
        Forbidden: one is there, under another key than `key_of`.
        JournalUnavailable, UnsupportedVersion: it cannot be used, with the reason.
    """
    # Loaded here so that a server answers its first message before it loads a database.
    from counterfoil.server.clock import read_clock
    from counterfoil.store.opening import Fresh, open_journal

    fresh = Fresh(journal_id=f"jr_{os.urandom(12).hex()}", secret=os.urandom(_SECRET_BYTES).hex())
    async with open_journal(
        settings.place,
        is_made=is_made,
        key_of=key_of,
        fresh=fresh,
        namespace=settings.namespace,
        policy=policy_of(settings),
        clock=read_clock,
        limits=settings.limits,
        redact_names=settings.redact_names,
        redact_patterns=settings.redact_patterns,
        prober=prober_of(settings),
    ) as journal:
        yield journal


@contextmanager
def open_directly_from(settings: "Settings") -> "Iterator[Journal]":
    """Open the journal in the file of `settings` without an event loop; closed when the block ends.

    Raises:
        JournalUnavailable, UnsupportedVersion: it cannot be used, with the reason.
    """
    from counterfoil.server.clock import read_clock
    from counterfoil.store.opening import Fresh, open_journal_directly

    if settings.journal_path is None:
        raise LookupError("only a journal in a file can be opened directly")
    fresh = Fresh(journal_id=f"jr_{os.urandom(12).hex()}", secret=os.urandom(_SECRET_BYTES).hex())
    with open_journal_directly(
        settings.journal_path,
        fresh=fresh,
        namespace=settings.namespace,
        policy=policy_of(settings),
        clock=read_clock,
        limits=settings.limits,
        redact_names=settings.redact_names,
        redact_patterns=settings.redact_patterns,
    ) as journal:
        yield journal


def prober_of(settings: "Settings") -> "Prober | None":
    """Give what looks with the probes of `settings`; None where there are none."""
    if not settings.probes:
        return None
    from counterfoil.server.probes.prober import ConfiguredProber

    return ConfiguredProber(settings.probes)


def policy_of(settings: "Settings") -> "Policy":
    """Give the store's policy as `settings` say it.

    An assurance rule counts for its action whatever the target: stricter than written, never weaker.
    """
    from counterfoil.store.domain.model import Assurance
    from counterfoil.store.domain.states import Policy

    return Policy(
        lease_seconds=settings.lease_seconds,
        longest_lease_seconds=settings.longest_lease_seconds,
        settle_seconds=settings.settle_seconds,
        least_settle_seconds=settings.least_settle_seconds,
        assurance=tuple((rule.action, Assurance[rule.require.upper()]) for rule in settings.assurance),
        duplicates=tuple((rule.action, rule.compare) for rule in settings.duplicates),
        drift=settings.drift,
        authority=tuple((rule.action, rule.target) for rule in settings.authority),
        grants=settings.grants,
    )
