"""A session in a process of its own, which can be killed at a failpoint of the journal.

Run as `python child.py JOURNAL PROVIDER AHEAD_SECONDS FAILPOINTS`. It opens the journal, says `ready`, and
then takes one JSON line after the other: `{"do": "begin_operation", …}` and so on for the journal's commands,
`{"do": "perform", "mark": …}` for the outside effect (a line in the append-only file PROVIDER). It answers
each with one JSON line. `AHEAD_SECONDS` is how much later than now its clocks say it is; both clocks agree,
so for the journal that time has simply passed.
"""

import json
import os
import secrets
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import anyio

from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    CheckOperation,
    Lookup,
    OperationRef,
    ReceiptGiven,
    ReconcileOperation,
    RecordFailure,
    RecordReceipt,
    ResumePlan,
)
from counterfoil.store.domain.instants import Reading
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Fault
from counterfoil.store.failpoints import install_from
from counterfoil.store.journal import Journal
from counterfoil.store.opening import Fresh, open_journal

REF_FIELDS = ("operation", "run", "key")


def perform(provider: Path, mark: str) -> None:
    """Have the outside effect: one more line."""
    descriptor = os.open(provider, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{mark}\n".encode())
    finally:
        os.close(descriptor)


async def carry_out(journal: Journal, given: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Turn one line into the journal's command, and give its answer."""
    do = given.pop("do")
    if do == "begin_operation":
        if "lookup" in given:
            given["lookup"] = Lookup(**given["lookup"])
        return await journal.begin_operation(BeginOperation(**given), caller)
    if do == "resume_plan":
        return await journal.resume_plan(ResumePlan(**given), caller)
    if do == "verify":
        found = await journal.reader.verify()
        return {"operations": found.operations, "faults": list(found.faults)}
    ref = OperationRef(**{name: given.pop(name) for name in REF_FIELDS if name in given})
    names = {field.name for field in fields(ReceiptGiven)}
    if do == "record_receipt":
        return await journal.record_receipt(RecordReceipt(ref=ref, receipt=ReceiptGiven(**given)), caller)
    if do == "record_failure":
        return await journal.record_failure(RecordFailure(ref=ref, **given), caller)
    if do == "reconcile_operation":
        receipt = ReceiptGiven(**{name: given.pop(name) for name in names if name in given})
        return await journal.reconcile_operation(
            ReconcileOperation(ref=ref, receipt=receipt, **given), caller
        )
    if do == "check_operation":
        return await journal.check_operation(CheckOperation(ref=ref, **given), caller)
    raise LookupError(do)


async def session(path: Path, provider: Path, ahead_seconds: float) -> None:
    """Serve lines until stdin ends."""
    ahead = round(ahead_seconds * 1_000_000)

    def clock() -> Reading:
        return Reading(
            at=time.time_ns() // 1_000 + ahead,
            monotonic=time.monotonic_ns() // 1_000 + ahead,
            boot="this-boot",
        )

    caller = Caller(connection=f"child-{os.getpid()}", conversation=f"child-{os.getpid()}")
    fresh = Fresh(journal_id="crash", secret=secrets.token_hex(32))
    async with open_journal(
        path, fresh=fresh, namespace="default", policy=Policy(), clock=clock, busy_timeout_seconds=30
    ) as journal:
        print("ready", flush=True)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            given = json.loads(line)
            try:
                if given["do"] == "perform":
                    perform(provider, given["mark"])
                    answer: dict[str, Any] = {}
                else:
                    answer = await carry_out(journal, given, caller)
            except Fault as fault:
                answer = {"fault": fault.as_dict()}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    install_from(sys.argv[4])
    anyio.run(session, Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
