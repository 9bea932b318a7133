"""Kills the first session amid twelve mails, lets one that remembers nothing finish, and counts the mails."""

import sys
import tempfile
from pathlib import Path

from outside import MailServer

sys.path.append(str(Path(__file__).parents[1]))
from shared.processes import kill, read_until, start, told

AGENT = Path(__file__).parent / "agent.py"


def main(folder: Path) -> None:
    mail = MailServer(folder)

    first = start(AGENT, "first", folder=folder)
    read_until(first, "five on record, a sixth just sent")
    kill(first)
    assert len(mail.sent()) == 6
    print("first session: twelve planned, six sent, then killed before the receipt of the sixth")

    out = told(start(AGENT, "second", folder=folder))
    print(*(f"second session: {line}" for line in out), sep="\n")
    mails = {entry["to"]: entry["body"] for entry in mail.sent()}
    assert len(mail.sent()) == 12, f"{len(mail.sent())} mails, not 12"
    for number in range(12):
        name = f"customer-{number + 1:02}"
        planned = f"Dear {name}, from January you pay {30 + number} euros."
        assert mails[f"{name}@example.org"] == planned, "not the words that were planned"
    for expected in (
        "the run is price-rise/2027-01",
        "12 operations, 5 of them done",
        "7 open, 0 of the done among them",
        "email:customer-06:price-rise: reconcile: in_doubt",
        "finished",
    ):
        assert expected in out, f"the second session did not say: {expected}"
    print("12 customers, 12 mails, in the words of the first session")


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
