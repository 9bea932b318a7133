"""Serves the tools over stdio on a journal that answers by rote, or (`broken`) on one that never opens."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from counterfoil.server.lifecycle import Ending, serve

ending = Ending()
ending.heed_signals()

if __name__ == "__main__":
    from counterfoil.server.settings import load_settings
    from counterfoil.store.errors import JournalUnavailable
    from fake_journal import FakeJournal, opener_of

    @asynccontextmanager
    async def broken() -> AsyncIterator[FakeJournal]:
        raise JournalUnavailable("the journal is read-only", fix="make it writable")
        yield FakeJournal()

    opener = broken if "broken" in sys.argv else opener_of(FakeJournal())
    sys.exit(serve(load_settings(), opener, ending=ending, version="0"))
