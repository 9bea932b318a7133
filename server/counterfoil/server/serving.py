"""Serves over stdio as flags, environment and file say; a person at a terminal is told what is waited for."""

import sys
from collections.abc import Mapping

from counterfoil.server.lifecycle import Ending, serve
from counterfoil.server.opener import journal_opener
from counterfoil.server.settings import SettingsError, load_settings
from counterfoil.server.version import version

__all__ = ["serve_stdio"]


def serve_stdio(flags: Mapping[str, str | None], *, ending: Ending | None = None) -> int:
    """Serve MCP over stdio with these flags until the client goes; give the exit code."""
    try:
        settings = load_settings(flags=flags)
    except SettingsError as error:
        print(f"counterfoil: {error}", file=sys.stderr)  # noqa: T201 - logs are not set up yet
        return error.exit_code
    if sys.stdin is not None and sys.stdin.isatty():
        hint = "counterfoil: waiting for an MCP client on stdin; for people there is `counterfoil --help`"
        print(hint, file=sys.stderr)  # noqa: T201
    return serve(settings, journal_opener(settings), version=version(), ending=ending)
