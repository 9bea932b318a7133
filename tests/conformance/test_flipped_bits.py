"""One byte of the file is changed, anywhere: nothing that was begun is granted again or told as unknown.

SQLite has no checksums, so a byte that changes within a text or a number is no error to it. Longer, with many
more bytes: `COUNTERFOIL_LONG=1 uv run pytest tests/conformance/test_flipped_bits.py`; a failure prints its
seed, and `COUNTERFOIL_SEED` repeats it.
"""

import os
import random
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.errors import JournalUnavailable, UnsupportedVersion
from counterfoil.store.statements import StatementRefused
from crash.sessions import LONG
from journals import ANOTHER, FakeClock, folder_in_memory, open_desk

pytestmark = pytest.mark.anyio

SEED = int(os.environ.get("COUNTERFOIL_SEED", secrets.randbits(32) if LONG else 1))
FLIPS = 5_000 if LONG else 150
EFFECT: dict[str, Any] = {"payload": "p" * 300, "args": {"text": "x" * 500}, "distinct_from": ("*",)}


async def _fill(folder: Path) -> None:
    async with open_desk(folder) as desk:
        for number in range(8):
            await desk.at(f"doubt-{number}").begin(**EFFECT)
            done = desk.at(f"done-{number}")
            await done.begin(**EFFECT)
            await done.receipt(external_id=f"m-{number}")


async def _answers(folder: Path, key: str) -> list[dict[str, Any] | Exception]:
    """Ask all that an agent would ask of one operation; a fault is an answer too."""
    clock = FakeClock()
    clock.advance(301)
    answers: list[dict[str, Any] | Exception] = []
    try:
        async with open_desk(folder, clock=clock) as desk:
            calls: list[Callable[[], Awaitable[dict[str, Any]]]] = [
                desk.plan,
                lambda: desk.at(key).begin(caller=ANOTHER, **EFFECT),
                desk.plan,
            ]
            for call in calls:
                try:
                    answers.append(await call())
                except Exception as fault:
                    answers.append(fault)
    except (JournalUnavailable, UnsupportedVersion) as fault:
        answers.append(fault)
    return answers


async def test_whatever_byte_changes_nothing_that_was_begun_is_granted_again() -> None:
    chance = random.Random(SEED)
    with folder_in_memory() as folder:
        await _fill(folder)
        whole = (folder / "journal.db").read_bytes()
    faults = refused = 0
    used = [at for at in range(len(whole)) if whole[at] or at < 100]
    for number in range(FLIPS):
        at = chance.choice(used)
        flipped = bytearray(whole)
        flipped[at] ^= 1 << chance.randrange(8)
        key = f"{chance.choice(('doubt', 'done'))}-{chance.randrange(8)}"
        with folder_in_memory() as folder:
            (folder / "journal.db").write_bytes(flipped)
            answers = await _answers(folder, key)
        why = f"seed {SEED}, flip {number}: byte {at} of {key}: {answers}"
        for answer in answers:
            if isinstance(answer, StatementRefused):
                # A CHECK that changed refuses a write; the server answers that it failed, and grants nothing.
                refused += 1
            elif isinstance(answer, Exception):
                faults += 1
                assert isinstance(answer, JournalUnavailable | UnsupportedVersion), why
                assert answer.recorded is False, why
                assert answer.fix, why
            else:
                assert answer["next"] not in ("perform", "begin"), why
                assert answer["reason"] != "no_history", why
    print(f"{FLIPS} flips, {faults} faults, {refused} refused, seed {SEED}")
    assert faults > 0
    assert refused <= FLIPS // 100


async def test_a_form_that_sqlite_does_not_know_is_a_fault_with_a_mend() -> None:
    with folder_in_memory() as folder:
        await _fill(folder)
        file = folder / "journal.db"
        content = bytearray(file.read_bytes())
        content[44:48] = (9).to_bytes(4, "big")  # sqlite.org/fileformat.html: the schema format is 1 to 4
        file.write_bytes(content)
        with pytest.raises(JournalUnavailable, match="cannot be opened"):
            async with open_desk(folder):
                pass
