"""The scripts in `bench/`: one of them has the name of a module of the standard library."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_a_script_beside_http_is_given_the_http_of_the_standard_library() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import http.client; print(http.HTTPStatus.CREATED)"
    told = subprocess.run(
        [sys.executable, "-c", code, str(BENCH)], capture_output=True, text=True, check=False
    )
    assert (told.stdout, told.stderr) == ("201\n", "")


def test_the_load_script_says_what_it_takes() -> None:
    told = subprocess.run(
        [sys.executable, str(BENCH / "http.py"), "--help"], capture_output=True, text=True, check=False
    )
    assert "--workers" in told.stdout
    assert "callers against workers" in told.stdout
    assert told.stderr == ""
