"""The wheel holds the package and nothing else, and does its work from a clean environment."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = shutil.which("uv")

pytestmark = pytest.mark.skipif(
    UV is None and not os.environ.get("CI"), reason="uv builds the wheel, and there is none here"
)


def _run(
    *command: str, cwd: Path, timeout: int = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    passed_on = {
        name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_"))
    }
    return subprocess.run(
        command,
        cwd=cwd,
        env={**clean, **passed_on, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built = _run("uv", "build", "--wheel", "--out-dir", str(folder), str(ROOT), cwd=folder)
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


def _environment(folder: Path, *what: str) -> Path:
    """Give the `bin` folder of a fresh environment in which `what` was installed."""
    made = _run("uv", "venv", "--python", sys.executable, str(folder / "venv"), cwd=folder)
    assert made.returncode == 0, made.stderr
    put = _run("uv", "pip", "install", "--python", str(folder / "venv/bin/python"), *what, cwd=folder)
    assert put.returncode == 0, put.stderr
    return folder / "venv" / "bin"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the `bin` folder of a fresh environment that holds the wheel and what it depends on."""
    return _environment(tmp_path_factory.mktemp("clean"), str(wheel))


def test_the_wheel_holds_only_the_package_and_its_metadata(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    outside = [name for name in names if not name.startswith(("counterfoil/", "counterfoil-"))]
    assert outside == []
    assert "counterfoil/__init__.py" not in names
    for needed in (
        "counterfoil/server/main.py",
        "counterfoil/tools/begin_operation.py",
        "counterfoil/store/sql/queries.sql",
        "counterfoil/store/sql/sqlite/0001_journal.sql",
        "counterfoil/store/py.typed",
        "counterfoil/tools/py.typed",
        "counterfoil/server/py.typed",
    ):
        assert needed in names
    assert [name for name in names if name.endswith(".pyc") or "/tests/" in name] == []


def test_the_installed_command_runs_beside_folders_of_the_same_names(installed: Path, tmp_path: Path):
    for name in ("tools", "server", "store", "counterfoil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    shown = _run(str(installed / "counterfoil"), "--help", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "begin" in shown.stdout or "journal" in shown.stdout


def test_the_demo_of_the_installed_wheel_performs_each_effect_once(installed: Path, tmp_path: Path):
    told = _run(str(installed / "counterfoil"), "demo", cwd=tmp_path, timeout=120)
    assert told.returncode == 0, told.stdout + told.stderr


LOAD_ALL = """
import importlib, pkgutil, counterfoil
names = [found.name for found in pkgutil.walk_packages(counterfoil.__path__, "counterfoil.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


def test_the_oldest_dependencies_that_are_allowed_load_every_module_and_run_the_demo(
    wheel: Path, tmp_path: Path
):
    oldest = tmp_path / "oldest.txt"
    resolved = _run(
        *("uv", "pip", "compile", "-q", "--python", sys.executable, "--resolution", "lowest-direct"),
        *("--extra", "postgres", "--extra", "otel", "-o", str(oldest), str(ROOT / "pyproject.toml")),
        cwd=tmp_path,
    )
    assert resolved.returncode == 0, resolved.stderr
    bin_folder = _environment(tmp_path, "-r", str(oldest), str(wheel))
    loaded = _run(str(bin_folder / "python"), "-c", LOAD_ALL, cwd=tmp_path)
    assert loaded.returncode == 0, loaded.stderr
    assert int(loaded.stdout) > 200
    told = _run(str(bin_folder / "counterfoil"), "demo", cwd=tmp_path, timeout=120)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("example", ["crash_before_receipt", "regenerated_text"])
def test_each_example_holds_against_the_installed_wheel(installed: Path, tmp_path: Path, example: str):
    script = ROOT / "examples" / example / "run.py"
    told = _run(str(installed / "python"), str(script), cwd=tmp_path, timeout=120)
    assert told.returncode == 0, told.stdout + told.stderr
