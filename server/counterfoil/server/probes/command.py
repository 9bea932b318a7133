"""`command`: runs a program of the operator's; its exit code says whether the effect is there."""

import os
import re
from collections.abc import Mapping

from msgspec import Struct

from counterfoil.server.probes.json_reading import reference
from counterfoil.server.probes.probe import Inconclusive, Seen
from counterfoil.server.probes.process import environment_of, lacking_program, run_program
from counterfoil.server.probes.table import ProbeTable, missing_variables
from counterfoil.server.probes.template import Template, stands_alone
from counterfoil.store.probing import ProbeSubject

__all__ = ["CommandLook", "lacking_folder", "program_of", "read_command"]

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "csh", "tcsh", "busybox"))
_TAKES_SCRIPT = re.compile(r"-[a-z]*c")


class CommandLook(Struct, frozen=True, kw_only=True):
    """Runs `arguments`, each template one argument.

    Exit code 0 is found, `not_found` is not found, anything else cannot tell.
    """

    arguments: tuple[Template, ...]
    environment: Mapping[str, str]
    folder: str | None
    reads_reference: bool
    not_found: int
    most_bytes: int
    kind: str = "other"

    @property
    def uses_external_id(self) -> bool:
        """True where an argument is the reference on record."""
        return any("external_id" in argument.names for argument in self.arguments)

    async def see(self, subject: ProbeSubject) -> Seen:
        """Run it once.

        Raises:
            Inconclusive: a value cannot be an argument, or the program does not say yes or no.
        """
        ended = await run_program(
            [stands_alone(argument, subject) for argument in self.arguments],
            environment=environment_of(self.environment),
            folder=self.folder,
            most_bytes=self.most_bytes,
        )
        if ended.code == self.not_found:
            return Seen(found=False, evidence={"exit_code": ended.code})
        if ended.code != 0:
            raise Inconclusive(f"the program ended with exit code {ended.code}")
        first = ended.out.split(b"\n", 1)[0]
        external_id = None
        if self.reads_reference and first.strip():
            try:
                external_id = reference(first.decode("utf-8").strip())
            except UnicodeDecodeError:
                raise Inconclusive("the program's first line is no UTF-8 text") from None
        return Seen(found=True, external_id=external_id, evidence={"exit_code": ended.code})

    def lacks(self) -> list[str]:
        """Say if the program, its folder or a variable is not there."""
        program = self.arguments[0].source
        return [
            *lacking_program(program),
            *lacking_folder(self.folder),
            *missing_variables(self.environment),
        ]


def lacking_folder(folder: str | None) -> list[str]:
    """Say if a working folder is not there."""
    return [] if folder is None or os.path.isdir(folder) else [f"there is no folder {folder}"]


def program_of(table: ProbeTable) -> tuple[str, ...]:
    """Take the `command` of a probe: a program by its absolute path or a name on PATH, and its arguments.

    Raises:
        ProbeProblem: it is missing, or relative to the working directory.
    """
    command = table.texts("command")
    if command is None:
        raise table.problem("command", 'it is a list of texts: ["/usr/local/bin/find-mail", "{operation}"]')
    if "/" in command[0] and not os.path.isabs(command[0]):
        raise table.problem("command", "the program is an absolute path, or a name on PATH")
    if "{" in command[0] or command[0].startswith("-"):
        raise table.problem("command", "the program is fixed: no placeholder stands in it")
    return command


def read_command(table: ProbeTable) -> CommandLook:
    """Read the keys of a `command` probe.

    Raises:
        ProbeProblem: naming the key.
    """
    arguments = tuple(table.as_template("command", text) for text in program_of(table))
    names = [name for argument in arguments for name in argument.names]
    if not names:
        raise table.problem("command", "it names no operation; a placeholder such as {operation} does")
    words = [os.path.basename(argument.source) for argument in arguments]
    for at, word in enumerate(words[:-1]):
        script = arguments[at + 1]
        if _TAKES_SCRIPT.fullmatch(word) and script.names and _SHELLS.intersection(words[:at]):
            raise table.problem(
                "command", 'no placeholder stands in a script; write "$1" there and give the value after it'
            )
    not_found = table.take("not_found")
    not_found = 1 if not_found is None else not_found
    if isinstance(not_found, bool) or not isinstance(not_found, int) or not 1 <= not_found <= 125:
        raise table.problem("not_found", "it is an exit code from 1 to 125")
    return CommandLook(
        not_found=not_found,
        arguments=arguments,
        environment=table.variables("environment"),
        folder=table.folder("cwd"),
        reads_reference=table.one_of("external_id", ("first_line", "none")) == "first_line",
        most_bytes=table.size("most_bytes", default=64 * 1024, most=2**24),
    )
