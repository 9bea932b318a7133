"""Kills the first session after both effects, lets a second one finish, and counts in the outside systems."""

import sys
import tempfile
from pathlib import Path

from outside import Processor, Spool

sys.path.append(str(Path(__file__).parents[1]))
from shared.processes import kill, read_until, start, told

AGENT = Path(__file__).parent / "agent.py"


def main(folder: Path) -> None:
    ledger, spool = folder / "ledger", Spool(folder / "spool")

    processor = Processor(ledger)
    first = start(AGENT, "first", processor.url, folder=folder)
    read_until(first, "both effects took place")
    kill(first)
    processor.close()
    assert (len(spool.messages()), len(processor.charges())) == (1, 1)
    print("first session: mailed and charged, then killed before any receipt")

    restarted = Processor(ledger)
    out = told(start(AGENT, "second", restarted.url, folder=folder))
    restarted.close()
    print(*(f"second session: {line}" for line in out), sep="\n")
    for expected in (
        "mail:alice:invoice-42: reconcile: in_doubt",
        "charge:alice:invoice-42: begun, perform: repeat_keyed",
        "mail:alice:invoice-42: ended succeeded",
        "charge:alice:invoice-42: ended succeeded",
    ):
        assert expected in out, f"the second session did not say: {expected}"
    assert restarted.requests == 1, "the charge was to be repeated once, under the same key"
    assert len(spool.messages()) == 1, f"{len(spool.messages())} mails, not 1"
    assert len(restarted.charges()) == 1, f"{len(restarted.charges())} charges, not 1"
    print("1 mail, 1 charge")


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
