"""What a `git push` sends: to which remote, to which refs, which commits."""

import os
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from counterfoil.server.hooks.shell.options import has_option, option_values, plain_words, values_before
from counterfoil.server.hooks.shell.walking import Invocation
from counterfoil.server.hooks.shell.words import Word

__all__ = ["Pushed", "read_push"]

_TAKES = frozenset(("-o", "--push-option", "--receive-pack", "--exec", "--repo"))
_WHOLE = {"--all": "refs/heads", "--branches": "refs/heads", "--tags": "refs/tags", "--mirror": "refs"}
_GIT_SECONDS = 5
_LISTED = "%(HEAD)%00%(refname)%00%(objectname)%00%(push:remotename)%00%(push:remoteref)"
_NO_HOOKS = ("GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT")


class Pushed(Struct, frozen=True, kw_only=True):
    """What is pushed. `refs` are (ref at the remote, commit); a commit of None means that the ref is deleted.

    `names` are all words by which somebody may have named the target.
    """

    remote: str
    refs: tuple[tuple[str, str | None], ...]
    names: tuple[str, ...]

    @property
    def commit(self) -> str | None:
        """The one commit that is pushed; None where there is none, or several."""
        commits = {commit for _, commit in self.refs if commit is not None and ":" not in commit}
        return commits.pop() if len(commits) == 1 and len(self.refs) == 1 else None

    @property
    def target(self) -> str:
        """The remote and the refs, as the journal shows them."""
        return f"{self.remote} {' '.join(ref for ref, _ in self.refs)}".strip()


def read_push(invocation: Invocation) -> Pushed | None:
    """Find out what a push would send now; None where that cannot be told."""
    import subprocess  # Loaded where there is a push.

    git = _Git.of(invocation)
    if git is None or not all(word.is_static for word in invocation.words):
        return None
    try:
        return _read(git, invocation.words)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


class _Git(Struct, frozen=True, kw_only=True):
    folder: str
    options: tuple[str, ...]
    env: dict[str, str]

    @classmethod
    def of(cls, invocation: Invocation) -> "_Git | None":
        if invocation.folder is None or not os.path.isdir(invocation.folder):
            return None
        takes = values_before("git")
        options: list[str] = []
        words, at = invocation.words, 1
        while at < len(words) and words[at].text.startswith("-"):
            width = 2 if words[at].text in takes else 1
            options += [word.text for word in words[at : at + width]]
            at += width
        env = {name: word.text for name, word in invocation.env if name.startswith("GIT_") and word.is_static}
        return cls(folder=invocation.folder, options=tuple(options), env=env)

    def lines(self, *words: str) -> list[str]:
        import subprocess

        answered = subprocess.run(
            ["git", *self.options, *words],
            cwd=self.folder,
            env={**os.environ, **self.env, **dict.fromkeys(_NO_HOOKS, "0")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
        return answered.stdout.decode("utf-8", "replace").splitlines()


def _read(git: _Git, words: Sequence[Word]) -> Pushed | None:
    own = list(words[1:])
    before = plain_words(own, takes=values_before("git") | _TAKES)
    named = [word.text for word in before[1:]]
    after = own[next(at for at, word in enumerate(own) if word.text == "push") + 1 :]
    heads = [line.split("\0") for line in git.lines("for-each-ref", f"--format={_LISTED}", "refs/heads")]
    current = next((head for head in heads if head[0] == "*"), None)
    repo = option_values(after, "--repo")
    remote = named[0] if named else (repo[0].text if repo else (current[3] if current else "")) or "origin"
    refs: list[tuple[str, str | None]] = []
    for option, prefix in _WHOLE.items():
        if has_option(after, option):
            listed = git.lines("for-each-ref", "--format=%(refname) %(objectname)", prefix)
            refs += [(f"{prefix}/*", _listing(listed))]
    deletes = has_option(after, "--delete") or has_option(after, "-d")
    for spec in named[1:]:
        refs.append(_ref(git, spec, heads, current, deletes=deletes))
    if not refs:
        if current is None:
            return None
        refs = [(current[4] or current[1], current[2])]
    url = _url(git, remote)
    branches = [ref.removeprefix("refs/heads/").removeprefix("refs/tags/") for ref, _ in refs]
    names = [remote, url, *(ref for ref, _ in refs), *branches]
    names += [f"{remote}{mark}{branch}" for branch in branches for mark in ("/", " ", ":")]
    return Pushed(remote=url, refs=tuple(refs), names=tuple(dict.fromkeys(filter(None, names))))


def _ref(
    git: _Git, spec: str, heads: list[list[str]], current: list[str] | None, *, deletes: bool
) -> tuple[str, str | None]:
    source, has_target, target = spec.removeprefix("+").partition(":")
    if deletes or (has_target and not source):
        return _whole_name(target or source, "refs/heads/"), None
    for head in heads:
        if source in (head[1], head[1].removeprefix("refs/heads/")) or (
            source in ("HEAD", "@") and head is current
        ):
            return _whole_name(target or head[4] or head[1], "refs/heads/"), head[2]
    found = git.lines("rev-parse", "--verify", "--quiet", "--end-of-options", source)
    named = git.lines("rev-parse", "--symbolic-full-name", "--end-of-options", source)
    prefix = "refs/tags/" if any(line.startswith("refs/tags/") for line in named) else "refs/heads/"
    return _whole_name(target or source, prefix), found[-1]


def _whole_name(name: str, prefix: str) -> str:
    return name if name.startswith("refs/") else f"{prefix}{name}"


def _listing(lines: Sequence[str]) -> str:
    import hashlib

    return f"sha256:{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


def _url(git: _Git, remote: str) -> str:
    """Give the remote's address without a name or password in it; a folder by its true path."""
    address = remote
    if "/" not in remote and ":" not in remote:
        address = " ".join(git.lines("remote", "get-url", "--push", "--all", remote))
    parts = urlsplit(address)
    if parts.scheme and parts.netloc:
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    path = os.path.join(git.folder, os.path.expanduser(address))
    return os.path.realpath(path) if os.path.isdir(path) else address
