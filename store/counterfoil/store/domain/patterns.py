"""Patterns that are compiled when they are first used: a process of one call uses few of them.

Compiling one takes as long as thousands of its uses, and a hook is started for every call of an agent.
"""

import re
from fnmatch import fnmatchcase
from typing import Any, cast

__all__ = ["lazy_pattern", "matches_glob"]


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Give what is used as `re.compile(text, flags)` is; a mistake in `text` shows at its first use."""
    return cast("re.Pattern[str]", _Uncompiled(text, flags))


def matches_glob(text: str, glob: str) -> bool:
    """Tell what `fnmatchcase` tells; a glob that is a plain word is compared, and none is compiled for it."""
    if "*" not in glob and "?" not in glob and "[" not in glob:
        return text == glob
    return glob == "*" or fnmatchcase(text, glob)


class _Uncompiled:
    """Takes over each method of the pattern when it is first asked for; later calls go there directly."""

    def __init__(self, text: str, flags: int) -> None:
        self._source = text, flags

    def __getattr__(self, name: str) -> Any:
        compiled = self.__dict__.get("_compiled")
        if compiled is None:
            compiled = self._compiled = re.compile(*self._source)
        found = getattr(compiled, name)
        setattr(self, name, found)
        return found
