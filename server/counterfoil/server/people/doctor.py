"""`doctor`: what is used and why, where each setting came from, and what is wrong."""

import os
import platform
import sqlite3
import sys
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import anyio
from rich.text import Text

from counterfoil.server.configuration import DURATIONS
from counterfoil.server.people import rendering as show
from counterfoil.server.people.health import Examination, examination_lines, examine
from counterfoil.server.people.output import write, write_json
from counterfoil.server.people.person import SECRET_FILE_VARIABLE
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command
from counterfoil.server.settings import Settings
from counterfoil.server.version import version
from counterfoil.store.errors import Fault, JournalUnavailable, UnsupportedVersion

__all__ = ["doctor", "origins"]

_SECTIONS = ("authority", "grants", "assurance", "duplicates", "drift", "probes", "redact", "operator")

_PREFIX = "COUNTERFOIL_"
_FLAGS = ("config", "journal", "namespace", "log", "tools")
_VARIABLES = ("COUNTERFOIL_CONVERSATION", "COUNTERFOIL_RUN", "COUNTERFOIL_KEY", SECRET_FILE_VARIABLE)
"""Variables that are read and are no settings."""

_MAKING_A_SECRET = (
    "none is configured: a person answers at a terminal. To make one, whoever keeps it runs\n"
    "  umask 077; openssl rand -hex 32 > operator.secret\n"
    "  tr -d '\\n' < operator.secret | sha256sum | cut -c 1-64\n"
    "The second prints what stands in counterfoil.toml, below a line [operator], as\n"
    '  secret_sha256 = "…"\n'
    f"Commands are told of the secret by {SECRET_FILE_VARIABLE}=operator.secret"
)


@teaching_command(
    short="what is used and why, and what is wrong",
    examples=["counterfoil doctor", "counterfoil doctor --json --journal /srv/journal.db"],
)
def doctor(request: Request) -> int:
    """Say what is used and why, and what is wrong.

    Version, Python, SQLite and its journal mode with the reason, the file system, the settings and where
    each of them came from, the probes and what they lack, and the checks of `counterfoil check`. Exit
    codes as there.
    """
    settings = request.settings
    found, fault = _examined(request)
    probes = _probes(settings)
    for probe in probes:
        for lack in probe["lacks"]:
            found.add(f"the probe {probe['name']}: {lack}", "put it there, or mend it in counterfoil.toml")
    for name, near in mistaken_variables(os.environ):
        found.add(f"{name} is set, and nothing reads it", f"did you mean {near}?")
    code = 3 if fault is not None else 1 if found.problems else 0
    program = {
        "version": version(),
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
    }
    operator = (
        "configured: its bearer counts as a person" if settings.operator_secret_sha256 else _MAKING_A_SECRET
    )
    if request.as_json:
        write_json(
            {
                **found.as_dict(),
                "status": "unavailable" if fault is not None else found.status,
                "fault": None if fault is None else fault.as_dict(),
                "program": program,
                "settings": origins(settings, request.flags, os.environ),
                "probes": probes,
                "operator_secret": settings.operator_secret_sha256 is not None,
            }
        )
        return code
    parts: list[Any] = [Text("Program", "bold"), show.indented(show.facts(program.items())), Text("")]
    parts += [Text("Settings", "bold"), _settings(origins(settings, request.flags, os.environ)), Text("")]
    parts += [Text("Operator's secret", "bold"), show.indented(show.lines(*operator.split("\n"))), Text("")]
    if probes:
        parts += [Text("Probes", "bold"), _probes_shown(probes), Text("")]
    if fault is not None:
        parts += [Text("Journal", "bold"), show.indented(_unavailable(settings, fault))]
    else:
        reason = {name: found.facts[name] for name in _reasons(found)}
        parts += [
            Text("Journal", "bold"),
            show.indented(examination_lines(found)),
            Text(""),
            show.indented(show.facts((name.replace("_", " "), value) for name, value in reason.items())),
        ]
    write(show.rendered(*parts))
    return code


