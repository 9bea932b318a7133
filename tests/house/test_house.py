"""The house keeps its shape: floors, purity, one namespace package, and lean serving."""

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOORS = {"server": "server", "tools": "tools", "store": "store"}


def test_no_floor_makes_counterfoil_a_regular_package():
    assert [path for floor in FLOORS for path in (ROOT / floor / "counterfoil").glob("__init__.py")] == []


@pytest.mark.parametrize("floor", FLOORS)
def test_each_source_root_holds_its_own_floor_and_nothing_else(floor):
    held = {path.name for path in (ROOT / floor / "counterfoil").iterdir() if path.name != "__pycache__"}
    assert held == {floor}


def test_imports_never_point_back_and_the_domain_is_pure():
    checked = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "3 kept, 0 broken" in checked.stdout


def test_no_room_leads_back_to_itself_by_its_imports():
    house = grimp.build_graph("counterfoil", cache_dir=None)
    TopologicalSorter(
        {room: house.find_modules_directly_imported_by(room) for room in house.modules}
    ).prepare()


def test_serving_loads_neither_tables_nor_colours_nor_any_command_of_people():
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, counterfoil.server.main, counterfoil.server.app, counterfoil.server.lifecycle, "
            "counterfoil.server.stdio, counterfoil.server.opener, counterfoil.store.opening\n"
            "print([name for name in ('rich', 'counterfoil.server.people') if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert loaded.stdout.strip() == "[]"


def test_the_hook_for_failpoints_is_off_unless_it_is_installed():
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            "import counterfoil.store.failpoints as f; f.failpoint('before_commit'); print('went on')",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert shown.stdout.strip() == "went on"
