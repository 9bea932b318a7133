"""Serves the tools over stdio on a journal that answers by rote; an argument makes it one that fails.

`broken` never opens, `exploding` raises what nobody foresaw, `stuck` never closes and leaves a thread behind.
"""

import sys
import threading
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

    @asynccontextmanager
    async def stuck() -> AsyncIterator[FakeJournal]:
        yield FakeJournal()
        threading.Thread(target=threading.Event().wait).start()
        threading.Event().wait()

    openers = {
        "broken": broken,
        "exploding": opener_of(FakeJournal(RuntimeError("hunter2-exception"))),
        "stuck": stuck,
    }
    opener = openers[sys.argv[1]] if sys.argv[1:] else opener_of(FakeJournal())
    sys.exit(serve(load_settings(), opener, ending=ending, version="0"))
