"""Where the journals of crash tests lie: in a file or in a database; what is done with them is the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from postgres_cluster import MISSING, installed_binaries, running_cluster

__all__ = ["JOURNALS_HELP", "Place", "Places", "place_named", "places"]

Place = Path | str
"""A file, or the URL of a database."""

JOURNALS_HELP = (
    "sqlite (a file), postgresql (a server made for this and thrown away), "
    "or the URL of an empty database of PostgreSQL, which is left empty"
)


def place_named(text: str) -> Place:
    """Give the place that a command line names."""
    return text if "://" in text else Path(text)


class Places:
    """Gives each scenario a journal of its own, which nobody has made yet."""

    def __init__(self, url: str | None) -> None:
        self._url = url

    def new(self, folder: Path) -> Place:
        """Give where the journal of a scenario in `folder` lies; whatever the one before left is gone."""
        if self._url is None:
            return folder / "journal.db"
        empty(self._url)
        return self._url


def empty(url: str) -> None:
    """Remove the journal in a database; those who were killed may still have a connection to it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP SCHEMA IF EXISTS counterfoil CASCADE")


@contextmanager
def places(journals: str) -> Iterator[Places]:
    """Give the places of the kind that `--journal` names.

    Raises:
        SystemExit: PostgreSQL is not there, or a journal is there already, which is nobody's to empty.
    """
    if journals == "sqlite":
        yield Places(None)
    elif journals == "postgresql":
        binaries = installed_binaries()
        if binaries is None:
            raise SystemExit(MISSING)
        with running_cluster(binaries) as cluster:
            yield Places(cluster.url(cluster.new_database()))
    else:
        with psycopg.connect(journals) as connection:
            if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'counterfoil'").fetchone():
                raise SystemExit("there is a journal in that database: name an empty one")
        try:
            yield Places(journals)
        finally:
            empty(journals)
