"""Kills the first session after both effects, lets a second one finish, and counts in the outside systems."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from outside import Processor, Spool

HERE = Path(__file__).parent
BOUND_SECONDS = 60


def environment(folder: Path) -> dict[str, str]:
    """Give the environment without the settings and the conversation of whoever runs this."""
    own = ("COUNTERFOIL_", "CLAUDE_CODE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "XDG_CONFIG_HOME": str(folder)}


def agent(part: str, folder: Path, processor: Processor) -> subprocess.Popen:
    """Start a session, which ends at the latest when its time is over."""
    process = subprocess.Popen(
        [
            sys.executable,
            str(HERE / "agent.py"),
            part,
            str(folder / "journal.db"),
            str(folder / "spool"),
            processor.url,
        ],
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(BOUND_SECONDS, process.kill)
    watchdog.daemon = True
    watchdog.start()
    return process


def main(folder: Path) -> None:
    ledger, spool = folder / "ledger", Spool(folder / "spool")

    processor = Processor(ledger)
    first = agent("first", folder, processor)
    said = first.stdout.readline().strip()
    assert said == "both effects took place", f"the first session said {said!r}"
    first.kill()
    assert first.wait(BOUND_SECONDS) == -signal.SIGKILL
    processor.close()
    assert (len(spool.messages()), len(processor.charges())) == (1, 1)
    print("first session: mailed and charged, then killed before any receipt")

    restarted = Processor(ledger)
    out, _ = agent("second", folder, restarted).communicate()
    restarted.close()
    print(*(f"second session: {line}" for line in out.splitlines()), sep="\n")
    for expected in (
        "mail:alice:invoice-42: reconcile (in_doubt)",
        "charge:alice:invoice-42: begun again, perform (repeat_keyed)",
        "mail:alice:invoice-42: ended succeeded",
        "charge:alice:invoice-42: ended succeeded",
    ):
        assert expected in out.splitlines(), f"the second session did not say: {expected}"
    assert restarted.requests == 1, "the charge was to be repeated once, under the same key"
    assert len(spool.messages()) == 1, f"{len(spool.messages())} mails, not 1"
    assert len(restarted.charges()) == 1, f"{len(restarted.charges())} charges, not 1"
    print("1 mail, 1 charge")


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
