"""What a command line of the shell was read as: the programs that it runs, and how they hang together."""

from msgspec import Struct

from counterfoil.server.hooks.shell.words import Word
from counterfoil.server.hooks.shell.wrappers import program_of

__all__ = ["Invocation", "Script"]


class Invocation(Struct, frozen=True, kw_only=True):
    """One program that runs. `folder` is where, None where that cannot be told.

    `decides`: when the whole command ends with status 0, this has succeeded. `fed_by` are the programs whose
    output it reads, `stdin` the text of a here-document, `reads` the file that its input is taken from.
    `writes` are the files that its output goes to; with `appends`, behind what is there. `is_fed`: it is a
    shell, and what it reads is its script. `is_elsewhere`: the files that it sees are not the ones here.
    """

    words: tuple[Word, ...]
    env: tuple[tuple[str, Word], ...] = ()
    folder: str | None = None
    decides: bool = False
    fed_by: tuple["Invocation", ...] = ()
    stdin: Word | None = None
    reads: Word | None = None
    writes: tuple[Word, ...] = ()
    appends: bool = False
    is_fed: bool = False
    is_elsewhere: bool = False

    @property
    def program(self) -> str:
        """The program's name without its folder."""
        return program_of(self.words)


class Script(Struct, frozen=True, kw_only=True):
    """All programs of a command in their order. `is_whole` off: parts were not understood.

    `assigned` are all values that it gives to variables, to functions and to what a loop goes through, as far
    as they are written in it, `unread` the parts of it that are no shell script.
    """

    invocations: tuple[Invocation, ...]
    is_whole: bool = True
    assigned: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
