"""Chooses where a process keeps its local stores."""

import re
from pathlib import Path

from eventlib.errors import WiringError
from eventlib.ground.url import log_file
from eventlib.state.base import Stores


def open_stores(log_url: str, state_dir: str) -> Stores:
    """Return the stores for a log: beside an SQLite log's file, in memory for a log in memory, else under `state_dir`.

    Raises: WiringError when RocksDB is needed and not installed.
    """
    directory = store_directory(log_url, state_dir)
    if directory is None:
        from eventlib.state.memory import MemoryStores

        return MemoryStores()
    if log_file(log_url) is not None:
        from eventlib.state.sqlite import SqliteStores

        return SqliteStores(directory)
    try:
        from eventlib.state.rocksdb import RocksStores
    except ModuleNotFoundError as error:
        raise WiringError(
            f"a {log_url.partition(':')[0]} log needs the package {error.name}: install eventlib-sagas[kafka]"
        ) from error
    return RocksStores(directory)


def stores_beside(log: Path) -> Path:
    """Return the directory of the stores for a log in a file."""
    return log.with_name(f"{log.name}.state")


def store_directory(log_url: str, state_dir: str) -> Path | None:
    """Return where the stores for a log are; None for those in memory."""
    file = log_file(log_url)
    if file is not None:
        return stores_beside(file)
    if log_url.startswith("memory:"):
        return None
    # One directory for each log, since a store that meets another log's is emptied.
    return Path(state_dir) / re.sub(r"[^\w.-]+", "-", log_url.partition("://")[2]).strip("-")
