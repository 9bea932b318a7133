"""Power may fail at any moment: what was answered is there, and the journal opens and holds.

A kill cannot show a missing sync, since the page cache outlives the process. So a session's writes and syncs
are recorded, and what a power loss may leave of them is laid out, opened with the shipped code and held to
the log. Longer, with many more images: `COUNTERFOIL_LONG=1 uv run pytest tests/power`. A failure prints its
seed; `COUNTERFOIL_SEED` repeats it. One process writes; power failing under several is not searched.
"""

import os
import secrets
from pathlib import Path
from typing import Literal

import pytest

from counterfoil.store import sqlite
from counterfoil.store.sqlite import open_sqlite
from crash.sessions import LONG
from power.images import Bounds, Found, search
from power.recording import Recording, build_recorder, record
from power.sqlite_of_mode import use_mode

pytestmark = pytest.mark.anyio

Mode = Literal["persist", "wal"]
MODES: tuple[Mode, ...] = ("persist", "wal")

BOUNDS = (
    Bounds(few=8, singles=100, sampled=40, torn=60) if LONG else Bounds(few=4, singles=1, sampled=2, torn=3)
)
SEED = int(os.environ.get("COUNTERFOIL_SEED", secrets.randbits(32) if LONG else 1))


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the compiled recorder."""
    return build_recorder(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="module")
def recordings(recorder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """Give one recorded session in each mode, as shipped."""
    return {mode: record(tmp_path_factory.mktemp(mode), recorder, mode, "FULL") for mode in MODES}


async def searched(
    recording: Recording, mode: Mode, monkeypatch: pytest.MonkeyPatch, *, stop_at: int | None = None
) -> Found:
    """Search a recording, opening its images in the mode that it was made in."""
    monkeypatch.setattr(sqlite, "open_sqlite", open_sqlite)  # Put back afterwards.
    use_mode(mode)
    found = await search(recording, BOUNDS, seed=SEED, stop_at=stop_at)
    print(f"{mode}: {found.images} images of {found.moments} moments, seed {SEED}")
    return found


@pytest.mark.parametrize("mode", MODES)
async def test_whatever_a_power_loss_leaves_opens_holds_and_has_all_that_was_answered(
    recordings: dict[str, Recording], mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-2: what was answered outlives a power cut, and not only a kill.

    Reported: langchain-ai/langgraph#8764.
    """
    found = await searched(recordings[mode], mode, monkeypatch)
    assert found.problems == [], f"seed {SEED}"
    assert found.moments > 25
    assert found.images > 100


@pytest.mark.parametrize(("mode", "synchronous"), [("persist", "OFF"), ("wal", "OFF"), ("wal", "NORMAL")])
async def test_a_journal_that_syncs_less_is_seen_to_lose_what_it_answered(
    recorder: Path, tmp_path: Path, mode: Mode, synchronous: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await searched(record(tmp_path, recorder, mode, synchronous), mode, monkeypatch)
    assert found.kinds["answered and lost"] > 0


@pytest.mark.parametrize(
    ("mode", "kind", "problem"),
    [
        ("persist", "folder", "a new journal took the place of the one that was there"),
        ("persist", "side file", "it does not open"),
        ("persist", "journal", "it does not open"),
        ("wal", "side file", "answered and lost"),
    ],
)
async def test_each_kind_of_sync_is_seen_to_be_needed(
    recordings: dict[str, Recording],
    mode: Mode,
    kind: Literal["folder", "side file", "journal"],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await searched(recordings[mode].without_syncs_of(kind), mode, monkeypatch, stop_at=40)
    assert found.kinds[problem] > 0, found.problems[:5]
