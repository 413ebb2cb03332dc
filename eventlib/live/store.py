"""Tables on RocksDB, whose files never say more than their changelog."""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import rocksdict
from faust.stores import rocksdb
from faust.streams import current_event
from faust.tables.table import Table
from faust.types import TP, FutureMessage

from eventlib.telemetry.counters import size_of

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp

_NOTHING = object()


class Store(rocksdb.Store):
    """One table's values on this machine: what the changelog has acknowledged on disk, the rest in memory until then.

    Faust writes to disk at once, so that after a crash the files may be ahead of the changelog in some keys and behind
    it in others. Guarantee: each partition's file is a prefix of its changelog, and says where that ends.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._fresh: defaultdict[int, dict[bytes, bytes | None]] = defaultdict(dict)
        self.epoch = 0

    def _set(self, key: bytes, value: bytes | None) -> None:
        self._fresh[_partition()][key] = value

    def _del(self, key: bytes) -> None:
        self._fresh[_partition()][key] = None

    def _get(self, key: bytes) -> bytes | None:
        return self.value(_partition(), key)

    def _contains(self, key: bytes) -> bool:
        return self._get(key) is not None

    def acknowledged(self, at: TP, offset: int, key: bytes, value: bytes | None) -> None:
        """Write what is on the changelog now."""
        if at.partition not in self._dbs:
            return  # another's by now
        batch = rocksdict.WriteBatch(raw_mode=True)
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
        batch.put(self.offset_key, str(offset).encode())
        self._dbs[at.partition].write(batch)
        fresh = self._fresh[at.partition]
        if fresh.get(key, _NOTHING) == value:
            del fresh[key]

    def value(self, partition: int, key: bytes) -> bytes | None:
        """Return a key's value as it is in a partition; None when there is none, or the partition is not here."""
        fresh = self._fresh[partition]
        if key in fresh:
            return fresh[key]
        if partition not in self._dbs:
            return None
        found: bytes | None = self._dbs[partition].get(key)
        return found

    def items_of(self, partition: int, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield a partition's keys that begin with a prefix, with their values."""
        found = dict[bytes, bytes | None]()
        if partition in self._dbs:
            rows = self._dbs[partition].iter()
            rows.seek(prefix)
            while rows.valid() and rows.key().startswith(prefix):
                found[rows.key()] = rows.value()
                rows.next()
        found.pop(self.offset_key, None)
        found |= {key: value for key, value in self._fresh[partition].items() if key.startswith(prefix)}
        yield from ((key, value) for key, value in found.items() if value is not None)

    def size(self) -> int:
        """Return what the partitions that are here take on the disk, in bytes."""
        return sum(size_of(self.partition_path(partition)) for partition in [*self._dbs])

    def revoke_partitions(self, table: Any, tps: set[TP]) -> None:
        """See Faust's; what was not acknowledged goes too, since the worker that has the partition now computes it."""
        super().revoke_partitions(table, tps)
        for tp in tps:
            if tp.topic in table.changelog_topic.topics:
                self._fresh.pop(tp.partition, None)
                self.epoch += 1

    def reset_state(self) -> None:
        """See Faust's."""
        super().reset_state()
        self._fresh.clear()


class LiveTable(Table[bytes, bytes]):
    """A table whose changelog is one of the log's own topics, and whose store follows it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._epochs = dict[FutureMessage, int]()
        super().__init__(*arguments, **options)

    @property
    def store(self) -> Store:
        """Where its values are."""
        return cast("Store", self.data)

    @property
    def _live(self) -> "LiveApp":
        return cast("LiveApp", self.app)

    def _changelog_topic_name(self) -> str:
        return self._live.changelog_of(self.name)

    def _new_store_by_url(self, url: Any) -> Store:
        return Store(
            url,
            self.app,
            self,
            table_name=self.name,
            key_type=self.key_type,
            key_serializer=self.key_serializer,
            value_serializer=self.value_serializer,
            value_type=self.value_type,
            loop=self.loop,
            options=self.options,
        )

    def send_changelog(self, *arguments: Any, **options: Any) -> FutureMessage:
        """See Faust's; a commit waits for it."""
        sent = super().send_changelog(*arguments, **options)
        self._live.sent.add(sent)
        self._epochs[sent] = self.store.epoch
        return sent

    def _on_changelog_sent(self, fut: FutureMessage) -> None:
        result, message = fut.result(), fut.message
        if self._epochs.pop(fut) != self.store.epoch:
            return  # sent before partitions changed hands: the file would have a hole, and recovery reads it anyway
        at = TP(result.topic_partition.topic, result.topic_partition.partition)
        self.store.acknowledged(at, result.offset, cast("bytes", message.key), message.value)


def _partition() -> int:
    event = current_event()
    if event is None:
        raise RuntimeError("a table is written, and read by key, by the agent that owns the partition")
    partition: int = event.message.partition
    return partition
