"""The official conformance suite of MCP against our own HTTP serving, in both protocol eras."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.installed import NotInstalled, program
from http_servers import WAIT_SECONDS, wait_until

HERE = Path(__file__).resolve().parent
SUITE_SECONDS = 180


@pytest.fixture
def suite() -> list[str]:
    """The words that start the suite."""
    try:
        return program("conformance")
    except NotInstalled as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of the real tools with the fixtures of the suite beside them."""
    told = tmp_path / "stderr"
    with (
        told.open("wb") as stderr,
        subprocess.Popen(
            [
                sys.executable,
                HERE / "conformance_server.py",
                "127.0.0.1:0",
                f"sqlite:///{tmp_path}/journal.db",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        ) as server,
    ):
        try:
            wait_until(lambda: server.poll() is not None or b"/mcp\n" in told.read_bytes())
            found = re.search(r"http://\S+/mcp", told.read_text(encoding="utf-8"))
            assert found is not None, told.read_text(encoding="utf-8")
            yield found[0]
        finally:
            server.kill()
            server.wait(WAIT_SECONDS)


@pytest.mark.parametrize(("version", "least"), [("2025-11-25", 31), ("2026-07-28", 39)])
def test_the_suite_passes_but_for_what_is_named_with_its_reason(
    suite: list[str], url: str, tmp_path: Path, version: str, least: int
) -> None:
    expected = HERE / f"conformance_expected_{version}.yml"
    words = ["server", "--url", url, "--suite", "all", "--spec-version", version]
    done = subprocess.run(
        [*suite, *words, "--expected-failures", expected],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
    )
    # It also fails where something that is expected to fail passes.
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    passed = re.findall(r"^✓ (\S+):", done.stdout, re.MULTILINE)
    assert len(passed) >= least, done.stdout[-6_000:]
