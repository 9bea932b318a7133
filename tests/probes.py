"""Probes under test: read from the configuration as an operator writes it, looking for one operation."""

from pathlib import Path
from typing import Any

from counterfoil.server.probes.prober import ConfiguredProber
from counterfoil.server.settings import load_settings
from counterfoil.store.probing import ProbeFinding, ProbeSubject

__all__ = ["OPERATION", "configured", "look", "subject"]

OPERATION = "op_abcdefghijklmnopqrst"


def configured(tmp_path: Path, text: str) -> ConfiguredProber:
    """Read a configuration and give its prober."""
    file = tmp_path / "counterfoil.toml"
    file.write_text(text, encoding="utf-8")
    settings = load_settings(environment={"HOME": str(tmp_path), "COUNTERFOIL_CONFIG": str(file)})
    return ConfiguredProber(settings.probes)


def subject(**given: Any) -> ProbeSubject:
    """Give an operation of the action `file.write` that names the probe `it`."""
    known = {"operation": OPERATION, "run": "run-1", "key": "key-1", "action": "file.write", "probe": "it"}
    return ProbeSubject(**{**known, **given})


async def look(tmp_path: Path, table: str, **given: Any) -> ProbeFinding:
    """Look with the probe `it`, whose table holds `table`."""
    return await configured(tmp_path, f"[probes.it]\n{table}\n").look(subject(**given))
