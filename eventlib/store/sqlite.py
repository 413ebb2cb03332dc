"""Stores in SQLite files, one for each service: written behind, since the changelog is what counts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic

from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.store.port import Store, Stores
from eventlib.store.sqlite_file import Owner, ServiceFile

_FLUSH_KEYS = 5_000
_FLUSH_BYTES = 4_000_000
_FLUSH_S = 1.0
_SCAN_KEYS = 500


class SqliteStores(Stores):
    """Keeps each service's stores in `<directory>/<service>.db`.

    Changes wait in memory until a service has 5,000 of them, or 4 MB, or a second has passed; then they are written
    with their checkpoints, in one transaction for each task.
    """

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)
        self._services = dict[str, "_Service"]()

    def open(self, service: str, partition: int, epoch: int, log_id: str) -> Store:
        """See `Stores.open`."""
        owner = Owner(service, partition, epoch, log_id)
        try:
            return self._open(owner)
        except LogUnavailable:
            if not self._services[service].file.broken:
                raise
            return self._open(owner)  # it was damaged and is thrown away now: begin anew

    def _open(self, owner: Owner) -> "_SqliteStore":
        found = self._services.get(owner.service)
        if found is None or found.file.broken:
            file = ServiceFile(self._directory / f"{owner.service}.db")
            found = self._services[owner.service] = _Service(file)
        store = _SqliteStore(found, owner)
        found.stores.append(store)
        return store

    def close(self) -> None:
        """See `Stores.close`; flushes what is still open."""
        for service in self._services.values():
            for store in [*service.stores]:
                store.close()
            service.file.close()
        self._services.clear()


class _Service:
    """What the stores of one service share: the file, and when they are flushed."""

    def __init__(self, file: ServiceFile) -> None:
        self.file = file
        self.stores = list["_SqliteStore"]()
        self._flushed_at = monotonic()

    def flush_when_due(self) -> None:
        """Flush all stores when there is much to write, or the last time is long ago."""
        now = monotonic()
        if (
            now - self._flushed_at >= _FLUSH_S
            or sum(len(store.pending) for store in self.stores) >= _FLUSH_KEYS
            or sum(store.pending_bytes for store in self.stores) >= _FLUSH_BYTES
        ):
            self._flushed_at = now
            for store in self.stores:
                store.flush_quietly()


class _SqliteStore(Store):
    """One task's values: those in the file, under those that are not written yet."""

    def __init__(self, service: _Service, owner: Owner) -> None:
        self._service = service
        self._file = service.file
        self._owner = owner
        self._lost: OwnershipLost | None = None
        self._closed = False
        self._checkpoint = self._file.open_task(owner)
        self._flushed_checkpoint = self._checkpoint
        self.pending = dict[str, bytes | None]()
        self.pending_bytes = 0

    @property
    def checkpoint(self) -> int:
        """See `Store.checkpoint`."""
        return self._checkpoint

    def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        if key in self.pending:
            return self.pending[key]
        return self._file.get(self._owner.partition, key)

    def write(self, changes: Mapping[str, bytes | None], checkpoint: int) -> None:
        """See `Store.write`."""
        self.pending.update(changes)
        self.pending_bytes += sum(len(key) + len(value or b"") for key, value in changes.items())
        self._checkpoint = checkpoint
        self._service.flush_when_due()
        if self._lost is not None:
            raise self._lost

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """See `Store.scan`."""
        pending = {key: self.pending[key] for key in sorted(k for k in self.pending if k.startswith(prefix))}
        waiting = iter(pending.items())
        unflushed = next(waiting, None)
        for key, value in self._scan_file(prefix):
            while unflushed is not None and unflushed[0] <= key:
                if unflushed[1] is not None:
                    yield unflushed[0], unflushed[1]
                unflushed = next(waiting, None)
            if key not in pending:
                yield key, value
        while unflushed is not None:
            if unflushed[1] is not None:
                yield unflushed[0], unflushed[1]
            unflushed = next(waiting, None)

    def clear(self) -> None:
        """See `Store.clear`."""
        self._file.clear(self._owner)
        self.pending.clear()
        self.pending_bytes = self._checkpoint = self._flushed_checkpoint = 0

    def flush(self) -> None:
        """See `Store.flush`."""
        if self._lost is not None:
            raise self._lost
        self._file.flush(self._owner, self.pending, self._checkpoint)
        self.pending.clear()
        self.pending_bytes = 0
        self._flushed_checkpoint = self._checkpoint

    def flush_quietly(self) -> None:
        """Flush what has changed; a loss of ownership is said to this store's own next writer."""
        if self._lost is None and self._checkpoint != self._flushed_checkpoint:
            try:
                self.flush()
            except OwnershipLost as error:
                self._lost = error
                self.pending.clear()
                self.pending_bytes = 0

    def close(self) -> None:
        """See `Store.close`; what an owner who lost it has not written is dropped."""
        if self._closed:
            return
        self._closed = True
        self._service.stores.remove(self)
        if not self._file.broken:
            self._checkpoint_seen()

    def _checkpoint_seen(self) -> None:
        # Also with nothing to write: it says until when the store was complete.
        self._flushed_checkpoint = -1
        self.flush_quietly()

    def _scan_file(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        # In pages: no transaction stays open between them, which would keep the journal from being reused.
        last: str | None = None
        while rows := self._file.scan(self._owner.partition, prefix, last, _SCAN_KEYS):
            for key, value in rows:
                if not key.startswith(prefix):
                    return
                yield key, value
            last = rows[-1][0]
