"""Where a command writes a new file: seen to before the journal is opened, which is not at fault then."""

from pathlib import Path

from counterfoil.store.errors import InvalidArgument

__all__ = ["new_file"]


def new_file(given: Path, *, name: str) -> Path:
    """Give the absolute path of a file that is to be made.

    Raises:
        InvalidArgument: `name` is no file in a folder that is there.
    """
    path = given.expanduser().absolute()
    if not given.name:
        raise InvalidArgument(name, "names no file", accepted="a new file")
    if not path.parent.is_dir():
        raise InvalidArgument(
            name, f"there is no folder {path.parent}", accepted="a new file in a folder that is there"
        )
    return path
