"""Which repository of a forge a folder belongs to, read from its configuration of git without running git."""

import os
import re
from urllib.parse import urlsplit

from counterfoil.server.hooks.files import text_of
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["branch_in", "folded_address", "repository_in", "repository_of_address"]

_MOST_FOLDERS = 40
_REMOTE = lazy_pattern(r'\s*\[\s*remote\s+"([^"]+)"\s*\]\s*')
_ENTRY = lazy_pattern(r"\s*(url|gh-resolved|glab-resolved)\s*=\s*(.*?)\s*")
_PATH = lazy_pattern(r"[A-Za-z0-9_.~-]{1,100}(?:/[A-Za-z0-9_.~-]{1,100}){1,8}")
_SCP = lazy_pattern(r"(?:[^@/:\s]+@)?([^/:\s]+):(?!//)(.+)")
_KNOWN_HOSTS = ("github.com", "gitlab.com")
"""Forges of which it is known that they compare owners and names without case."""
_FIRST = ("upstream", "github", "gitlab", "origin")
"""In this order a forge's own program looks at the remotes, where nobody chose one."""


def repository_in(folder: str | None) -> str | None:
    """Give `owner/name` of the repository that a forge's program means in a folder; None: it cannot be told.

    One of another host than the forges' own has the host in front.
    """
    place = None if folder is None else _git_folder(folder)
    text = None if place is None else text_of(os.path.join(_common(place), "config"))
    if text is None:
        return None
    remotes: dict[str, dict[str, str]] = {}
    entries: dict[str, str] = {}
    for line in text.splitlines():
        remote = _REMOTE.fullmatch(line)
        if remote is not None:
            entries = remotes.setdefault(remote[1], {})
        elif line.lstrip().startswith("["):
            entries = {}
        elif (entry := _ENTRY.fullmatch(line)) is not None:
            entries.setdefault(entry[1], entry[2])
    chosen = [one for one in remotes.values() if one.get("gh-resolved") or one.get("glab-resolved")]
    for one in chosen:
        told = one.get("gh-resolved") or one.get("glab-resolved") or ""
        if "/" in told and _PATH.fullmatch(told):
            return told
    ordered = [remotes[name] for name in (*_FIRST, *remotes) if name in remotes]
    found = (repository_of_address(one.get("url", "")) for one in (*chosen, *ordered))
    return next((one for one in found if one is not None), None)


def repository_of_address(address: str) -> str | None:
    """Give `owner/name` of an address, or of what a forge's option takes; None where it is none."""
    scp = _SCP.fullmatch(address)
    if "://" in address:
        try:
            parts = urlsplit(address)
            host, path = parts.hostname or "", parts.path
        except ValueError:
            return None
    elif scp is not None:
        host, path = scp[1].lower(), scp[2]
    elif address.startswith(("/", ".", "~")):
        return None
    else:
        first, _, rest = address.partition("/")
        # `HOST/OWNER/NAME`; without a dot in it, the first part is a group.
        host, path = (first.lower(), rest) if "." in first and "/" in rest else ("", address)
    path = path.strip("/").removesuffix(".git")
    if not _PATH.fullmatch(path):
        return None
    return path if host in ("", *_KNOWN_HOSTS) else f"{host}/{path}"


def folded_address(address: str) -> str:
    """Give the one spelling of an address at a forge that compares it without case; any other as it is."""
    scp = _SCP.fullmatch(address)
    try:
        host = urlsplit(address).hostname if "://" in address else scp and scp[1].lower()
    except ValueError:
        return address
    return address.lower() if host in _KNOWN_HOSTS else address


def branch_in(folder: str | None) -> str | None:
    """Give the branch that a folder is on; None where there is none, or it cannot be told."""
    place = None if folder is None else _git_folder(folder)
    text = None if place is None else text_of(os.path.join(place, "HEAD"), most_bytes=4_096)
    found = None if text is None else re.fullmatch(r"ref: refs/heads/(\S{1,250})\s*", text)
    return None if found is None else found[1]


def _git_folder(folder: str) -> str | None:
    """Give the folder where git keeps what it knows of a working tree, from anywhere in the tree."""
    for _ in range(_MOST_FOLDERS):
        place = os.path.join(folder, ".git")
        if os.path.isdir(place):
            return place
        told = text_of(place, most_bytes=4_096)
        if told is not None and told.startswith("gitdir:"):
            return os.path.join(folder, told.partition(":")[2].strip())
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return None


def _common(place: str) -> str:
    """Give the folder that all working trees of a repository share."""
    told = text_of(os.path.join(place, "commondir"), most_bytes=4_096)
    return place if told is None else os.path.join(place, told.strip())
