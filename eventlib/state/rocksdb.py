"""Stores in RocksDB, a database for each task: what stays small beside a log that is elsewhere."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rocksdict import WriteBatch

from eventlib.log.base import TOMBSTONES_KEPT, Claim
from eventlib.state.base import Store, Stores
from eventlib.state.memory import refuse_older
from eventlib.state.rocksdb_database import AFTER_KEYS, KEY_PREFIX, RocksDatabase, StoreMetadata
from eventlib.values import now_ms

# Four fifths, so that neither clocks nor a slow start bring a store near the moment when tombstones go.
_LONGEST_MS = int(TOMBSTONES_KEPT.total_seconds() * 1000 * 0.8)


class RocksStores(Stores):
    """Keeps each task's store in `<directory>/<service>/<partition>`."""

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)
        self._databases = dict[tuple[str, int], RocksDatabase]()

    def open(self, service: str, partition: int, epoch: int, log_id: str) -> Store:
        """See `Stores.open`. Raises: LogUnavailable when its directory cannot be used."""
        return self._store(self._database(service, partition), Claim(service, partition, epoch), log_id)

    def open_copy(self, service: str, partition: int, log_id: str) -> Store:
        """See `Stores.open_copy`. Raises: as `open` does."""
        database = self._database(service, partition)
        epoch = database.note.epoch if database.note is not None and database.note.log_id == log_id else 0
        return self._store(database, Claim(service, partition, epoch), log_id)

    def _database(self, service: str, partition: int) -> RocksDatabase:
        database = self._databases.get((service, partition))
        if database is None or database.is_gone:
            database = self._databases[service, partition] = RocksDatabase.open(self._directory / service, partition)
        return database

    def _store(self, database: RocksDatabase, claim: Claim, log_id: str) -> Store:
        try:
            return _RocksStore(database, *claim, log_id)
        finally:
            database.close_if_unused()

    def close(self) -> None:
        """See `Stores.close`."""
        for database in self._databases.values():
            database.close()
        self._databases.clear()


class _RocksStore(Store):
    """One owner's view of a task's database."""

    def __init__(self, database: RocksDatabase, service: str, partition: int, epoch: int, log_id: str) -> None:
        self._database = database
        self._service, self._partition = service, partition
        self._epoch, self._log_id = epoch, log_id
        self._closed = False
        note = database.note
        if note is not None and note.log_id == log_id:
            refuse_older(service, partition, epoch, note.epoch)
        if note is None or note.log_id != log_id or now_ms() - note.flushed_at > _LONGEST_MS:
            self._begin_anew()
        else:
            self._write(WriteBatch(raw_mode=True), note.checkpoint)
        database.users += 1

    @property
    def checkpoint(self) -> int:
        """See `Store.checkpoint`."""
        return self._checkpoint

    def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        return self._database.get(key)

    def write(self, changes: Mapping[str, bytes | None], checkpoint: int) -> None:
        """See `Store.write`."""
        self._refuse_zombie()
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(KEY_PREFIX + key.encode())
            else:
                batch.put(KEY_PREFIX + key.encode(), value)
        self._write(batch, checkpoint)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """See `Store.scan`; it shows what was there when it began."""
        return self._database.scan(prefix)

    def clear(self) -> None:
        """See `Store.clear`."""
        self._refuse_zombie()
        self._begin_anew()

    def close(self) -> None:
        """See `Store.close`; the last owner in this process lets others have the database."""
        if self._closed or self._database.is_gone:
            return
        self._closed = True
        note = self._database.note
        if note is not None and (note.epoch, note.log_id) == (self._epoch, self._log_id):
            self._write(WriteBatch(raw_mode=True), self._checkpoint)  # it was complete until now
        self._database.users -= 1
        self._database.close_if_unused()

    def _begin_anew(self) -> None:
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(KEY_PREFIX, AFTER_KEYS)
        self._write(batch, 0)

    def _write(self, batch: WriteBatch, checkpoint: int) -> None:
        self._database.write(batch, StoreMetadata(self._epoch, self._log_id, checkpoint, now_ms()))
        self._checkpoint = checkpoint

    def _refuse_zombie(self) -> None:
        note = self._database.note
        if note is not None:
            refuse_older(self._service, self._partition, self._epoch, note.epoch)
