"""What a folder would publish, by its manifest: the name and the version of the package.

The manifests are the project's own, and whoever wrote them is trusted with nothing: what has not the form of
a name or a version counts as not written, since it goes into what a model is told.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from counterfoil.server.hooks.files import text_of
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["Package", "package_in", "package_of_archive", "workspaces_in"]

_NAME = lazy_pattern(r"(?:@[A-Za-z0-9._~-]{1,100}/)?[A-Za-z0-9._~-]{1,200}")
_PATTERN = lazy_pattern(r"(?:\./)?[A-Za-z0-9@_*][A-Za-z0-9@._*/-]{0,199}")
_MOST_PATTERNS = 30
_VERSION = lazy_pattern(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,99}")
_SECTION = lazy_pattern(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_ENTRY = lazy_pattern(r"""\s*(name|version)\s*=\s*(?:"([^"\\]*)"|'([^']*)')\s*(?:#.*)?""")
_WHEEL = lazy_pattern(r"(.+?)-([^-]+)(?:-[^-]+){3,4}\.whl")
_SOURCES = lazy_pattern(r"(.+)-(\d[^-]*?)\.(?:tar\.gz|tar\.bz2|zip|gem)")
_PACKED = lazy_pattern(r"(.+?)-(\d+\.\d+\.\d+(?:[-+].*)?)\.tgz")


class Package(Struct, frozen=True, kw_only=True):
    """A package; `version` is None where its manifest leaves it to something else."""

    name: str
    version: str | None = None

    @property
    def shown(self) -> str:
        """The package as registries write it: `name@1.0.0`."""
        return self.name if self.version is None else f"{self.name}@{self.version}"


def package_in(folder: str, manifest: str) -> Package | None:
    """Give the package that a folder's `manifest` tells of; None where it tells of none that can be read.

    `manifest` is package.json, Cargo.toml or pyproject.toml, or a path to one of them.
    """
    text = text_of(os.path.join(folder, manifest))
    if text is None:
        return None
    told = _of_json(text) if manifest.endswith(".json") else _of_toml(text)
    name, version = told.get("name"), told.get("version")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    is_version = isinstance(version, str) and _VERSION.fullmatch(version)
    return Package(name=name, version=str(version) if is_version else None)


def _of_json(text: str) -> Mapping[str, object]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def workspaces_in(folder: str) -> Sequence[str]:
    """Give the patterns of the folders that package.json calls its workspaces, the first ones of very many.

    Left out are those that lead out of the folder, or through all that is in it.
    """
    text = text_of(os.path.join(folder, "package.json"))
    told = _of_json(text or "").get("workspaces")
    listed = told.get("packages") if isinstance(told, dict) else told
    return [
        one
        for one in (listed if isinstance(listed, list) else [])[:_MOST_PATTERNS]
        if isinstance(one, str) and _PATTERN.fullmatch(one) and ".." not in one and "**" not in one
    ]


_SECTIONS: Sequence[str] = ("package", "project", "tool.poetry")


def _of_toml(text: str) -> Mapping[str, object]:
    """Give name and version of the section that has them.

    These two lines are all that is wanted, and what reads whole TOML takes longer to load than a hook has.
    """
    found: dict[str, object] = {}
    is_inside = False
    for line in text.splitlines():
        section = _SECTION.fullmatch(line)
        if section is not None or line.lstrip().startswith("[["):
            is_inside = section is not None and section[1].strip() in _SECTIONS
            continue
        entry = _ENTRY.fullmatch(line) if is_inside else None
        if entry is not None:
            found.setdefault(entry[1], entry[2] if entry[2] is not None else entry[3])
    return found


def package_of_archive(file: str) -> Package | None:
    """Give the package that a built file holds, by the name that its tools give it; None: it says none."""
    base = os.path.basename(file)
    found = _WHEEL.fullmatch(base) or _SOURCES.fullmatch(base) or _PACKED.fullmatch(base)
    if found is None or not _NAME.fullmatch(found[1]) or not _VERSION.fullmatch(found[2]):
        return None
    # Wheels write `_` where sources write `-`; an index knows both as one name.
    name = found[1] if base.endswith((".gem", ".tgz")) else re.sub(r"[-_.]+", "-", found[1]).lower()
    return Package(name=name, version=found[2])
