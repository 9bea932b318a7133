"""Reads what a program acts on where no word says it, or a word says it in more than one spelling.

Each reader gives the parts of a target. What it looks at is a few small files; nothing is run.
"""

import os
import re
from collections.abc import Callable, Mapping

from counterfoil.server.hooks.acted_on import Scene
from counterfoil.server.hooks.files import matches
from counterfoil.server.hooks.packages import Package, package_in, package_of_archive, workspaces_in
from counterfoil.server.hooks.repository import branch_in, repository_in, repository_of_address
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["READERS"]

_MOST_FILES = 50
_MOST_MEMBERS = 200
_ISSUE = lazy_pattern(r"https?://([^/\s]+)/(\S+?)(?:/-)?/(?:pull|pulls|issues|merge_requests)/(\d+)\b\S*")
_NUMBER = lazy_pattern(r"[#!]?(\d{1,12})")
_PLAIN = lazy_pattern(r"[A-Za-z0-9_./~-]{1,250}")
_SHAPES = ("@sha256:", "$", "`")
_MEMBERS = ("{}", "crates/{}", "packages/{}", "libs/{}")
"""Where a workspace keeps its members, as most do."""


def _folder(scene: Scene) -> list[str]:
    """The folder that the program works in."""
    return [] if scene.folder is None else [scene.folder]


def _service(scene: Scene) -> list[str]:
    """What of its services a program is asked for: the words in front of what is done."""
    return list(scene.verbs[:-1])


def _path(scene: Scene) -> list[str]:
    """The file or folder that the first operand names; without one, the folder itself."""
    given = scene.operand()
    return _folder(scene) if given is None else [_resolved(scene, given)]


def _resolved(scene: Scene, path: str) -> str:
    """Give a path in its one spelling; what is no path, and what only a shell can fill in, as it stands."""
    scene.names.append(path)
    if scene.folder is None or "://" in path or any(mark in path for mark in "$`"):
        return path
    return os.path.normpath(os.path.join(scene.folder, os.path.expanduser(path)))


def _manifests(scene: Scene) -> list[str]:
    """The files that are applied, or what the operands name."""
    files = [
        one
        for value in scene.values("-f", "--filename", "-k", "--kustomize")
        for one in value.split(",")
        if one
    ]
    if files:
        scene.facts["file"] = files[0] if len(files) == 1 else "FILE"
        return ["standard input" if one == "-" else _resolved(scene, one) for one in files]
    found = [text for word in scene.operands if (text := scene.shown(word))]
    scene.names += found
    # What is made may be of a kind of its kind: `create secret generic NAME`.
    named = [found[0], found[-1]] if "create" in scene.verbs and len(found) == 3 else found
    if len(named) == 2 or (len(named) == 1 and "/" in named[0]):
        scene.facts["resource"] = "/".join(named)
        scene.names.append("/".join(named))
    chosen = scene.values("-l", "--selector")
    return [*found, *(f"all with {value}" for value in chosen)]


def _package(scene: Scene) -> list[str]:
    """The package that npm and its like publish, by package.json; of several, each that is named."""
    scene.is_version = True
    members = scene.values("-w", "--workspace", "--filter", "-F")
    if members or scene.options.has("-ws", "--workspaces", "-r", "--recursive"):
        return _members(scene, members)
    given = scene.operand()
    own = None if scene.folder is None else package_in(scene.folder, "package.json")
    if given is None:
        return _told(scene, own) or _inexact(scene)
    path = _resolved(scene, given)
    if os.path.isdir(path):
        return _told(scene, package_in(path, "package.json")) or _inexact(scene, path)
    if own is not None and os.path.basename(path) == _packed_name(own):
        return _told(scene, own)
    return _told(scene, package_of_archive(path)) or _inexact(scene, path)


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
    return _told(scene, package_in(folder, manifest)) or _inexact(scene)


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
    return [f"all crates of {one}" for one in _inexact(scene)]


def _project(scene: Scene) -> list[str]:
    """The package of a pyproject.toml."""
    own = None if scene.folder is None else package_in(scene.folder, "pyproject.toml")
    return _told(scene, own) or _inexact(scene)


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
                found[_resolved(scene, path)] = None
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


def _inexact(scene: Scene, path: str | None = None) -> list[str]:
    scene.is_exact = False
    return _folder(scene) if path is None else [path]


def _repository(scene: Scene) -> list[str]:
    """The repository at a forge: said, of the surroundings, or the folder's own; else the folder."""
    found = _repository_of(scene)
    return _inexact(scene) if found is None else [found]


def _repository_of(scene: Scene) -> str | None:
    given = [*scene.values("-R", "--repo"), *(scene.env[name] for name in ("GH_REPO",) if name in scene.env)]
    found = repository_of_address(given[0]) or given[0] if given else repository_in(scene.folder)
    if len(given) == 1:
        scene.said = ("-R", "--repo")
    if found is not None and _PLAIN.fullmatch(found):
        scene.facts |= {"repository": found, "where": f" -R {found}"}
    return found


def _reference(scene: Scene, mark: str) -> list[str] | None:
    """Give `owner/name#12` for a number or an address; None where the first operand is neither."""
    given = scene.operand()
    address = None if given is None else _ISSUE.fullmatch(given)
    repository = None
    if given is not None and address is not None:
        repository = repository_of_address(f"https://{address[1]}/{address[2]}")
    if given is not None and address is not None and repository is not None:
        scene.facts |= {"number": address[3], "repository": repository, "where": f" -R {repository}"}
        scene.names += [given, address[3], f"{mark}{address[3]}"]
        scene.said, scene.says_operand = ("-R", "--repo"), True
        return [f"{repository}{mark}{address[3]}"]
    number = None if given is None else _NUMBER.fullmatch(given)
    if number is None:
        return None
    repository = _repository_of(scene)
    found = repository or next(iter(_inexact(scene)), "")
    scene.says_operand = repository is not None
    scene.facts["number"] = number[1]
    scene.names += [number[1], f"{mark}{number[1]}"]
    return [f"{found}{mark}{number[1]}"]


