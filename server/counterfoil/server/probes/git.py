"""What the git probes share: a git that asks nobody, runs nothing else and takes no value for an option."""

import os
import re
from collections.abc import Mapping

from counterfoil.server.probes.probe import Inconclusive
from counterfoil.server.probes.process import Ended, environment_of, lacking_program, run_program
from counterfoil.server.probes.template import Template
from counterfoil.store.probing import ProbeSubject

__all__ = ["as_commit", "as_ref", "git", "is_same_commit", "lacking_repository"]

_MOST_BYTES = 256 * 1024
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
_REF = re.compile(r"refs/[A-Za-z0-9._/+@=-]{1,200}")

_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
# A repository's own configuration may name programs, and none of them may run for a look: neither to check a
# signature nor to fetch what a partial clone lacks.
_SAFE = ("-c", "log.showSignature=false")
_TRANSPORTS = {True: "none", False: "https:http:ssh:git:file"}


async def git(*arguments: str, environment: Mapping[str, str], repository: str | None = None) -> Ended:
    """Run git, in `repository` where one is named.

    Raises:
        Inconclusive: it cannot be started, or says too much.
    """
    place = () if repository is None else ("-C", repository)
    return await run_program(
        ("git", "--no-pager", *_SAFE, *place, *arguments),
        environment={
            **_QUIET,
            **environment_of(environment),
            "GIT_ALLOW_PROTOCOL": _TRANSPORTS[repository is not None],
        },
        folder=None,
        most_bytes=_MOST_BYTES,
    )


def as_commit(template: Template, subject: ProbeSubject) -> str:
    """Fill in a commit: hexadecimal digits only, so that no other name of a revision passes for one.

    Raises:
        Inconclusive: it is none.
    """
    text = template.fill(subject).strip()
    if not _COMMIT.fullmatch(text):
        raise Inconclusive("what should name the commit is not 7 to 64 hexadecimal digits")
    return text.lower()


def as_ref(template: Template, subject: ProbeSubject) -> str:
    """Fill in a whole ref such as refs/heads/main.

    Raises:
        Inconclusive: it is none.
    """
    text = template.fill(subject)
    if not _REF.fullmatch(text) or any(
        not part or part.startswith((".", "-")) or part.endswith((".", ".lock")) or ".." in part
        for part in text.split("/")
    ):
        raise Inconclusive("what should name the ref is no whole ref such as refs/heads/main")
    return text


def is_same_commit(whole: str, given: str | None) -> bool:
    """Tell whether `given` is the commit `whole`, perhaps shortened."""
    return given is not None and bool(_COMMIT.fullmatch(given)) and whole.startswith(given.lower())


def lacking_repository(repository: str) -> list[str]:
    """Say if git or the repository is not there."""
    is_there = any(
        os.path.isdir(os.path.join(repository, *inside, "objects")) for inside in ((), (".git",))
    ) or os.path.isfile(os.path.join(repository, ".git"))
    return [*lacking_program("git"), *([] if is_there else [f"there is no git repository at {repository}"])]
