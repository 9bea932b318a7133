"""`git_ref`: does a ref of a repository or a remote stand at a commit, or beyond it?"""

from collections.abc import Mapping

from msgspec import Struct

from counterfoil.server.probes.git import as_commit, as_ref, git, is_same_commit, lacking_repository
from counterfoil.server.probes.probe import Inconclusive, Seen
from counterfoil.server.probes.process import lacking_program
from counterfoil.server.probes.table import ProbeTable, missing_variables
from counterfoil.server.probes.template import Template
from counterfoil.store.probing import ProbeSubject

__all__ = ["GitRef", "read_git_ref"]


class GitRef(Struct, frozen=True, kw_only=True):
    """Looks at `ref` of a `repository` on this machine, or of a `remote`.

    A remote tells only where the ref stands: at another commit than `sha` it may have been moved on since, so
    that only the commit that it had `before` shows that nothing happened.
    """

    ref: Template
    sha: Template
    repository: str | None
    remote: str | None
    before: Template | None
    environment: Mapping[str, str]
    kind: str = "commit"

    @property
    def uses_external_id(self) -> bool:
        """True where the commit is the one on record."""
        return "external_id" in (*self.sha.names, *self.ref.names)

    async def see(self, subject: ProbeSubject) -> Seen:
        """Look where the ref stands.

        Raises:
            Inconclusive: it cannot be read, or stands at a commit that says neither yes nor no.
        """
        ref, sha = as_ref(self.ref, subject), as_commit(self.sha, subject)
        before = None if self.before is None else as_commit(self.before, subject)
        stands_at = await (self._local(ref) if self.remote is None else self._remote(ref))
        evidence = {"ref": ref, "stands_at": stands_at or "nothing"}
        if stands_at is None and not self.ref.names:
            raise Inconclusive("there is no such ref as the configuration names")
        if stands_at is None or is_same_commit(stands_at, before):
            return Seen(found=False, evidence=evidence)
        if not is_same_commit(stands_at, sha) and not await self._is_beyond(sha, ref):
            return Seen(found=False, evidence=evidence)
        is_on_record = subject.external_id is not None and (
            is_same_commit(sha, subject.external_id) or is_same_commit(subject.external_id.lower(), sha)
        )
        return Seen(
            found=True,
            external_id=subject.external_id if is_on_record else f"{ref}@{sha}",
            is_own_form=not is_on_record,
            evidence=evidence,
        )

    async def _is_beyond(self, sha: str, ref: str) -> bool:
        """Tell whether the ref has gone on from the commit; only a whole repository at hand can.

        It has not where the commit never arrived, or comes after the one that the ref stands at.

        Raises:
            Inconclusive: it cannot be told, or the commit is there and the ref stands at one beside it: the
                other may have gone in instead of it, or have been forced over it.
        """
        if self.repository is None:
            raise Inconclusive("the ref stands at another commit, and may have been moved on since")
        code, _ = await self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{sha}^{{commit}}")
        is_there = code == 0
        if is_there:
            code, _ = await self._git("merge-base", "--is-ancestor", sha, ref)
        if code not in (0, 1):
            raise Inconclusive("git could not tell whether the ref reaches the commit")
        if code == 1 and await self._git("rev-parse", "--is-shallow-repository") != (0, "false"):
            raise Inconclusive("the repository is shallow: what is missing in it may be elsewhere")
        if code == 1 and is_there and await self._git("merge-base", "--is-ancestor", ref, sha) != (0, ""):
            raise Inconclusive("the ref stands at a commit beside this one")
        return code == 0

    async def _local(self, ref: str) -> str | None:
        code, out = await self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
        if code == 1:
            return None
        if code != 0 or not out:
            raise Inconclusive("git could not read the repository")
        return out

    async def _remote(self, ref: str) -> str | None:
        ended = await git(
            "ls-remote",
            "--exit-code",
            "--",
            self.remote or "",
            ref,
            f"{ref}^{{}}",
            environment=self.environment,
        )
        if ended.code not in (0, 2):
            raise Inconclusive("git could not ask the remote")
        text = ended.out.decode("utf-8", errors="replace")
        lines = [line.split("\t") for line in text.splitlines()]
        stands_at = {line[1]: line[0].lower() for line in lines if len(line) == 2}
        # A name is a pattern to ls-remote, which matches the ends of longer ones too. A tag with a message
        # has the commit that it is of under the second name.
        return stands_at.get(f"{ref}^{{}}") or stands_at.get(ref)

    async def _git(self, *arguments: str) -> tuple[int, str]:
        ended = await git(*arguments, environment=self.environment, repository=self.repository)
        return ended.code, ended.out.decode("ascii", errors="replace").strip().lower()

    def lacks(self) -> list[str]:
        """Say if git, the repository or a variable is not there; a remote is not asked."""
        missing = lacking_program("git") if self.repository is None else lacking_repository(self.repository)
        return [*missing, *missing_variables(self.environment)]


def read_git_ref(table: ProbeTable) -> GitRef:
    """Read the keys of a `git_ref` probe.

    Raises:
        ProbeProblem: naming the key.
    """
    ref, sha = table.template("ref"), table.template("sha")
    repository, remote, before = table.folder("repository"), table.text("remote"), table.template("before")
    if ref is None:
        raise table.problem("ref", "it is missing, e.g. refs/heads/main")
    if (repository is None) == (remote is None):
        raise table.problem("repository", "one of repository and remote is given")
    if remote is not None and (remote.startswith("-") or "::" in remote):
        raise table.problem("remote", "it is a URL or an absolute path")
    sha = sha or Template.read("{external_id}")
    if not (*sha.names, *ref.names):
        raise table.problem("sha", "it names no operation; a placeholder such as {args.commit} does")
    return GitRef(
        ref=ref,
        sha=sha,
        repository=repository,
        remote=remote,
        before=before,
        environment=table.variables("environment"),
    )