def _pull_request(scene: Scene, mark: str = "#") -> list[str]:
    """A pull request by number, address or branch; without a word, the one of the branch."""
    found = _reference(scene, mark)
    if found is not None:
        return found
    return _of_branch(scene, scene.operand(), is_exact=False)


def _merge_request(scene: Scene) -> list[str]:
    """A merge request of GitLab."""
    return _pull_request(scene, "!")


def _issue(scene: Scene) -> list[str]:
    """An issue by number or address."""
    return _reference(scene, "#") or _repository(scene)


def _new_pull_request(scene: Scene) -> list[str]:
    """A pull request that is made: its repository and the branch that it brings."""
    given = scene.values("-H", "--head", "-s", "--source-branch")
    return _of_branch(scene, given[0].rpartition(":")[2] if given else None, is_exact=True)


def _of_branch(scene: Scene, said: str | None, *, is_exact: bool) -> list[str]:
    """Give a branch of a repository: the one that is said, or the one that the folder is on."""
    found = _repository(scene)
    branch = said or scene.state.get("branch") or branch_in(scene.folder)
    scene.is_exact = scene.is_exact and is_exact and branch is not None
    if branch is None:
        return found
    if said is None:
        scene.passing[f"branch {branch}"] = ""
        scene.passing_facts = ("branch", "number")
    scene.facts |= {"branch": branch, "number": branch}
    scene.names.append(branch)
    return [*found, f"branch {branch}"]


def _release(scene: Scene) -> list[str]:
    """A release of a repository, by its tag."""
    tag = scene.operand()
    found = _repository(scene)
    if tag is None:
        scene.is_exact = False
        return found
    scene.facts["tag"] = tag
    scene.names.append(tag)
    return [*found, tag]


def _workflow(scene: Scene) -> list[str]:
    """A workflow of a repository."""
    workflow = scene.operand()
    if workflow is not None:
        scene.facts["workflow"] = workflow
        scene.names.append(workflow)
    return [*_repository(scene), *([] if workflow is None else [workflow])]


def _endpoint(scene: Scene) -> list[str]:
    """The path of a forge's interface that is asked, without what may be a secret in it."""
    given = scene.operand()
    if given is None:
        return []
    scene.names.append(given)
    path = re.sub(r"^https?://[^/]+/(?:api/v3/)?", "", given).partition("?")[0].strip("/")
    scene.says_operand = "?" not in given and "://" not in given
    if any(mark in path for mark in ("{owner}", "{repo}", ":owner", ":repo")):
        owner, _, name = (_repository_of(scene) or "OWNER/NAME").rpartition("/")
        path = re.sub(r"\{owner\}|:owner\b", lambda _: owner, path)
        path = re.sub(r"\{repo\}|:repo\b", lambda _: name, path)
    return [path]


def _release_name(scene: Scene) -> list[str]:
    """A release of helm; where its name is made by helm, the chart."""
    given = scene.operand()
    if given is not None:
        scene.names.append(given)
    if given is None or not scene.options.has("-g", "--generate-name"):
        return [] if given is None else [given]
    scene.is_exact = False
    scene.facts["1"] = "NAME"
    return [f"chart {given}"]


def _image(scene: Scene) -> list[str]:
    """The image that is pushed, in its one spelling; podman may give it another name there."""
    named = scene.operand(2) if scene.program == "podman" and len(scene.operands) > 1 else scene.operand()
    return (
        [] if named is None else [_spelled(scene, named, is_whole=not scene.options.has("-a", "--all-tags"))]
    )


def _destination(scene: Scene) -> list[str]:
    """The last operand, where files are copied to."""
    given = scene.operand(len(scene.operands)) if scene.operands else None
    if given is None:
        return []
    scene.names += [given, given.partition(":")[0]]
    return [given]


def _images(scene: Scene) -> list[str]:
    """The names under which a build pushes its image; without one, the folder that is built."""
    tags = sorted(_spelled(scene, tag, is_whole=True) for tag in scene.values("-t", "--tag"))
    return tags or _path(scene)


def _spelled(scene: Scene, name: str, *, is_whole: bool) -> str:
    scene.names.append(name)
    for prefix in ("docker://", "docker.io/", "index.docker.io/", "library/"):
        name = name.removeprefix(prefix)
    scene.facts["image"] = name
    has_tag = ":" in name.rpartition("/")[2] or any(mark in name for mark in _SHAPES)
    return name if has_tag or not is_whole else f"{name}:latest"


READERS: Mapping[str, Callable[[Scene], list[str]]] = {
    "folder": _folder,
    "service": _service,
    "path": _path,
    "manifests": _manifests,
    "package": _package,
    "crate": _crate,
    "project": _project,
    "archives": _archives,
    "built": _built,
    "repository": _repository,
    "pull-request": _pull_request,
    "merge-request": _merge_request,
    "new-pull-request": _new_pull_request,
    "issue": _issue,
    "release": _release,
    "workflow": _workflow,
    "endpoint": _endpoint,
    "release-name": _release_name,
    "image": _image,
    "images": _images,
    "destination": _destination,
}
