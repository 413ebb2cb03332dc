"""Chooses where a process keeps its local stores."""

import re
from pathlib import Path

from eventlib.errors import WiringError
from eventlib.store.port import Stores


def open_stores(log_url: str, state_dir: str) -> Stores:
    """Return the stores for a log: beside an SQLite log's file, in memory for a log in memory, else under `state_dir`.

    Raises: WiringError when RocksDB is needed and not installed.
    """
    scheme, _, path = log_url.partition("://")
    if scheme == "sqlite":
        from eventlib.store.sqlite import SqliteStores

        return SqliteStores(f"{path.removeprefix('/')}.state")
    if scheme == "memory":
        from eventlib.store.memory import MemoryStores

        return MemoryStores()
    try:
        from eventlib.store.rocksdb import RocksStores
    except ModuleNotFoundError as error:
        raise WiringError(f"a {scheme} log needs the package {error.name}: install eventlib-sagas[kafka]") from error
    # One directory for each log, since a store that meets another log's is emptied.
    return RocksStores(Path(state_dir) / re.sub(r"[^\w.-]+", "-", path).strip("-"))
