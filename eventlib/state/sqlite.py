"""Stores in SQLite files, one for each service."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.state.base import Store, Stores
from eventlib.state.sqlite_file import Owner, ServiceFile

_SCAN_KEYS = 500


class SqliteStores(Stores):
    """Keeps each service's stores in `<directory>/<service>.db`."""

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)
        self._files = dict[str, ServiceFile]()
        self._stores = list["_SqliteStore"]()

    def open(self, service: str, partition: int, epoch: int, log_id: str) -> Store:
        """See `Stores.open`."""
        owner = Owner(service, partition, epoch, log_id)
        try:
            return self._open(owner)
        except LogUnavailable:
            if not self._files[service].broken:
                raise
            return self._open(owner)  # it was damaged and is thrown away now: begin again

    def _open(self, owner: Owner) -> "_SqliteStore":
        file = self._files.get(owner.service)
        if file is None or file.broken:
            file = self._files[owner.service] = ServiceFile(self._directory / f"{owner.service}.db")
        store = _SqliteStore(file, owner)
        self._stores.append(store)
        return store

    def close(self) -> None:
        """See `Stores.close`."""
        for store in self._stores:
            store.close()
        self._stores.clear()
        for file in self._files.values():
            file.close()
        self._files.clear()


class _SqliteStore(Store):
    """One task's values."""

    def __init__(self, file: ServiceFile, owner: Owner) -> None:
        self._file = file
        self._owner = owner
        self._closed = False
        self._checkpoint = file.open_task(owner)

    @property
    def checkpoint(self) -> int:
        """See `Store.checkpoint`."""
        return self._checkpoint

    def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        return self._file.get(self._owner.partition, key)

    def write(self, changes: Mapping[str, bytes | None], checkpoint: int) -> None:
        """See `Store.write`."""
        self._file.write(self._owner, changes, checkpoint)
        self._checkpoint = checkpoint

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """See `Store.scan`."""
        # In pages: no transaction stays open between them, which would keep the journal from being reused.
        last: str | None = None
        while rows := self._file.scan(self._owner.partition, prefix, last, _SCAN_KEYS):
            for key, value in rows:
                if not key.startswith(prefix):
                    return
                yield key, value
            last = rows[-1][0]

    def clear(self) -> None:
        """See `Store.clear`."""
        self._file.clear(self._owner)
        self._checkpoint = 0

    def close(self) -> None:
        """See `Store.close`; an owner who lost the store has no right to write to it any more."""
        if self._closed or self._file.broken:
            return
        self._closed = True
        try:
            # Also with nothing to write: it records until when the store was complete.
            self._file.write(self._owner, {}, self._checkpoint)
        except OwnershipLost:
            return
