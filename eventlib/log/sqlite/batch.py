"""The pending writes of one transaction of an SQLite log."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from eventlib.errors import ContractError
from eventlib.log.base import Batch, Claim, TopicPartition
from eventlib.log.checksum import MASK, row_checksum
from eventlib.log.record import Record
from eventlib.log.rules import columns_of, ownership_lost, too_large
from eventlib.log.sqlite.file import LogFile
from eventlib.log.sqlite.sealed import write_milestones, write_partitions
from eventlib.log.sqlite.state import PartitionState

INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MILESTONE_BITS = 10
_ENOUGH = 1_000  # records: a group of this size takes tens of milliseconds, and blocks other writers meanwhile


class SqliteBatch(Batch):
    """The rows of one open transaction, with the offsets they will have."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._rows: list[tuple[Any, ...]] = []
        self._before = dict[PartitionState, tuple[int, int, int, list[Record]]]()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """See `Batch.is_full`."""
        return len(self._rows) >= _ENOUGH

    def enter(self, claim: Claim) -> None:
        """See `Batch.enter`: no other can take it while the transaction is being made."""
        owner = self._file.owners.get((claim.service, claim.partition))
        if owner is None or owner.epoch != claim.epoch:
            raise ownership_lost(claim, 0 if owner is None else owner.epoch)

    async def append(self, records: Sequence[Record]) -> list[int]:
        """See `Batch.append`. It never waits."""
        states = list[PartitionState]()
        for record in records:
            state = self._file.partitions.get(record.topic_partition) or self._file.partition(
                record.topic, record.partition
            )
            if state.damage:
                self._file.partition(record.topic, record.partition)
            if record.value is not None and len(record.value) > state.max_event_bytes:
                raise too_large(record, state.topic)
            states.append(state)
        return self._place(records, states)

    def _place(self, records: Sequence[Record], states: Sequence[PartitionState]) -> list[int]:
        rows, before, offsets = self._rows, self._before, list[int]()
        for state, record in zip(states, records, strict=True):
            if state not in before:
                before[state] = (state.end, state.newest_at, state.digest, [])
            offset = state.end
            columns = columns_of(record)
            try:
                checksum = row_checksum(state.seed, offset, columns)
            except (OverflowError, TypeError, ValueError) as error:
                what = f"a record for {state.topic.name} cannot be stored ({error}); nothing of its append was written"
                raise ContractError(what) from error
            state.end = offset + 1
            state.digest = state.digest + checksum & MASK
            if record.timestamp_ms > state.newest_at:  # noqa: PLR1730  max() is a call per record on the hot path
                state.newest_at = record.timestamp_ms
            rows.append((state.base + offset, *columns, checksum))
            if state.recent is not None:
                before[state][3].append(record)
            offsets.append(offset)
        return offsets

    def write(self, connection: sqlite3.Connection) -> None:
        """Write the rows, and the new ends of their partitions."""
        connection.executemany(INSERT, self._rows)
        self._file.offsets += len(self._rows)
        write_partitions(connection, self._before)
        milestones = [
            (state.base + state.end, state.newest_at)
            for state, (end, *_) in self._before.items()
            if end >> _MILESTONE_BITS != state.end >> _MILESTONE_BITS
        ]
        if milestones:
            write_milestones(connection, milestones)

    def forget(self) -> None:
        """Restore the ends of the partitions: nothing was written."""
        for state, before in self._before.items():
            state.end, state.newest_at, state.digest, _ = before

    def committed(self) -> set[TopicPartition]:
        """Mark the transaction as durable, and return the partitions that have new records."""
        for state, (end, _, _, records) in self._before.items():
            state.appended(end, records)
        return {(state.topic.name, state.partition) for state in self._before}
