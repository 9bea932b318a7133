"""The rules that the search explores: the shipped modules themselves, or the same with a fault planted.

A planted fault is the shipped source with one line changed, loaded beside the shipped modules as a set of
its own, so that every module of the set sees the change and nothing else does.
"""

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

__all__ = ["Rules", "load_rules"]

_DOMAIN = "counterfoil.store.domain"
_SHARED = frozenset(("model", "instants"))
"""Plain data, the same in every set: facts made under one set of rules can be shown to another."""

_MODULES = (
    "events",
    "states",
    "terms",
    "drafting",
    "lookalikes",
    "outlook",
    "begin",
    "receipts",
    "failures",
    "findings",
    "performed",
    "undone",
    "denied",
    "reconciling",
    "closing",
    "progress",
)


class Rules:
    """The modules of the domain by their short names."""

    begin: Any
    closing: Any
    drafting: Any
    events: Any
    failures: Any
    outlook: Any
    findings: Any
    progress: Any
    receipts: Any
    reconciling: Any
    states: Any

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        for name, module in modules.items():
            setattr(self, name, module)


def load_rules(*, module: str | None = None, line: str = "", faulty: str = "") -> Rules:
    """Give the shipped rules, or a set in which `line` of `module` reads `faulty`.

    Raises:
        AssertionError: the line is not there exactly once; the fault has to be planted anew.
    """
    if module is None:
        return Rules({name: importlib.import_module(f"{_DOMAIN}.{name}") for name in _MODULES})
    assert module in _MODULES
    with _set_aside(), _planted(f"{_DOMAIN}.{module}", line, faulty):
        return Rules({name: importlib.import_module(f"{_DOMAIN}.{name}") for name in _MODULES})


@contextmanager
def _set_aside() -> Iterator[None]:
    """Take the domain's modules out of the interpreter's books, and put them back as they were."""
    package = importlib.import_module(_DOMAIN)
    attributes = dict(vars(package))
    names = [name for name in sys.modules if name.startswith(f"{_DOMAIN}.")]
    kept = {name: sys.modules.pop(name) for name in names if name.rpartition(".")[2] not in _SHARED}
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.startswith(f"{_DOMAIN}.")]:
            if name.rpartition(".")[2] not in _SHARED:
                del sys.modules[name]
        sys.modules.update(kept)
        vars(package).clear()
        vars(package).update(attributes)


@contextmanager
def _planted(name: str, line: str, faulty: str) -> Iterator[None]:
    finder = _FaultFinder(name, line, faulty)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _FaultFinder(MetaPathFinder):
    def __init__(self, name: str, line: str, faulty: str) -> None:
        self._name, self._line, self._faulty = name, line, faulty

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _FaultLoader(fullname, spec.origin, self._line, self._faulty)
        return spec


class _FaultLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, line: str, faulty: str) -> None:
        super().__init__(fullname, path)
        self._line, self._faulty = line, faulty

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source with the fault; compiled files of the shipped one are not looked at."""
        source = self.get_data(self.path).decode()
        found = source.count(self._line)
        assert found == 1, f"{fullname} holds {self._line!r} {found} times"
        code: CodeType = compile(source.replace(self._line, self._faulty), self.path, "exec")
        return code
