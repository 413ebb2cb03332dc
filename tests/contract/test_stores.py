"""Every store of this library passes the public suite."""

from pathlib import Path

from eventlib.state.base import Stores
from eventlib.state.memory import MemoryStores
from eventlib.state.rocksdb import RocksStores
from eventlib.state.sqlite import SqliteStores
from eventlib.testing.store_contract import StoreContract


class TestMemoryStores(StoreContract):
    durable = False

    def open_stores(self, place: Path) -> Stores:  # noqa: ARG002  the memory has no place
        return MemoryStores()


class TestSqliteStores(StoreContract):
    def open_stores(self, place: Path) -> Stores:
        return SqliteStores(place / "stores")


class TestRocksStores(StoreContract):
    def open_stores(self, place: Path) -> Stores:
        return RocksStores(place / "stores")
