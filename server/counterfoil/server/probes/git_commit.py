"""`git_commit`: is a commit in the repository, and reachable from a ref? By its hash, or by its message."""

from collections.abc import Mapping

from msgspec import Struct

from counterfoil.server.probes.git import as_commit, as_ref, git, is_same_commit, lacking_repository
from counterfoil.server.probes.probe import Inconclusive, Seen
from counterfoil.server.probes.table import ProbeTable, missing_variables
from counterfoil.server.probes.template import Template
from counterfoil.store.domain.instants import micros, rfc3339
from counterfoil.store.probing import ProbeSubject

__all__ = ["GitCommit", "read_git_commit"]


class GitCommit(Struct, frozen=True, kw_only=True):
    """Looks for `commit`, or for a commit on `ref` whose message holds `message`.

    `has_time`: the commit's time is when the effect was performed, so that one made before the operation is
    not taken for it. Off where the effect is to publish commits that were made earlier.
    """

    repository: str
    commit: Template | None
    message: Template | None
    ref: Template | None
    has_time: bool
    environment: Mapping[str, str]
    kind: str = "commit"

    @property
    def uses_external_id(self) -> bool:
        """True where the commit is the one on record."""
        return self.commit is not None and "external_id" in self.commit.names

    async def see(self, subject: ProbeSubject) -> Seen:
        """Look in the repository.

        Raises:
            Inconclusive: it cannot be read, is shallow, or more than one commit fits.
        """
        ref = None if self.ref is None else as_ref(self.ref, subject)
        if self.commit is not None:
            commit = await self._by_hash(as_commit(self.commit, subject), ref)
        else:
            commit = await self._by_message(subject, ref)
        if commit is None:
            return Seen(found=False, evidence={} if ref is None else {"ref": ref})
        evidence = {"commit": commit, **({} if ref is None else {"ref": ref})}
        return Seen(
            found=True,
            external_id=subject.external_id if is_same_commit(commit, subject.external_id) else commit,
            performed_at=await self._time_of(commit) if self.has_time else None,
            evidence=evidence,
        )

    async def _by_hash(self, named: str, ref: str | None) -> str | None:
        commit = await self._resolve(named)
        if commit is None:
            await self._refuse_shallow()
            return None
        if ref is None:
            return commit
        if not await self._has_ref(ref):
            return None
        reached = await self._git("merge-base", "--is-ancestor", commit, ref)
        if reached == (1, ""):
            await self._refuse_shallow()
            return None
        if reached[0] != 0:
            raise Inconclusive("git could not tell whether the ref reaches the commit")
        return commit

    async def _by_message(self, subject: ProbeSubject, ref: str | None) -> str | None:
        if self.message is None or ref is None:
            raise LookupError("a probe without commit and message")
        text = self.message.fill(subject)
        if not await self._has_ref(ref):
            return None
        code, out = await self._git(
            "log",
            "--no-color",
            "--fixed-strings",
            f"--grep={text}",
            "--format=%H",
            "--max-count=2",
            ref,
            "--",
        )
        commits = out.split()
        if code != 0:
            raise Inconclusive("git could not search the log")
        if len(commits) > 1:
            raise Inconclusive("more than one commit has this message")
        if not commits:
            await self._refuse_shallow()
        return commits[0] if commits else None

    async def _resolve(self, name: str) -> str | None:
        code, out = await self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )
        if code == 1:
            return None
        if code != 0 or not out:
            raise Inconclusive("git could not read the repository, or the name is ambiguous")
        return out

    async def _has_ref(self, ref: str) -> bool:
        if await self._resolve(ref) is not None:
            return True
        if self.ref is not None and not self.ref.names:
            raise Inconclusive("the repository has no such ref as the configuration names")
        return False

    async def _refuse_shallow(self) -> None:
        if await self._git("rev-parse", "--is-shallow-repository") != (0, "false"):
            raise Inconclusive("the repository is shallow: what is missing in it may be elsewhere")

    async def _time_of(self, commit: str) -> str:
        code, out = await self._git("show", "--no-patch", "--no-color", "--format=%ct", commit, "--")
        if code != 0 or not out.isdigit():
            raise Inconclusive("git could not tell the commit's time")
        return rfc3339(micros(int(out)))

    async def _git(self, *arguments: str) -> tuple[int, str]:
        ended = await git(*arguments, environment=self.environment, repository=self.repository)
        return ended.code, ended.out.decode("ascii", errors="replace").strip()

    def lacks(self) -> list[str]:
        """Say if git, the repository or a variable is not there."""
        return [*lacking_repository(self.repository), *missing_variables(self.environment)]


def read_git_commit(table: ProbeTable) -> GitCommit:
    """Read the keys of a `git_commit` probe.

    Raises:
        ProbeProblem: naming the key.
    """
    repository = table.folder("repository")
    if repository is None:
        raise table.problem("repository", "it is missing")
    message, commit, ref = table.template("message"), table.template("commit"), table.template("ref")
    if message is not None and commit is not None:
        raise table.problem("message", "it is given instead of commit, not beside it")
    if message is not None and ref is None:
        raise table.problem("ref", "it is missing: the ref whose commits are searched")
    if message is not None and not message.names:
        raise table.problem("message", "it names no operation; put {operation} into it and into the commit")
    if message is None and commit is None:
        commit = Template.read("{external_id}")
    if commit is not None and not commit.names:
        raise table.problem("commit", "it names no operation; a placeholder such as {args.commit} does")
    return GitCommit(
        repository=repository,
        commit=commit,
        message=message,
        ref=ref,
        has_time=table.one_of("time", ("committed", "none")) != "none",
        environment=table.variables("environment"),
    )
