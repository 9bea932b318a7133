"""Installs into a client, and takes it back: first what will change is worked out, then it is done."""

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.server.installing.files import (
    ChangedMeanwhile,
    back_up,
    backups_of,
    dangling_link,
    digest_of,
    missing_folders,
    read_text,
    write_whole,
)
from counterfoil.server.installing.ledger import Installed, InstalledFile, forget, keep, read
from counterfoil.server.installing.placing import Addition, Misshapen, Placement, place, take_back
from counterfoil.store.errors import Fault

__all__ = ["Change", "NotInstallable", "install", "plan_install", "plan_uninstall", "uninstall"]

_T = TypeVar("_T")


class NotInstallable(Fault):
    """A client's file cannot be changed without harm; nothing was."""

    code = "refused"


class Change(Struct, frozen=True, kw_only=True):
    """What becomes of one file: its text before and after, None where there is no file.

    `backup` is the file as it was: made when it is installed into, removed when it is put back. `kept` are
    those that stay beside it after that. `notes` say what was left to its owner.
    """

    path: str
    before: str | None
    after: str | None
    entry: InstalledFile | None = None
    backup: str | None = None
    kept: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_change(self) -> bool:
        """Tell whether the file is to be another than it is."""
        return self.before != self.after

    @property
    def diff(self) -> str:
        """Give the change as a unified diff."""
        before, after = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(before, after, self.path, self.path, n=1)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def plan_install(
    folder: str, client: str, placements: Mapping[str, Sequence[Placement]]
) -> tuple[Change, ...]:
    """Work out what installing changes; `folder` holds the ledger.

    Raises:
        NotInstallable: a file cannot be read, has not the shape that its client reads, or would be made
            through a link to nothing.
    """
    installed = _ledger(folder, client)
    changes = []
    for path in dict.fromkeys((*placements, *installed.files)):
        entry = installed.files.get(path)
        _check_link(path)
        before = _read(path)
        try:
            placed = place(before, placements.get(path, ()), () if entry is None else entry.additions)
        except Misshapen as problem:
            raise _refusal(path, str(problem)) from problem
        after = placed.text if placed.text or (before is not None and not _is_ours(entry)) else None
        changes.append(
            Change(
                path=path,
                before=before,
                after=after,
                entry=_entry(entry, placed.additions, before, after, path),
                notes=tuple(
                    f"{path}: {_named(one)} stands there already, and is left" for one in placed.left
                ),
            )
        )
    return tuple(changes)


def install(folder: str, client: str, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Carry out what was worked out, each change with a backup; give the changes with their backups.

    Raises:
        NotInstallable: a file changed meanwhile, or cannot be written. What was done till then stands, and
            is in the ledger.
    """
    done = [_with_backup(change) for change in changes]
    entries = {change.path: change.entry for change in done if change.entry is not None}
    _guarded(lambda: keep(folder, client, Installed(files=entries)), folder)
    for change in done:
        _carry_out(change)
    if not entries:
        forget(folder, client)
    return tuple(done)


def plan_uninstall(folder: str, client: str) -> tuple[Change, ...]:
    """Work out what taking back changes: nothing that a person changed since is touched.

    Raises:
        NotInstallable: a file cannot be read any more.
    """
    changes = []
    for path, entry in _ledger(folder, client).files.items():
        before = _read(path)
        if before is None:
            changes.append(Change(path=path, before=None, after=None, entry=entry))
            continue
        original = None if entry.backup is None else read_text(entry.backup)
        is_untouched = digest_of(before) == entry.digest
        if is_untouched and not entry.was_there:
            changes.append(Change(path=path, before=before, after=None, entry=entry))
            continue
        if is_untouched and original is not None:
            backup = entry.backup
            changes.append(Change(path=path, before=before, after=original, entry=entry, backup=backup))
            continue
        try:
            after, changed = take_back(before, entry.additions)
        except Misshapen as problem:
            raise _refusal(path, str(problem)) from problem
        is_gone = not entry.was_there and after.strip() in ("", "{}")
        notes = tuple(f"{path}: {_named(one)} was changed since, and is left" for one in changed)
        changes.append(
            Change(path=path, before=before, after=None if is_gone else after, entry=entry, notes=notes)
        )
    return tuple(
        replace(change, kept=tuple(one for one in backups_of(change.path) if one != change.backup))
        for change in changes
    )


def uninstall(folder: str, client: str, changes: Sequence[Change]) -> None:
    """Carry out what was worked out, and remove the folders and backups that are not needed any more.

    Raises:
        NotInstallable: a file changed meanwhile, or cannot be written.
    """
    for change in changes:
        _carry_out(change)
        if change.backup is not None:
            Path(change.backup).unlink(missing_ok=True)
        for made in reversed(() if change.entry is None else change.entry.folders):
            with suppress(OSError):
                os.rmdir(made)
    forget(folder, client)


def _entry(
    entry: InstalledFile | None,
    additions: tuple[Addition, ...],
    before: str | None,
    after: str | None,
    path: str,
) -> InstalledFile | None:
    if not additions or after is None:
        return None
    if entry is None:
        digest, was_there = digest_of(after), before is not None
        return InstalledFile(
            additions=additions, digest=digest, was_there=was_there, folders=missing_folders(path)
        )
    # Where the file is as the last installation left it, its backup is still what stood there before; where
    # it is not, restoring that one would take a person's changes back as well.
    is_untouched = before is not None and digest_of(before) == entry.digest
    digest = digest_of(after) if is_untouched else ""
    return replace(entry, additions=additions, digest=digest)


def _with_backup(change: Change) -> Change:
    if not change.is_change or change.before is None:
        return change
    backup = _guarded(lambda: back_up(change.path, change.before or ""), change.path)
    entry = change.entry
    if entry is not None and entry.backup is None and entry.was_there:
        entry = replace(entry, backup=backup)
    return replace(change, backup=backup, entry=entry)


def _carry_out(change: Change) -> None:
    if not change.is_change:
        return
    if change.after is None:
        _guarded(lambda: Path(change.path).unlink(missing_ok=True), change.path)
        return
    text = change.after
    _guarded(lambda: write_whole(change.path, text, expected=change.before, is_checked=True), change.path)


def _is_ours(entry: InstalledFile | None) -> bool:
    return entry is not None and not entry.was_there


def _named(one: Placement | Addition) -> str:
    return "the file" if one.kind == "text" else ".".join(str(step) for step in one.path)


def _ledger(folder: str, client: str) -> Installed:
    try:
        return read(folder, client)
    except (OSError, ValueError) as problem:
        raise _refusal(os.path.join(folder, "installed", f"{client}.json"), str(problem)) from problem


def _read(path: str) -> str | None:
    try:
        return read_text(path)
    except OSError as problem:
        raise _refusal(path, problem.strerror or type(problem).__name__) from problem


def _check_link(path: str) -> None:
    """Refuse a way that ends in nothing: what a link points to would be made, and could not be taken back."""
    link = dangling_link(path)
    if link is not None:
        raise NotInstallable(
            f"{link} is a link to {os.readlink(link)}, which is not there",
            fix="make what it points to, or remove the link",
        )


def _refusal(path: str, why: str) -> NotInstallable:
    return NotInstallable(f"{path} cannot be changed: {why}", fix="mend the file, or change it by hand")


def _guarded(work: Callable[[], _T], path: str) -> _T:
    try:
        return work()
    except ChangedMeanwhile as problem:
        raise NotInstallable(
            f"{path} was changed while this ran", fix="run the same command again"
        ) from problem
    except OSError as problem:
        raise _refusal(path, problem.strerror or type(problem).__name__) from problem
