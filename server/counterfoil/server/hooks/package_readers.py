"""Reads which packages a program publishes: by their manifests, or by the files that were built.

Each reader gives the parts of a target. What it looks at is a few small files; nothing is run.
"""

import os
from collections.abc import Callable, Mapping

from counterfoil.server.hooks.files import matches
from counterfoil.server.hooks.packages import Package, package_in, package_of_archive, workspaces_in
from counterfoil.server.hooks.scene import Scene

__all__ = ["PACKAGE_READERS"]

_MOST_FILES = 50
_MOST_MEMBERS = 200
_MEMBERS = ("{}", "crates/{}", "packages/{}", "libs/{}")
"""Where a workspace keeps its members, as most do."""


def _package(scene: Scene) -> list[str]:
    """The package that npm and its like publish, by package.json; of several, each that is named."""
    scene.is_version = True
    members = scene.values("-w", "--workspace", "--filter", "-F")
    if members or scene.options.has("-ws", "--workspaces", "-r", "--recursive"):
        return _members(scene, members)
    given = scene.operand()
    own = None if scene.folder is None else package_in(scene.folder, "package.json")
    if given is None:
        return _told(scene, own) or scene.inexact()
    path = scene.resolved(given)
    if os.path.isdir(path):
        return _told(scene, package_in(path, "package.json")) or scene.inexact(path)
    if own is not None and os.path.basename(path) == _packed_name(own):
        return _told(scene, own)
    return _told(scene, package_of_archive(path)) or scene.inexact(path)


def _members(scene: Scene, members: list[str]) -> list[str]:
    own = None if scene.folder is None else package_in(scene.folder, "package.json")
    whole = own.name if own is not None else scene.folder or "the project"
    found: list[str] = []
    for member in members:
        package = None if scene.folder is None else _member(scene.folder, member)
        scene.names.append(member)
        if package is None:
            scene.is_exact, scene.is_vague = False, True
            found.append(f"{member} of {whole}")
        else:
            found += _told(scene, package)
    if members:
        return sorted(found)
    scene.is_exact, scene.is_vague = False, True
    return [f"all workspaces of {whole}"]


def _member(folder: str, member: str) -> Package | None:
    """Give the package of a workspace by its path, or by its name among the workspaces of package.json."""
    given = package_in(os.path.join(folder, member), "package.json")
    if given is not None:
        return given
    usual = [form.format(member) for form in _MEMBERS[1:]]
    for pattern in (*usual, *workspaces_in(folder)):
        for manifest in matches(f"{pattern.rstrip('/')}/package.json", folder)[:_MOST_MEMBERS]:
            package = package_in(os.path.dirname(manifest), "package.json")
            if package is not None and package.name == member:
                return package
    return None


def _packed_name(package: Package) -> str:
    """Give the name of the file that `npm pack` makes."""
    return f"{package.name.lstrip('@').replace('/', '-')}-{package.version}.tgz"


def _crate(scene: Scene) -> list[str]:
    """The crate that cargo publishes, by Cargo.toml."""
    scene.is_version = True
    folder = scene.folder
    named = scene.values("-p", "--package")
    if named or scene.options.has("--workspace", "--all"):
        return _crates(scene, named)
    if folder is None:
        return []
    manifest = next(iter(scene.values("--manifest-path")), "Cargo.toml")
    return _told(scene, package_in(folder, manifest)) or scene.inexact()


def _crates(scene: Scene, named: list[str]) -> list[str]:
    found: list[str] = []
    for name in sorted(named):
        scene.names.append(name)
        bare = name.partition("@")[0]
        places = [] if scene.folder is None else [scene.folder]
        places += [os.path.join(one, form.format(bare)) for one in places for form in _MEMBERS]
        packages = [package_in(place, "Cargo.toml") for place in places]
        package = next((one for one in packages if one is not None and one.name == bare), None)
        scene.is_exact = scene.is_exact and package is not None
        found += [name] if package is None else _told(scene, package)
    if named:
        return found
    return [f"all crates of {one}" for one in scene.inexact()]


def _project(scene: Scene) -> list[str]:
    """The package of a pyproject.toml."""
    own = None if scene.folder is None else package_in(scene.folder, "pyproject.toml")
    return _told(scene, own) or scene.inexact()


def _archives(scene: Scene) -> list[str]:
    """The packages in the built files that are uploaded, by the names of these."""
    found: dict[str, None] = {}
    for word in scene.operands:
        for path in _expanded(scene, scene.shown(word)):
            if path.endswith((".asc", ".sig", ".attestation", ".sha256")):
                continue
            package = package_of_archive(path)
            if package is None:
                scene.is_exact = False
                found[scene.resolved(path)] = None
            else:
                found |= dict.fromkeys(_told(scene, package))
    return sorted(found)


def _built(scene: Scene) -> list[str]:
    """The packages that were built into `dist`, where no file is named; else the project's own."""
    if scene.operands:
        return _archives(scene)
    paths = [] if scene.folder is None else matches("dist/*", scene.folder)[:_MOST_FILES]
    packages = [package for path in paths if (package := package_of_archive(path)) is not None]
    shown = {one.shown: one for one in packages}
    found = [text for name in sorted(shown) for text in _told(scene, shown[name])]
    return found or _project(scene)


def _expanded(scene: Scene, name: str) -> list[str]:
    if scene.folder is None or not any(mark in name for mark in "*?["):
        return [name]
    scene.names.append(name)
    return matches(name, scene.folder)[:_MOST_FILES] or [name]


def _told(scene: Scene, package: Package | None) -> list[str]:
    if package is None:
        return []
    if package.version is None:
        scene.is_exact = False
    else:
        scene.facts |= {"package": package.shown, "version": package.version}
        scene.passing[package.shown] = package.name
        scene.passing_facts = ("package", "version")
    scene.facts["name"] = package.name
    scene.names += [package.shown, package.name, f"{package.name} {package.version or ''}".strip()]
    return [package.shown]


PACKAGE_READERS: Mapping[str, Callable[[Scene], list[str]]] = {
    "package": _package,
    "crate": _crate,
    "project": _project,
    "archives": _archives,
    "built": _built,
}
