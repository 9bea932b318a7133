"""A primary and its synchronous standby on one machine, and what may befall them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from postgres_cluster import Cluster, new_cluster

__all__ = ["Pair", "running_pair"]

NAME = "standby"

SOMEBODYS_TRANSACTION = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'counterfoil' AND xact_start IS NOT NULL
    ORDER BY random() LIMIT 1
"""


class Pair:
    """Two servers; each commit on the primary waits until it is on the disk of the standby."""

    def __init__(self, primary: Cluster, standby: Cluster) -> None:
        self.primary = primary
        self.standby = standby

    def start(self) -> None:
        """Start both, and wait until commits wait for the standby."""
        self.primary.start()
        self.standby.follow(self.primary, name=NAME)
        self.primary.alter("synchronous_standby_names", NAME)
        self.primary.until("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")

    def url(self, database: str) -> str:
        """Give a database's URL, which names both servers: a client takes the one that can be written to."""
        return f"postgresql://counterfoil@/{database}?host={self.primary.folder},{self.standby.folder}"

    def new_database(self) -> str:
        """Make an empty database and give its URL."""
        return self.url(self.primary.new_database())

    def cut_a_connection(self) -> bool:
        """End a client's connection in the middle of its transaction; tell whether there was one."""
        return bool(self.primary.run(SOMEBODYS_TRANSACTION))

    def pause_replay(self) -> None:
        """Let the standby go on receiving, and show nothing of it until it is promoted."""
        self.standby.run("SELECT pg_wal_replay_pause()")
        self.standby.until("SELECT 1 WHERE pg_get_wal_replay_pause_state() = 'paused'")

    def catch_up(self) -> None:
        """Wait until the standby has replayed all that the primary has."""
        newest = self.primary.run("SELECT pg_current_wal_lsn()::text")[0][0]
        self.standby.until(f"SELECT 1 WHERE pg_last_wal_replay_lsn() >= '{newest}'")

    def bytes_to_replay(self) -> int:
        """Give how much the standby has on its disk and has not replayed."""
        rows = self.standby.run("SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())")
        return int(rows[0][0])


@contextmanager
def running_pair(binaries: Path) -> Iterator[Pair]:
    """Run a pair, and throw it away."""
    with new_cluster(binaries) as primary, new_cluster(binaries) as standby:
        pair = Pair(primary, standby)
        pair.start()
        yield pair
