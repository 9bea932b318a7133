"""Starts the programs of servers behind the gateway; loads nothing heavy, so that they start while we load.

A program is a server's own process with pipes to its stdin and stdout, in a process group of its own, so that
what it starts in turn ends with it. `pipes` speaks to it and ends it.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress

from counterfoil.server.gateway.servers import ServerSpec, Unreachable
from counterfoil.server.probes.table import from_environment, missing_variables
from counterfoil.store.domain.untrusted import escape_untrusted

__all__ = ["Program", "filled", "start_programs"]

_READ_BYTES = 64 * 1024
_MOST_AT_ONCE = 64
"""A program that never stops talking must not hold the event loop."""


class Program:
    """One started program. `to_it` and `from_it` are our ends of its stdin and stdout; neither ever blocks.

    Raises:
        Unreachable: it cannot be started, or a variable that it needs is not set; it says which.
    """

    def __init__(self, spec: ServerSpec) -> None:
        environment = {**os.environ, **filled(spec.environment)}
        try:
            self._process = subprocess.Popen(
                spec.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=environment,
                cwd=spec.folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Unreachable(_why_not_started(spec, error, environment.get("PATH"))) from None
        if self._process.stdin is None or self._process.stdout is None:
            raise LookupError("a program without pipes")
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.to_it, self.from_it = self._stdin.fileno(), self._stdout.fileno()
        for descriptor in (self.to_it, self.from_it):
            os.set_blocking(descriptor, False)

    @property
    def is_gone(self) -> bool:
        """True once the program itself has ended; what it started may still run."""
        return self._process.poll() is not None

    @property
    def is_wholly_gone(self) -> bool:
        """True once nothing is left of its process group, as far as may be known."""
        self._process.poll()
        return not self._signal(0)

    def close_stdin(self) -> None:
        """Tell the program that nothing more comes; idempotent."""
        with suppress(OSError):
            self._stdin.close()

    def close_stdout(self) -> None:
        """Give up what the program may still say; idempotent."""
        with suppress(OSError):
            self._stdout.close()

    def drain(self) -> None:
        """Drop some of what the program has said: one that waits for its reader cannot end."""
        with suppress(OSError, ValueError):
            for _ in range(_MOST_AT_ONCE):
                if not self._stdout.read(_READ_BYTES):
                    break

    def terminate(self) -> None:
        """Ask the program, and all that it started, to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the program, and all that it started."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> bool:
        """Signal the group, which has the id of its first process; False where there is none any more."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # It changed its user, or is not reaped yet: no sign that it is gone.
        return True


def _why_not_started(spec: ServerSpec, error: OSError | ValueError, path: str | None) -> str:
    """Say what is wrong with a program that the system would not start, and what would be right."""
    program, folder = (escape_untrusted(str(word), limit=200) for word in (spec.command[0], spec.folder))
    if isinstance(error, FileNotFoundError | NotADirectoryError) and not os.path.isdir(spec.folder or "."):
        return f"the folder that it is to be started in is not there: {folder}"
    if isinstance(error, FileNotFoundError):
        if shutil.which(spec.command[0], path=path) is not None:
            return f"{program} is a script, and what is to run it (its #! line) is not there"
        if os.sep in spec.command[0]:
            return f"there is no program {program}: check its path"
        return (
            f"there is no program {program} in any folder of PATH: install it, or give its whole path (the "
            "PATH of a client that was not started from a shell is often shorter)"
        )
    if isinstance(error, PermissionError):
        return f"{program} may not be executed: check that it is a program, and its permissions"
    why = error.strerror if isinstance(error, OSError) else str(error)
    return f"{program} cannot be started: {why}"


def start_programs(specs: Iterable[ServerSpec]) -> dict[str, Program]:
    """Start the programs of servers before they are needed, by the server's name.

    One that cannot be started is left out: whoever needs it tries again, and tells why.
    """
    started = {}
    for spec in specs:
        if spec.url is None:
            with suppress(Unreachable):
                started[spec.name] = Program(spec)
    return started


def filled(values: Mapping[str, str]) -> dict[str, str]:
    """Fill the variables of the environment into the values of a table.

    Raises:
        Unreachable: one of them is not set; it is named.
    """
    given = dict(values)
    found = from_environment(given)
    if found is None:
        raise Unreachable("; ".join(missing_variables(given)))
    return found
