"""Verifies the rows of an SQLite log against their checksums: damage is reported, and never taken for data."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from analytics.schema import UNREADABLE
from eventlib.errors import DamagedRecord, LogCorrupt
from eventlib.log.checksum import row_checksum
from eventlib.log.sqlite.connection import file_uri
from eventlib.log.sqlite.errors import REPAIR
from eventlib.log.sqlite.packing import MOST, extent
from eventlib.log.sqlite.reading import read_one
from eventlib.log.sqlite.schema import check_version
from eventlib.log.sqlite.sealed import partition_rows
from eventlib.log.sqlite.state import PartitionState
from eventlib.model.record import Record, text_of
from eventlib.model.topic import Topic

_TEXTS = ("id", "type", "source", "subject")
_MORE_TEXTS = ("correlation_id", "causation_id", "traceparent", "headers")


class Verifier:
    """Verifies batches of one partition's rows, in order of their offsets.

    `is_whole` is whether no condition leaves out rows, so that missing ones are found as well.
    """

    def __init__(self, path: Path, state: PartitionState, expected: int, *, is_whole: bool) -> None:
        self._path = path
        self._state = state
        self._expected = max(expected, state.dense_from)
        self._is_whole = is_whole
        self._last = expected - 1

    def suspects(self, batch: pa.RecordBatch) -> list[int]:
        """Return the offsets at which a batch differs from what was written, or lacks a record."""
        offsets = pc.subtract(batch["position"], self._state.base).to_pylist()
        checksums = batch["checksum"].to_pylist()
        try:
            computed = list(map(row_checksum, repeat(self._state.seed), offsets, zip(*_columns(batch), strict=True)))
        except (UnicodeDecodeError, pa.ArrowInvalid):  # text that is not UTF-8
            computed = [-2] * len(offsets)
        if computed == checksums and not pc.any(pc.starts_with(batch["headers"], "{")).as_py():
            self._last = offsets[-1] if offsets else self._last
            return self._missing(offsets)
        headers, found = batch["headers"].to_pylist(), set[int]()
        for last, one, other, head in zip(offsets, computed, checksums, headers, strict=True):
            offsets_of_row = max(extent(head.decode("utf-8", "replace"))[1], 1)
            if one == other or (other == -1 and last < self._state.checked_from):
                found |= {*self._missing([*range(last - offsets_of_row + 1, last + 1)])}
            else:  # how many records a batch has may be what is damaged
                is_single = not head or head.startswith(b"[")
                found |= {last} if is_single else {*range(max(self._last + 1, last - MOST + 1), last + 1)}
                found |= {*self._missing([last])}
            self._last = last
        return sorted(found)

    def rest(self, end: int) -> list[int]:
        """Return the offsets before `end` whose records are missing after the last batch."""
        return self._missing([end])

    def _missing(self, offsets: Sequence[int]) -> list[int]:
        """Return the first offset of each gap that the log should not have."""
        if not self._is_whole:
            return []
        found, expected = list[int](), self._expected
        if offsets and offsets[-1] - expected == len(offsets) - 1:
            self._expected = offsets[-1] + 1
            return found
        for offset in offsets:
            if offset > expected:
                found.append(expected)
            expected = max(expected, offset + 1) if offset >= expected else expected
        self._expected = expected
        return found

    def read(self, offsets: Sequence[int]) -> Iterator[Record]:
        """Yield the records at suspect offsets: as written where that is proved, else as damaged."""
        with closing(sqlite3.connect(file_uri(self._path, reads=True), uri=True)) as connection:
            state = next(
                state_of(row) for row in state_rows(connection, self._path) if row.number == self._state.number
            )
            for offset in offsets:
                if offset < state.dense_from and offset >= self._state.dense_from:
                    continue  # removed by compaction or retention since
                try:
                    yield read_one(connection, state, offset)
                except DamagedRecord as error:
                    yield _damaged(error)


def _damaged(damaged: DamagedRecord) -> Record:
    """Return the placeholder of a damaged record: what may identify it, and no value that could be read."""
    place = damaged.topic, damaged.partition, damaged.offset
    found = damaged.record
    if not isinstance(found, Record):
        return Record(*place, 0, None, b"", headers=((UNREADABLE, str(damaged).encode()),))
    key = found.key if isinstance(found.key, bytes | None) else str(found.key).encode("utf-8", "surrogateescape")
    return Record(
        *place,
        found.timestamp_ms if isinstance(found.timestamp_ms, int) else 0,
        key,
        b"",
        id=_text_or_none(found.id),
        type=_text_or_none(found.type),
        source=_text_or_none(found.source),
        subject=_text_or_none(found.subject),
        sequence=found.sequence if isinstance(found.sequence, int) and found.sequence >= 0 else None,
        correlation_id=_text_or_none(found.correlation_id),
        causation_id=_text_or_none(found.causation_id),
        traceparent=_text_or_none(found.traceparent),
        headers=((UNREADABLE, str(damaged).encode()),),
    )


def _text_or_none(value: object) -> str | None:
    return None if value is None else text_of(str(value).encode("utf-8", "surrogateescape"))


def _columns(batch: pa.RecordBatch) -> Iterator[list[object]]:
    """Yield a batch's columns in the checksum's form and order."""
    yield batch["recorded_at"].to_pylist()
    for name in ("key", "value"):
        yield pc.if_else(pc.equal(batch[f"has_{name}"], 1), batch[name], None).to_pylist()
    yield from (_texts(batch[name]) for name in _TEXTS)
    yield pc.if_else(pc.less(batch["sequence"], 0), None, batch["sequence"]).to_pylist()
    yield from (_texts(batch[name]) for name in _MORE_TEXTS)


def _texts(column: pa.Array) -> list[object]:
    text = column.cast(pa.string())
    found: list[object] = pc.if_else(pc.equal(text, ""), None, text).to_pylist()
    return found


class StateRow(NamedTuple):
    """A partition's row: what is sent to workers, whose classes may be compiled where the driver's are not."""

    number: int
    topic: str
    partition: int
    values: tuple[int, ...]


def state_of(row: StateRow) -> PartitionState:
    """Return a partition's state."""
    state = PartitionState(Topic(row.topic), row.partition, row.number)
    state.learn(row.values)
    return state


def state_rows(connection: sqlite3.Connection, path: Path) -> Iterator[StateRow]:
    """Yield the partitions of a log's file. Raises: LogCorrupt for a damaged one; LogVersionMismatch; sqlite3.Error."""
    check_version(connection, path)
    for (number, topic, partition, *row), why in partition_rows(connection):
        if why:
            raise LogCorrupt(f"{topic}/{partition} of the log {path} is damaged: {why}; {REPAIR}")
        yield StateRow(number, topic, partition, tuple(row))
