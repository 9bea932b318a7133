"""Tells which version of Counterfoil this is."""

__all__ = ["version"]


def version() -> str:
    """Give the version of the installed distribution, or 0+unknown where it runs from a bare folder."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("counterfoil")
    except PackageNotFoundError:
        return "0+unknown"
