"""Tells which version of Counterfoil this is, and where it was installed from."""

__all__ = ["source", "source_in", "version"]


def version() -> str:
    """Give the version of the installed distribution, or 0+unknown where it runs from a bare folder."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("counterfoil")
    except PackageNotFoundError:
        return "0+unknown"


def source() -> str | None:
    """Give what an installer takes to install this very program again; None where an index gives it."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return source_in(distribution("counterfoil").read_text("direct_url.json"))
    except PackageNotFoundError:
        return None


def source_in(direct_url: str | None) -> str | None:
    """Read the folder, the archive or the commit of a repository out of `direct_url.json` (PEP 610)."""
    import json
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    if not direct_url:
        return None
    told = json.loads(direct_url)
    url: str = told["url"]
    if vcs := told.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    elif url.startswith("file:"):
        url = url2pathname(urlsplit(url).path)
    return f"{url}#subdirectory={told['subdirectory']}" if told.get("subdirectory") else url
