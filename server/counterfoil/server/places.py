"""Where a user's configuration and data are kept. Loads nothing: a hook asks at every call."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["configuration_folder", "data_folder", "home", "state_folder"]


def home(environ: "Mapping[str, str]") -> str:
    """Give the user's home."""
    return environ.get("HOME") or os.path.expanduser("~")


def configuration_folder(environ: "Mapping[str, str]", platform: str = sys.platform) -> str:
    """Give the folder of the user's configuration."""
    return _folder(environ, platform, variable="XDG_CONFIG_HOME", otherwise=".config")


def data_folder(environ: "Mapping[str, str]", platform: str = sys.platform) -> str:
    """Give the folder of the user's data."""
    return _folder(environ, platform, variable="XDG_DATA_HOME", otherwise=os.path.join(".local", "share"))


def state_folder(environ: "Mapping[str, str]", platform: str = sys.platform) -> str:
    """Give the folder of what is remembered between runs and is no data of the user's."""
    return _folder(environ, platform, variable="XDG_STATE_HOME", otherwise=os.path.join(".local", "state"))


def _folder(environ: "Mapping[str, str]", platform: str, *, variable: str, otherwise: str) -> str:
    named = environ.get(variable)
    # The XDG specification says that a relative one is to be ignored.
    if named and os.path.isabs(named):
        return os.path.join(named, "counterfoil")
    if platform == "darwin":
        otherwise = os.path.join("Library", "Application Support")
    return os.path.join(home(environ), otherwise, "counterfoil")
