"""Chooses where a process keeps its local stores."""

from eventlib.store.port import Stores


def open_stores(log_url: str) -> Stores:
    """Return the stores for a log: beside an SQLite log's file, in memory for a log in memory."""
    scheme, _, path = log_url.partition("://")
    if scheme == "sqlite":
        from eventlib.store.sqlite import SqliteStores

        return SqliteStores(f"{path.removeprefix('/')}.state")
    from eventlib.store.memory import MemoryStores

    return MemoryStores()
