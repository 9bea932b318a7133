"""The parser of the shell's language, loaded without what its package brings for other uses."""

from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Parser

__all__ = ["shell_parser"]


@cache
def shell_parser() -> "Parser":
    """Give the parser; it is loaded when it is first asked for, since a call of a tool needs none."""
    from tree_sitter import Language, Parser

    return Parser(Language(_bash()))


def _bash() -> object:
    """Give the grammar of bash.

    The package is a compiled module and a function for its query files, for which it loads
    `importlib.resources`, and with that archives, temporary files and random numbers: a tenth of what a hook
    has to load. The compiled module is asked alone, or, where it does not lie where it used to, the package.
    """
    package = PathFinder.find_spec("tree_sitter_bash")
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec("tree_sitter_bash._binding", places)
    if spec is None or spec.loader is None:
        import tree_sitter_bash

        return tree_sitter_bash.language()
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.language()
