"""Reads what a program acts on at a forge: a repository, and what of it.

Each reader gives the parts of a target. What it looks at is a few small files; nothing is run.
"""

import re
from collections.abc import Callable, Mapping

from counterfoil.server.hooks.repository import branch_in, repository_in, repository_of_address
from counterfoil.server.hooks.scene import Scene
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["FORGE_READERS"]

_ISSUE = lazy_pattern(r"https?://([^/\s]+)/(\S+?)(?:/-)?/(?:pull|pulls|issues|merge_requests)/(\d+)\b\S*")
_NUMBER = lazy_pattern(r"[#!]?(\d{1,12})")
_OF_REPOSITORY = lazy_pattern(r"repos/[^/]+/[^/]+|projects/[^/]+%2[Ff][^/]+")
_FORGES = ("gh", "glab")
"""Programs that ask GitHub and GitLab, at whatever host, which compare owners and names without case."""
_PLAIN = lazy_pattern(r"[A-Za-z0-9_./~-]{1,250}")


def _repository(scene: Scene) -> list[str]:
    """The repository at a forge: said, of the surroundings, or the folder's own; else the folder."""
    found = _repository_of(scene)
    return scene.inexact() if found is None else [_in_one_case(scene, found)]


def _in_one_case(scene: Scene, repository: str, rest: str = "") -> str:
    """Give a repository, and `rest` behind it, as it is compared by the forges that this program asks."""
    folded = repository.lower() if scene.program in _FORGES else repository
    if folded != repository:
        scene.written[f"{folded}{rest}"] = f"{repository}{rest}"
    return f"{folded}{rest}"


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
        return [_in_one_case(scene, repository, f"{mark}{address[3]}")]
    number = None if given is None else _NUMBER.fullmatch(given)
    if number is None:
        return None
    repository = _repository_of(scene)
    scene.says_operand = repository is not None
    scene.facts["number"] = number[1]
    scene.names += [number[1], f"{mark}{number[1]}"]
    number_told = f"{mark}{number[1]}"
    if repository is not None:
        return [_in_one_case(scene, repository, number_told)]
    return [f"{next(iter(scene.inexact()), '')}{number_told}"]


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
    of_repository = _OF_REPOSITORY.match(path)
    if of_repository is None:
        return [path]
    return [_in_one_case(scene, of_repository[0], path[of_repository.end() :])]


FORGE_READERS: Mapping[str, Callable[[Scene], list[str]]] = {
    "repository": _repository,
    "pull-request": _pull_request,
    "merge-request": _merge_request,
    "new-pull-request": _new_pull_request,
    "issue": _issue,
    "release": _release,
    "workflow": _workflow,
    "endpoint": _endpoint,
}
