"""The pending writes of one transaction of an SQLite log."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from xxhash import xxh3_64_intdigest

from eventlib.errors import ContractError
from eventlib.log.base import Batch, Claim, TopicPartition
from eventlib.log.checksum import MASK, encoded
from eventlib.log.rules import columns_of, ownership_lost, refuse_large
from eventlib.log.sqlite.file import LogFile
from eventlib.log.sqlite.packing import Content, in_rows, packed
from eventlib.log.sqlite.sealed import write_milestones, write_partitions
from eventlib.log.sqlite.state import PartitionState
from eventlib.model.record import Record

INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MILESTONE_BITS = 10
_ENOUGH = 1_000  # records: a group of this size takes tens of milliseconds, and blocks other writers meanwhile


class _Growth:
    """The records that one transaction adds to a partition, and the partition before it."""

    __slots__ = ("before", "contents", "records", "rows")

    def __init__(self, state: PartitionState) -> None:
        self.before = (state.end, state.newest_at, state.digest)
        self.rows: list[Content] = []
        self.contents: list[bytes] = []
        self.records: list[Record] = []


class SqliteBatch(Batch):
    """The rows of one open transaction, with the offsets they will have."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._count = 0
        self._growths = dict[PartitionState, _Growth]()

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """See `Batch.is_full`."""
        return self._count >= _ENOUGH

    def enter(self, claim: Claim) -> None:
        """See `Batch.enter`: no other can take it while the transaction is being made."""
        owner = self._file.owners.get((claim.service, claim.partition))
        if owner is None or owner.epoch != claim.epoch:
            raise ownership_lost(claim, 0 if owner is None else owner.epoch)

    async def append(self, records: Sequence[Record]) -> list[int]:
        """See `Batch.append`. It never waits."""
        states, topic, partition, state = list[PartitionState](), "", -1, None
        for record in records:
            if state is None or record.topic is not topic or record.partition != partition:
                topic, partition = record.topic, record.partition
                state = self._file.partitions.get((topic, partition)) or self._file.partition(topic, partition)
                if state.damage:
                    self._file.partition(topic, partition)
            states.append(state)
        return self._place(records, states)

    def _place(self, records: Sequence[Record], states: Sequence[PartitionState]) -> list[int]:
        offsets, state = list[int](), None
        for record, its in zip(records, states, strict=True):
            if its is not state:
                state = its
                growth = self._growths.get(state) or self._growths.setdefault(state, _Growth(state))
                seed, most, keeps = state.seed, state.max_event_bytes, state.recent is not None
                add_row, add_content = growth.rows.append, growth.contents.append
            offset, at_ms = state.end, record.timestamp_ms
            columns = columns_of(record)
            try:
                content = encoded(columns)
                checksum = xxh3_64_intdigest(content, seed ^ offset) >> 1  # `row_checksum`, without its call
                if len(content) > most:  # it has all of the record, so no smaller one is refused
                    refuse_large(record, state.topic)
            except ContractError:
                self._count += len(offsets)  # what is placed already tears the group
                raise
            except (OverflowError, TypeError, ValueError) as error:
                self._count += len(offsets)
                what = f"a record for {state.topic.name} cannot be stored ({error}); nothing of its append was written"
                raise ContractError(what) from error
            state.end = offset + 1
            state.digest = state.digest + checksum & MASK
            if at_ms > state.newest_at:  # noqa: PLR1730  max() is a call per record on the hot path
                state.newest_at = at_ms
            add_row((columns, checksum))
            add_content(content)
            if keeps:
                growth.records.append(record)
            offsets.append(offset)
        self._count += len(offsets)
        return offsets

    def write(self, connection: sqlite3.Connection) -> None:
        """Write the rows, several of one partition packed as batches, and the new ends of their partitions."""
        rows = list[tuple[Any, ...]]()
        for state, growth in self._growths.items():
            first = state.base + growth.before[0]
            if len(growth.rows) < self._file.options.batch_from:
                rows += in_rows(first, growth.rows)
            else:
                rows += packed(state.seed, state.base, first, growth.rows, growth.contents)
        connection.executemany(INSERT, rows)
        self._file.offsets += self._count
        write_partitions(connection, self._growths)
        milestones = [
            (state.base + state.end, state.newest_at)
            for state, growth in self._growths.items()
            if growth.before[0] >> _MILESTONE_BITS != state.end >> _MILESTONE_BITS
        ]
        if milestones:
            write_milestones(connection, milestones)

    def forget(self) -> None:
        """Restore the ends of the partitions: nothing was written."""
        for state, growth in self._growths.items():
            state.end, state.newest_at, state.digest = growth.before

    def committed(self) -> set[TopicPartition]:
        """Mark the transaction as durable, and return the partitions that have new records."""
        for state, growth in self._growths.items():
            state.appended(growth.before[0], growth.records)
        return {(state.topic.name, state.partition) for state in self._growths}
