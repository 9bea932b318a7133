"""What a `git push` sends: to which remote, to which refs, which commits."""

import os
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.server.hooks.repository import folded_address
from counterfoil.server.hooks.shell.options import has_option, option_values, plain_words, values_before
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.shell.words import Word

__all__ = ["Answers", "Pushed", "read_push"]

_TAKES = frozenset(("-o", "--push-option", "--receive-pack", "--exec", "--repo"))
_WHOLE = {"--all": "refs/heads", "--branches": "refs/heads", "--tags": "refs/tags", "--mirror": "refs"}
_MOST_REFS = 40
"""So many refs of `--all` and its like are told one by one; each is noted at the operation on its own."""
_MOST_ASKED = 20
"""So many words that name no branch and no tag are asked about; a push of more cannot be told."""
_GIT_SECONDS = 5
_LISTED = "%(HEAD)%00%(refname)%00%(objectname)%00%(push:remotename)%00%(push:remoteref)"
_FOLLOWED = "%(objecttype)%00%(refname)%00%(objectname)"
_REPOSITORIES = ("/.git", "", ".git")
"""What git looks for behind a path, in its order."""
_NO_HOOKS = ("GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT")


class Pushed(Struct, frozen=True, kw_only=True):
    """What is pushed. `refs` are (ref at the remote, commit); a commit of None means that the ref is deleted.

    Each ref is there once, in the order of their names. A ref with a `*` stands for more than can be told one
    by one: for very many, with the digest of what they are, or for whatever a mirror deletes at the remote.
    `names` are all words by which somebody may have named the target, `written` is the remote in the case in
    which it is configured or said.
    """

    remote: str
    refs: tuple[tuple[str, str | None], ...]
    names: tuple[str, ...]
    written: str

    @property
    def commit(self) -> str | None:
        """The one commit that is pushed; None where there is none, or several."""
        commits = {commit for _, commit in self.refs if commit is not None and ":" not in commit}
        return commits.pop() if len(commits) == 1 and len(self.refs) == 1 else None

    @property
    def by_ref(self) -> "tuple[Pushed, ...]":
        """The push of each ref as it would be if it were pushed alone."""
        return tuple(replace(self, refs=(ref,)) for ref in self.refs)

    @property
    def is_wide(self) -> bool:
        """Tell whether it reaches refs of the remote that are not told one by one."""
        return any("*" in ref for ref, _ in self.refs)

    @property
    def target(self) -> str:
        """The remote and the refs, as the journal shows them."""
        return self._at(self.remote)

    @property
    def written_target(self) -> str | None:
        """The target with the remote as it is written; None where it is the same."""
        return None if self.written == self.remote else self._at(self.written)

    def _at(self, remote: str) -> str:
        return f"{remote} {' '.join(ref for ref, _ in self.refs)}".strip()


Answers = dict[tuple[Any, ...], list[str]]
"""What git answered while one command was read: a command of many pushes asks each thing once."""


def read_push(invocation: Invocation, answers: Answers) -> Pushed | None:
    """Find out what a push would send now; None where that cannot be told.

    What stands in `answers` is not asked again, and what is asked is added.
    """
    import subprocess  # Loaded where there is a push.

    git = _Git.of(invocation, answers)
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
    answers: Answers

    @classmethod
    def of(cls, invocation: Invocation, answers: Answers) -> "_Git | None":
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
        return cls(folder=invocation.folder, options=tuple(options), env=env, answers=answers)

    def lines(self, *words: str) -> list[str]:
        """Give the lines that git answers; it is asked once."""
        place = (self.folder, self.options, tuple(self.env.items()), words)
        if place not in self.answers:
            self.answers[place] = self._asked(words)
        return self.answers[place]

    def _asked(self, words: Sequence[str]) -> list[str]:
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
    pushed = _named(git, named[1:], heads, current, after)
    whole = _whole(git, after)
    if ":" in named[1:] or "+:" in named[1:]:
        # All branches that the remote has as well: at most these.
        whole["refs/heads"] = [(head[1], head[2]) for head in heads]
    if not pushed and not whole:
        if current is None:
            return None
        pushed = [(current[4] or current[1], current[2])]
    if has_option(after, "--follow-tags"):
        whole["refs/tags"] = _followed(git, [commit for _, commit in pushed if commit is not None])
    refs = _bounded(pushed, whole)
    if has_option(after, "--mirror") or has_option(after, "--prune"):
        # Whatever stands there and is not among these is deleted.
        kept = {ref for ref, _ in pushed} | {ref for listed in whole.values() for ref, _ in listed}
        refs.append(("refs/*", _listing(sorted(kept))))
    written = _urls(git, remote)
    url = " ".join(map(folded_address, written))
    branches = [ref.removeprefix("refs/heads/").removeprefix("refs/tags/") for ref, _ in refs]
    names = [remote, url, *(ref for ref, _ in refs), *branches]
    names += [f"{remote}{mark}{branch}" for branch in branches for mark in ("/", " ", ":")]
    return Pushed(
        remote=url,
        refs=tuple(refs),
        names=tuple(dict.fromkeys(filter(None, names))),
        written=" ".join(written),
    )


