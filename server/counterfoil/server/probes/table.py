"""Reads one `[probes.NAME]` table: every key is known, every value has its type, every fault is named."""

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from counterfoil.server.probes.json_path import BadPath, JsonPath
from counterfoil.server.probes.template import BadTemplate, Template

__all__ = ["ProbeProblem", "ProbeTable", "from_environment", "missing_variables"]

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FROM_ENVIRONMENT = re.compile(r"\{env\.([A-Za-z_][A-Za-z0-9_]*)\}")


class ProbeProblem(Exception):
    """A probe that cannot be used as written: the name of the key, and what is wrong."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name, self.problem = name, problem


class ProbeTable:
    """The keys of one probe, each taken once; `close` refuses the ones that nobody took."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where = where
        self._values = dict(values)
        self._known: list[str] = []

    def problem(self, key: str, words: str) -> ProbeProblem:
        """Make the fault for a key."""
        return ProbeProblem(f"{self.where}.{key}", words)

    def has(self, key: str) -> bool:
        """Tell whether a key is there and not taken yet."""
        return key in self._values

    def take(self, key: str) -> Any:
        """Take a key's value as it stands; None where it is not there."""
        self._known.append(key)
        return self._values.pop(key, None)

    def text(self, key: str) -> str | None:
        """Take a text that is not empty."""
        value = self.take(key)
        if value is not None and (not isinstance(value, str) or not value.strip() or "\0" in value):
            raise self.problem(key, "it is a text")
        return value

    def needed(self, key: str) -> str:
        """Take a text that has to be there."""
        value = self.text(key)
        if value is None:
            raise self.problem(key, "it is missing")
        return value

    def one_of(self, key: str, accepted: Iterable[str]) -> str | None:
        """Take one of a few words."""
        value, words = self.take(key), tuple(accepted)
        if value is not None and value not in words:
            raise self.problem(key, f"it is one of {', '.join(words)}")
        return None if value is None else str(value)

    def seconds(self, key: str, *, default: float, most: float) -> float:
        """Take a duration above zero."""
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self.problem(key, f"it is a number of seconds above 0, at most {most:g}")
        return value

    def size(self, key: str, *, default: int, most: int) -> int:
        """Take a number of bytes."""
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.problem(key, f"it is a whole number of bytes from 1 to {most}")
        return value

    def template(self, key: str) -> Template | None:
        """Take a text with placeholders."""
        value = self.text(key)
        return None if value is None else self.as_template(key, value)

    def as_template(self, key: str, text: str) -> Template:
        """Read a text with placeholders."""
        try:
            return Template.read(text)
        except BadTemplate as error:
            raise self.problem(key, str(error)) from None

    def json_template(self, key: str, value: Any) -> Any:
        """Read the texts with placeholders inside a table."""
        if isinstance(value, str):
            return self.as_template(key, value)
        if isinstance(value, dict):
            return {name: self.json_template(f"{key}.{name}", part) for name, part in value.items()}
        if isinstance(value, list):
            return [self.json_template(f"{key}[{at}]", part) for at, part in enumerate(value)]
        if value is None or isinstance(value, bool | int | float):
            return value
        raise self.problem(key, "it is a text, a number, true, false, a list or a table of these")

    def path(self, key: str) -> JsonPath | None:
        """Take a JSON path."""
        value = self.text(key)
        return None if value is None else self.as_path(key, value)

    def as_path(self, key: str, text: str) -> JsonPath:
        """Read a JSON path."""
        try:
            return JsonPath.read(text)
        except BadPath as error:
            raise self.problem(key, str(error)) from None

    def folder(self, key: str) -> str | None:
        """Take the absolute path of a folder; what the working directory is must not matter."""
        value = self.text(key)
        if value is not None and not os.path.isabs(os.path.expanduser(value)):
            raise self.problem(key, "it is an absolute path")
        return None if value is None else os.path.expanduser(value)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Take a list of texts with at least one."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not value or not all(_is_text(item) for item in value):
            raise self.problem(key, "it is a list of texts")
        return tuple(value)

    def numbers(self, key: str, *, default: tuple[int, ...]) -> tuple[int, ...]:
        """Take an HTTP status, or a list of them."""
        value = self.take(key)
        if value is None:
            return default
        given = value if isinstance(value, list) else [value]
        for number in given:
            if isinstance(number, bool) or not isinstance(number, int) or not 100 <= number <= 599:
                raise self.problem(key, "it is an HTTP status from 100 to 599, or a list of them")
        return tuple(given)

    def variables(self, key: str) -> Mapping[str, str]:
        """Take a table of texts in which `{env.NAME}` stands for a variable of the server's environment."""
        value = self.take(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(_is_text(part) for part in value.values()):
            raise self.problem(key, "it is a table of texts")
        for name, text in value.items():
            if key == "environment" and not _ENVIRONMENT_NAME.fullmatch(name):
                raise self.problem(f"{key}.{name}", "it is no name of an environment variable")
            rest = _FROM_ENVIRONMENT.sub("", text)
            if "{" in rest or "}" in rest:
                raise self.problem(f"{key}.{name}", "only {env.NAME} may stand there; nothing on record does")
        return dict(value)

    def close(self) -> None:
        """Refuse what is left.

        Raises:
            ProbeProblem: an unknown key, with the nearest known one.
        """
        for key in self._values:
            near = difflib.get_close_matches(key, self._known, n=1, cutoff=0.51)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(self._known)}"
            raise self.problem(key, f"it is not known{hint}")


def from_environment(values: Mapping[str, str]) -> dict[str, str] | None:
    """Put the server's environment in for `{env.NAME}`; None where a variable is not set."""
    filled = {}
    for name, text in values.items():
        missing = [match[1] for match in _FROM_ENVIRONMENT.finditer(text) if match[1] not in os.environ]
        if missing:
            return None
        filled[name] = _FROM_ENVIRONMENT.sub(lambda match: os.environ[match[1]], text)
    return filled


def missing_variables(values: Mapping[str, str]) -> list[str]:
    """Name the variables that `{env.NAME}` asks for and nobody has set."""
    asked = [match[1] for text in values.values() for match in _FROM_ENVIRONMENT.finditer(text)]
    return [f"the environment variable {name} is not set" for name in asked if name not in os.environ]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value
