"""One invocation of a person's command: its settings, the form of its answer, and its journal."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from counterfoil.server.opener import open_from
from counterfoil.server.settings import Settings, load_settings
from counterfoil.server.version import version
from counterfoil.store.domain.commands import Caller, OperationRef
from counterfoil.store.errors import InvalidArgument, JournalUnavailable

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["Request", "is_nowhere", "operation_ref"]


class Request(Struct, kw_only=True, dict=True):
    """What was asked for around the command itself. `flags` are the settings given as options."""

    as_json: bool = False
    flags: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def settings(self) -> Settings:
        """The settings that hold for this command.

        Raises:
            SettingsError: something in them is unknown or wrong.
        """
        from counterfoil.server.logs import configure_logs

        settings = load_settings(flags=self.flags)
        configure_logs(settings.log_level)
        return settings

    @asynccontextmanager
    async def journal(self) -> "AsyncIterator[Journal]":
        """Open the journal that is there; a person's command never makes one.

        Raises:
            JournalUnavailable, UnsupportedVersion: it is not there, or cannot be used.
        """
        path = self.settings.journal_path
        if path is not None and is_nowhere(path):
            raise JournalUnavailable(
                f"there is no journal at {path} yet",
                fix="a server makes it when a client first calls a tool (`counterfoil install CLIENT` "
                "connects one, `counterfoil demo` shows what it is for), or `counterfoil migrate` makes it "
                "now; if there should be one, check what names it (`counterfoil doctor` shows what counts)",
            )
        async with open_from(self.settings, is_made=False) as journal:
            yield journal

    def caller(self, command: str, *, is_person: bool = False) -> Caller:
        """Give the caller that this process is, under a connection of its own.

        No conversation is named: this process must not pass for the holder of an attempt, even if an agent
        started it.
        """
        return Caller(
            connection=f"cli-{secrets.token_hex(8)}",
            principal="local",
            client="counterfoil",
            client_version=version(),
            tool=f"cli {command}",
            traceparent=self.settings.traceparent,
            is_person=is_person,
        )


def is_nowhere(path: Path) -> bool:
    """Tell whether no journal is at `path`; where only its side files are left, opening it says so."""
    return not path.exists() and not any(path.parent.glob(f"{path.name}-*"))


def operation_ref(words: tuple[str, ...]) -> OperationRef:
    """Give the operation that is meant by an id, or by a run and a key.

    Raises:
        InvalidArgument: neither one nor two words.
    """
    match words:
        case (operation,):
            return OperationRef(operation=operation)
        case (run, key):
            return OperationRef(run=run, key=key)
        case _:
            raise InvalidArgument(
                "operation", f"is named by {len(words)} words", accepted="its id, or its run and its key"
            )