def _named(
    git: _Git,
    specs: Sequence[str],
    heads: list[list[str]],
    current: list[str] | None,
    options: Sequence[Word],
) -> list[tuple[str, str | None]]:
    """Give the refs that words name, each once."""
    deletes = has_option(options, "--delete") or has_option(options, "-d")
    refs: dict[str, tuple[str, str | None]] = {}
    rest = iter(dict.fromkeys(specs))
    asked = 0
    for spec in rest:
        if spec in (":", "+:"):
            continue
        if spec == "tag":
            spec = f"refs/tags/{next(rest, '')}"
        asked += not (deletes or spec.startswith((":", "+:")) or _of_head(spec, heads, current))
        if asked > _MOST_ASKED:
            raise ValueError("more than can be asked about")
        ref, commit = _ref(git, spec, heads, current, deletes=deletes)
        refs[f"{ref} {commit}"] = ref, commit
    return list(refs.values())


def _whole(git: _Git, options: Sequence[Word]) -> dict[str, list[tuple[str, str | None]]]:
    """Give all refs that options name by where they stand."""
    found: dict[str, list[tuple[str, str | None]]] = {}
    for option, prefix in _WHOLE.items():
        if prefix not in found and has_option(options, option):
            lines = git.lines("for-each-ref", "--format=%(refname) %(objectname)", prefix)
            pairs = (line.partition(" ") for line in lines)
            found[prefix] = [(name, commit) for name, _, commit in pairs]
    return found


def _followed(git: _Git, commits: Sequence[str]) -> list[tuple[str, str | None]]:
    """Give the annotated tags that stand at what is pushed: they go with it."""
    merged = [f"--merged={commit}" for commit in commits]
    listed = git.lines("for-each-ref", f"--format={_FOLLOWED}", *merged, "refs/tags") if merged else []
    tags = (line.split("\0") for line in listed)
    return [(tag[1], tag[2]) for tag in tags if tag[0] == "tag"]


def _bounded(
    named: Sequence[tuple[str, str | None]], whole: dict[str, list[tuple[str, str | None]]]
) -> list[tuple[str, str | None]]:
    """Give all refs, each once; where they are very many, those that no word names by one digest."""
    each = {*named, *(ref for refs in whole.values() for ref in refs)}
    if len(each) <= max(_MOST_REFS, len(named)):
        return _in_order(each)
    digests = {
        (f"{prefix}/*", _listing(f"{ref} {commit}" for ref, commit in refs)) for prefix, refs in whole.items()
    }
    return _in_order({*named, *digests})


def _in_order(refs: Iterable[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    return sorted(refs, key=lambda ref: (ref[0], ref[1] or ""))


def _of_head(spec: str, heads: list[list[str]], current: list[str] | None) -> list[str] | None:
    """Give the branch here that a word pushes; None where it names none, or deletes."""
    source = spec.removeprefix("+").partition(":")[0]
    for head in heads:
        if source in (head[1], head[1].removeprefix("refs/heads/")) or (
            source in ("HEAD", "@") and head is current
        ):
            return head
    return None


def _ref(
    git: _Git, spec: str, heads: list[list[str]], current: list[str] | None, *, deletes: bool
) -> tuple[str, str | None]:
    source, has_target, target = spec.removeprefix("+").partition(":")
    if deletes or (has_target and not source):
        return _whole_name(target or source, "refs/heads/"), None
    head = _of_head(spec, heads, current)
    if head is not None:
        return _whole_name(target or head[4] or head[1], "refs/heads/"), head[2]
    found = git.lines("rev-parse", "--verify", "--quiet", "--end-of-options", source)
    named = git.lines("rev-parse", "--symbolic-full-name", "--end-of-options", source)
    prefix = "refs/tags/" if any(line.startswith("refs/tags/") for line in named) else "refs/heads/"
    return _whole_name(target or source, prefix), found[-1]


def _whole_name(name: str, prefix: str) -> str:
    return name if name.startswith("refs/") else f"{prefix}{name}"


def _listing(lines: Iterable[str]) -> str:
    import hashlib

    return f"sha256:{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


def _urls(git: _Git, remote: str) -> list[str]:
    """Give the remote's addresses without a name or password in them; a folder by its true path."""
    if "/" not in remote and ":" not in remote:
        addresses = git.lines("remote", "get-url", "--push", "--all", remote)
    else:
        addresses = git.lines("ls-remote", "--get-url", "--", remote)
    return [_address(git, address) for address in addresses]


def _address(git: _Git, address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme == "file":
        address = unquote(parts.path)
    elif parts.scheme and parts.netloc:
        host = parts.netloc.rpartition("@")[2].lower()
        return urlunsplit((parts.scheme.lower(), host, parts.path.rstrip("/"), "", ""))
    path = os.path.join(git.folder, os.path.expanduser(address)).rstrip("/")
    found = next((f"{path}{end}" for end in _REPOSITORIES if os.path.exists(f"{path}{end}/HEAD")), None)
    return os.path.realpath(found or path) if found or os.path.isdir(path) else address
