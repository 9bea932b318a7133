"""Reads the state that an effect sends though no word of it names a file: a branch, a folder, an image.

Equal words mean another effect where it changed. Each reader is named by the rules that need it.
"""

import os
import re
import subprocess
from collections.abc import Sequence

from counterfoil.server.hooks.files import blob_id, digest_of_all, digest_of_names, digests_of, text_of
from counterfoil.server.hooks.shell.options import option_values
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.shell.words import Word

__all__ = ["read_states"]

_LOOK_SECONDS = 5
_DEEPEST = 5
_PLACES = frozenset(("GIT_DIR", "GIT_WORK_TREE", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"))
_ENGINES = {"docker": ("--host", "-H", "--context", "-c"), "podman": ("--url", "--connection")}
_ONE_BY_NAME = re.compile(r"\d+|https?://\S+/\d+")
"""How a pull request is named, so that the branch does not say which one is meant."""


def read_states(
    names: Sequence[str], invocation: Invocation, *, operands: Sequence[Word]
) -> dict[str, str] | None:
    """Give what the readers `names` find where a program runs; None where one of them cannot tell.

    `operands` are the words of the program that are neither its subcommand nor options.
    """
    found: dict[str, str] = {}
    for name in names:
        told = _READERS[name](invocation, operands)
        if told is None:
            return None
        found |= told
    return found


def _head(invocation: Invocation, operands: Sequence[Word]) -> dict[str, str] | None:
    """The branch and its commit; nothing outside a repository, where such a command fails."""
    if invocation.folder is None:
        return None
    lines = _lines(invocation, "git", "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    return {} if lines is None or len(lines) != 2 else {"commit": lines[0], "branch": lines[1]}


def _branch(invocation: Invocation, operands: Sequence[Word]) -> dict[str, str] | None:
    """The branch, where the words do not say which pull request is meant."""
    if any(_ONE_BY_NAME.fullmatch(word.text) for word in operands[:1]):
        return {}
    found = _head(invocation, operands)
    return None if found is None else {name: text for name, text in found.items() if name == "branch"}


def _tree(invocation: Invocation, operands: Sequence[Word]) -> dict[str, str] | None:
    """All that is in the folder and is not ignored: what is tracked, as it is now, and what is new."""
    folder = invocation.folder
    if folder is None:
        return None
    listing = ("git", "-c", "core.fsmonitor=false", "ls-files", "-z")
    tracked = _output(invocation, *listing, "-s")
    changed = _output(invocation, *listing, "-m", "-o", "--exclude-standard")
    if tracked is None or changed is None:
        return {".": digest_of_all(folder)}
    blobs: dict[str, str | None] = {}
    for entry in _names(tracked):
        told, _, name = entry.partition("\t")
        blobs[name] = told.split(" ")[1]
    for name in _names(changed):
        if name in blobs or not (name.startswith(".") or "/." in name):
            # What is tracked later is the same before: by its content alone.
            blobs[name] = blob_id(os.path.join(folder, name))
    return {".": digest_of_names({name: blob for name, blob in blobs.items() if blob is not None})}


def _names(listed: bytes) -> list[str]:
    return [name for name in listed.decode("utf-8", "surrogateescape").split("\0") if name]


def _image(invocation: Invocation, operands: Sequence[Word]) -> dict[str, str] | None:
    """The id of the image that a name stands for now."""
    named = operands[:1] if invocation.program == "podman" else operands
    if len(named) != 1 or not named[0].is_static or invocation.is_elsewhere:
        return None
    program = "podman" if invocation.program == "podman" else "docker"
    lines = _lines(
        invocation, program, *_engine(invocation), "image", "inspect", "-f", "{{.Id}}", named[0].text
    )
    return {named[0].text: lines[0]} if lines else None


def _engine(invocation: Invocation) -> list[str]:
    """Give the options that say which engine holds the image."""
    words, takes = invocation.words[1:], _ENGINES.get(invocation.program, ())
    return [f"{name}={word.text}" for name in takes for word in option_values(words, name)[-1:]]


def _kube_context(invocation: Invocation, operands: Sequence[Word]) -> dict[str, str] | None:
    """The cluster that is meant where no word says which."""
    words = invocation.words[1:]
    if any(option_values(words, name) for name in ("--context", "--kube-context")):
        return {}
    if invocation.is_elsewhere:
        return None
    env = {name: word.text for name, word in invocation.env}
    given = [word.text for word in option_values(words, "--kubeconfig")]
    places = given or (env.get("KUBECONFIG") or os.environ.get("KUBECONFIG") or "~/.kube/config").split(":")
    for place in places:
        path = os.path.join(invocation.folder or "/", os.path.expanduser(place))
        text = text_of(path, most_bytes=1 << 22)
        found = None if text is None else re.search(r"^current-context:[ \t]*(\S+)", text, re.MULTILINE)
        if found is not None:
            return {"current-context": found[1]}
    return {}


def _manifests(invocation: Invocation, operands: Sequence[Word]) -> dict[str, str] | None:
    """What an overlay is made of beside its own folder; None where something is fetched from afar."""
    words = invocation.words[1:]
    named = [word for name in ("-f", "--filename") for word in option_values(words, name)]
    overlays = [word for name in ("-k", "--kustomize") for word in option_values(words, name)]
    if any("://" in word.text for word in (*named, *overlays)):
        return None
    if not overlays:
        return {}
    if invocation.folder is None:
        return None
    folders: dict[str, None] = {}
    for word in overlays:
        _follow(os.path.normpath(os.path.join(invocation.folder, word.text)), folders)
    return digests_of([Word(folder) for folder in folders], folder=invocation.folder)


def _follow(folder: str, found: dict[str, None], depth: int = 0) -> None:
    """Note a folder of an overlay and those that it names."""
    if folder in found or depth > _DEEPEST:
        return
    found[folder] = None
    for name in ("kustomization.yaml", "kustomization.yml", "Kustomization"):
        text = text_of(os.path.join(folder, name))
        if text is None:
            continue
        for named in re.findall(r"[\w./-]*\.\./[\w./-]*|(?<=- )[\w./-]+", text):
            path = os.path.normpath(os.path.join(folder, named))
            if os.path.isdir(path):
                _follow(path, found, depth + 1)
            elif os.path.isfile(path):
                found[path] = None


_READERS = {
    "head": _head,
    "branch": _branch,
    "tree": _tree,
    "image": _image,
    "kube-context": _kube_context,
    "manifests": _manifests,
}


def _lines(invocation: Invocation, *words: str) -> list[str] | None:
    answered = _output(invocation, *words)
    return None if answered is None else answered.decode("utf-8", "replace").splitlines()


def _output(invocation: Invocation, *words: str) -> bytes | None:
    """Give what a program prints where an effect runs; None: it fails. Of its variables only places count."""
    own = {name: word.text for name, word in invocation.env if word.is_static and name in _PLACES}
    try:
        return subprocess.run(
            words,
            cwd=invocation.folder,
            env={**os.environ, **own, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_SECONDS,
            check=True,
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