def _examined(request: Request) -> tuple[Examination, Fault | None]:
    async def work() -> Examination:
        async with request.journal() as journal:
            return await examine(journal, request)

    try:
        return anyio.run(work), None
    except (JournalUnavailable, UnsupportedVersion) as fault:
        return Examination(), fault


def _probes(settings: Settings) -> list[dict[str, Any]]:
    """Give each configured probe with what this machine lacks for it; no service is asked."""
    return [
        {"name": probe.name, "type": probe.type, "action": probe.action, "lacks": probe.look.lacks()}
        for probe in settings.probes.values()
    ]


def _probes_shown(probes: list[dict[str, Any]]) -> Any:
    rows = [
        (
            probe["name"],
            probe["type"],
            probe["action"] or "any that names it",
            show.plain("; ".join(probe["lacks"]), "red") if probe["lacks"] else "nothing",
        )
        for probe in probes
    ]
    return show.indented(
        show.table("probe", "type", "for action", "lacks", rows=rows, narrow=["type"], indent=show.INDENT)
    )


def _unavailable(settings: Settings, fault: Fault) -> Any:
    return show.facts(
        [
            ("journal", show.plain(settings.journal_path or settings.journal)),
            ("status", Text("unavailable", "bold red")),
            ("problem", show.plain(fault.message, "red")),
            ("to do", show.plain(fault.fix)),
        ]
    )


def _reasons(found: Examination) -> list[str]:
    return [name for name in found.facts if name not in ("engine", "path", "location", "size_bytes")]


def _settings(settings: list[dict[str, Any]]) -> Any:
    rows = [
        (setting["name"], _in_words(setting["name"], setting["value"]), setting["from"])
        for setting in settings
    ]
    return show.indented(
        show.table(
            "setting", "value", "from", rows=rows, narrow=["setting"], whole=["value"], indent=show.INDENT
        )
    )


def _in_words(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {limit}" for key, limit in value.items())
    return f"{value} in the file" if name in _SECTIONS else str(value)


def origins(
    settings: Settings, flags: Mapping[str, str | None], environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Give each setting with its value and where it came from: option, variable, file or default.

    The value of a section of the file is how many entries it has; of `config`, None where there is no file.
    """
    document = _document(settings.config_path)
    defaults = document.get("defaults", {})
    file = str(settings.config_path)

    def origin(name: str, *, is_in_file: bool) -> str:
        if flags.get(name):
            return f"--{name}"
        variable = f"COUNTERFOIL_{name.upper()}"
        if environment.get(variable):
            return variable
        return file if is_in_file else "default"

    named: list[tuple[str, Any, str]] = [
        ("config", file if settings.config_path else None, origin("config", is_in_file=False)),
        ("journal", settings.journal, origin("journal", is_in_file="journal" in document)),
        ("namespace", settings.namespace, origin("namespace", is_in_file="namespace" in document)),
        ("log", settings.log_level, origin("log", is_in_file=False)),
        ("tools", settings.tools, origin("tools", is_in_file=False)),
    ]
    named += [
        (name, getattr(settings, name), origin(name, is_in_file=name in defaults)) for name in DURATIONS
    ]
    named += [(name, len(document[name]), file) for name in _SECTIONS if name in document]
    if "limits" in defaults:
        named.append(("limits", dict(defaults["limits"]), file))
    return [{"name": name, "value": value, "from": source} for name, value, source in named]


def mistaken_variables(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Give the variables that are no settings but nearly, each with the one that was probably meant."""
    settings = [name.upper() for name in (*_FLAGS, *DURATIONS)]
    mistaken = []
    for variable in sorted(environment):
        name = variable.removeprefix(_PREFIX)
        if name != variable and name not in settings and variable not in _VARIABLES:
            near = get_close_matches(name.upper(), settings, n=1, cutoff=0.9)
            mistaken += [(variable, _PREFIX + one) for one in near]
    return mistaken


def _document(path: Path | None) -> dict[str, Any]:
    return {} if path is None else tomllib.loads(path.read_text(encoding="utf-8"))
