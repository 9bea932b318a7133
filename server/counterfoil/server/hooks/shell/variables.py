"""What the variables of a shell hold, as far as the script that sets them says it."""

import os
from collections.abc import Iterable
from typing import Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.server.hooks.shell.secret_words import is_secret_name
from counterfoil.server.hooks.shell.tree import assigned_in
from counterfoil.server.hooks.shell.words import Known, Room, Word, word_of, words_of

__all__ = ["Variables"]

_ALIKE = ("HOME", "CLAUDE_PROJECT_DIR")
"""Variables that a client's shell and its hooks surely have alike."""


class Variables(Struct, kw_only=True):
    """The variables of one shell at one point of its script.

    `told` are those whose values are known, `exported` those that its programs are given. `assigned` are all
    values that the whole command gives to any variable of any of its shells, and all of these share `room`.
    """

    told: dict[str, Word] = field(default_factory=dict)
    exported: dict[str, Word] = field(default_factory=dict)
    assigned: list[str] = field(default_factory=list)
    room: Room = field(default_factory=Room)

    @classmethod
    def of_this_process(cls) -> Self:
        """Give what a shell has that the client starts."""
        return cls(told=_alike())

    @property
    def known(self) -> Known:
        """What may be filled in now."""
        return Known(self.told, self.room)

    def copied(self) -> Self:
        """Give those of a subshell: what it changes, the shell around it does not see."""
        return replace(self, told=dict(self.told), exported=dict(self.exported))

    def without_values(self) -> Self:
        """Give those in the body of a function, which runs nobody knows when."""
        return replace(self, told={})

    def handed_on(self, env: Iterable[tuple[str, Word]], *, is_elsewhere: bool) -> Self:
        """Give those of a shell that is started with `env`: what is exported, and no other variable."""
        if is_elsewhere:
            return replace(self, told={}, exported={})
        return replace(
            self, told={**_alike(), **{name: word for name, word in env if word.is_told}}, exported={}
        )

    def assign(self, node: Any, *, folder: str | None, is_exported: bool = False) -> None:
        """Note what a variable holds from here on, where that can be told; files are seen from `folder`."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            return self.forget(assigned_in(node))
        key = str(name.text.decode("utf-8", "replace"))
        is_added = any(child.type == "+=" for child in node.children)
        if value is not None and value.type == "array":
            return self._fill(key, value, is_added=is_added)
        word = Word("") if value is None else word_of(value, self.known, is_quoted=True)
        self.assigned.append(word.script)
        is_plain = not is_added
        is_exported = is_exported or key in self.exported
        self.forget((key,))
        # What a secret is stays out of every word that is kept.
        if is_plain and word.is_told and not is_secret_name(key):
            if word.is_static:
                self.told[key] = word
            elif folder is not None:
                paths = (os.path.join(folder, os.path.expanduser(name)) for name in word.reads)
                self.told[key] = Word(word.text, is_static=False, reads=tuple(paths))
        if is_exported:
            self.exported[key] = word if is_plain else Word(f"${key}", is_static=False)
        return None

    def _fill(self, key: str, value: Any, *, is_added: bool) -> None:
        """Note what an array holds from here on, where that can be told; `is_added`: behind what it held."""
        items = [word for child in value.named_children for word in words_of(child, self.known)]
        self.assigned.append(" ".join(word.script for word in items))
        held = self.known.items(key) if is_added else ()
        self.forget((key,))
        is_told = all(word.is_static and not word.text.startswith("[") for word in items)
        if held is not None and is_told and not is_secret_name(key):
            items = [*held, *items]
            self.told[key] = Word(items[0].text if items else "", items=tuple(items))

    def declare(self, node: Any, *, folder: str | None) -> None:
        """Note what `export`, `declare` and their like make of variables."""
        kinds = [child.type for child in node.children]
        words = [child.text for child in node.named_children if child.type == "word"]
        is_exported = "export" in kinds or any(word.startswith(b"-") and b"x" in word for word in words)
        is_plain = not any(word.startswith((b"-n", b"+")) for word in words)
        for child in node.named_children:
            if child.type == "variable_assignment":
                self.assign(child, folder=folder, is_exported=is_exported and is_plain)
            elif child.type == "variable_name":
                name = str(child.text.decode("utf-8", "replace"))
                if is_exported and is_plain:
                    self.exported[name] = self.told.get(name, Word(f"${name}", is_static=False))
                else:
                    self.forget((name,))

    def forget(self, names: Iterable[str]) -> None:
        """Leave variables to the running shell."""
        for name in names:
            self.told.pop(name, None)
            if name in self.exported:
                self.exported[name] = Word(f"${name}", is_static=False)

    def forget_all(self) -> None:
        """Leave every variable to the running shell."""
        self.forget((*self.told, *self.exported))


def _alike() -> dict[str, Word]:
    return {name: Word(os.environ[name]) for name in _ALIKE if os.environ.get(name)}
