"""Reads a whole SQLite log in file order, verifying each record's checksum: for damage checks.

The records come in the order of the file's B-tree, without a lookup: a record whose position changed hides no other.
"""

import sqlite3
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from eventlib.log.checksum import MASK, computed, is_as_written, partition_seed
from eventlib.log.rules import NO_RECORD, why_changed
from eventlib.log.sqlite.damage import COLUMNS, OFFSETS, Damage, as_it_stands, between, of_record
from eventlib.log.sqlite.packing import checksums, extent
from eventlib.log.sqlite.scan_part import ScanPart
from eventlib.log.sqlite.sealed import PARTITIONS, partition_checksum, partition_update
from eventlib.log.sqlite.state import OFFSET_BITS

Progress = Callable[[int], None]
"""Called with how many more records were verified."""

Row = tuple[Any, ...]

_ALL = f"SELECT position, {', '.join(COLUMNS)} FROM {{}} NOT INDEXED"  # noqa: S608  names of this package
_AFTER = f"{_ALL} WHERE position > ? ORDER BY position"
_NEXT = f"{_ALL} WHERE position >= ? ORDER BY position LIMIT 1"
_BEFORE_ALL = -1 << 63
_TOLD_EVERY = 20_000


class Scan:
    """One pass over all records; `run` returns the damage, in file order.

    `parts` and `records` are what the log has. The connection is in a read transaction, so that all is from one moment.
    In another table than `records` are some of the log's records, of which none can be missing.
    """

    def __init__(
        self, connection: sqlite3.Connection, progress: Progress = lambda _: None, table: str = "records"
    ) -> None:
        self._connection = connection
        self._after_sql, self._next_sql = _AFTER.format(table), _NEXT.format(table)
        self._is_whole = table == "records"
        self._progress = progress
        self._damages = list[Damage]()
        self.records = 0
        self.parts = dict[int, ScanPart]()
        for *values, checksum in connection.execute(PARTITIONS):
            self._learn(tuple(values), checksum)

    def _learn(self, row: tuple[Any, ...], checksum: object) -> None:
        """Load a partition's row; without one that can be trusted, its records describe it."""
        if checksum == computed(row, partition_checksum):
            self.parts[row[0]] = ScanPart(row)
            return
        number = row[0]
        if isinstance(number, int) and (topic_partition := self._topic_partition_of(number, row[1:3])) is not None:
            self.parts[number] = ScanPart((number, *topic_partition, 0, 0, 0, 0, 0, 0, OFFSETS, 0), lost=True)
        else:
            self._damages.append(
                Damage("partitions", f"the row {row!r:.200} of table partitions does not match its checksum")
            )

    def _topic_partition_of(self, number: int, row_values: tuple[Any, ...]) -> tuple[str, int] | None:
        """Return the topic partition of a number: by the first record's checksum, or else by the row, if that is possible."""
        topics = self._connection.execute("SELECT name, partitions FROM topics").fetchall()
        declared, base = [(name, each) for name, count in topics for each in range(count)], number << OFFSET_BITS
        try:
            position, *columns, checksum = self._connection.execute(self._after_sql, (base - 1,)).fetchone()
        except (sqlite3.DatabaseError, TypeError):  # it is unreadable, or does not exist
            return row_values if row_values in declared else None
        for candidate in declared:
            if is_as_written(partition_seed(*candidate), position - base, columns, checksum):
                return candidate
        return row_values if row_values in declared else None

    def run(self) -> list[Damage]:
        """Verify every record, and each partition's digest and end."""
        part = nowhere = ScanPart((-1, "", -1, 0, 0, 0, 0, 0, 0, 0, 0))
        number = -1
        for row in self._rows():
            position, checksum = row[0], row[-1]
            if position >> OFFSET_BITS != number:
                number = position >> OFFSET_BITS
                part = self.parts.get(number, nowhere)
            offset = position & OFFSETS
            if part is not nowhere and is_as_written(part.seed, offset, row[1:-1], checksum):
                if offset != part.next:
                    part.found(offset, row)
                else:
                    part.next = offset + 1
                part.sum += checksums(row)
                if row[1] > part.newest_at:  # noqa: PLR1730  max() is a call per record
                    part.newest_at = row[1]
            elif checksum is None and offset < part.row[9]:
                part.found(offset)
                part.unsealed, part.unsealed_to = part.unsealed + 1, offset + 1
            else:
                self._changed(position, part, row[1:])
        for each in self.parts.values():
            if self._is_whole or each.lost:
                self._finish(each)
        return self._damages

    def _rows(self) -> Iterator[Row]:
        """Yield all readable rows, skipping what cannot be read."""
        self._connection.text_factory = str
        rows, last, told = self._after(_BEFORE_ALL), -1, 0
        while True:
            try:
                for row in rows:
                    last = row[0]
                    yield row
                    self.records += extent(row[-2])[0] or 1
                    if self.records - told >= _TOLD_EVERY:
                        told += _TOLD_EVERY
                        self._progress(_TOLD_EVERY)
            except sqlite3.DatabaseError as error:
                if self._connection.text_factory is str:  # perhaps Python's own error: a text is not UTF-8
                    self._connection.text_factory = as_it_stands
                    rows = self._after(last)
                    continue
                found = self._next_readable(last)
                if found is None or found[0] > last + 1:
                    why = f"after position {last} the file cannot be read: {error}"
                    self._damages.append(Damage("structure", why))
                if found is None:
                    return
                rows = chain([found], self._after(found[0]))
            else:
                return

    def _after(self, position: int) -> Iterator[Row]:
        yield from self._connection.execute(self._after_sql, (position,))

    def _next_readable(self, last: int) -> Row | None:
        """Return the next readable row, found by growing steps and then bisection.

        It may be the very next one: a cursor reads a row ahead, so that an error loses the row before what is damaged.
        """
        top = max((part.base + OFFSETS for part in self.parts.values()), default=0)
        unread, step = max(last, (min(self.parts, default=0) << OFFSET_BITS) - 1), 1
        while (found := self._readable(unread + step, last)) is None:
            unread, step = unread + step, step * 2
            if unread > top:
                return None
        readable = unread + step
        while readable - unread > 1:
            middle = (unread + readable) // 2
            row = self._readable(middle, last)
            if row is None:
                unread = middle
            else:
                readable, found = middle, row
        return found

    def _readable(self, position: int, last: int) -> Row | None:
        """Return the first row from a position on, if it can be read."""
        try:
            row: Row | None = self._connection.execute(self._next_sql, (position,)).fetchone()
        except sqlite3.DatabaseError:
            return None
        return row if row is not None and row[0] > last else None

    def _changed(self, position: int, part: ScanPart, row: tuple[Any, ...]) -> None:
        offset, location = position & OFFSETS, part.location(position & OFFSETS)
        if not part.row[1]:
            what = f"a record is at position {position}, which belongs to no partition"
            self._damages.append(of_record(what, location, row))
            return
        part.changed = True
        if offset == part.next or offset < part.row[3]:
            part.found(offset, row)
        part.sum += checksums(row)
        likely = between(self._connection, part.base, offset, offset + 1)
        self._damages.append(of_record(why_changed(row[-1]), location, row, likely))

    def _finish(self, part: ScanPart) -> None:
        """Compare what was found of a partition with its row."""
        _, topic, partition, end, *_, dense_from, _checked_from, digest = part.row
        if part.lost:
            what = "its row in table partitions does not match its checksum"
            likely = f"its records end at {part.next}" if part.next else "it has no record to derive it from"
            repair = (partition_update(part.derived()),) if part.next else ()
            self._damages.append(Damage("partitions", what, topic, partition, likely=likely, repair=repair))
            return
        if part.next > end:
            what = f"its row has end {end}, and its records end at {part.next}: the row is older"
            repair = (partition_update(part.derived()),)
            self._damages.append(Damage("partitions", what, topic, partition, repair=repair))
            return
        if (first := max(part.next, dense_from)) < end:
            part.missing.append((first, end))
        for first, stop in part.missing:
            likely = between(self._connection, part.base, first, stop)
            self._damages.append(Damage("records", NO_RECORD, topic, partition, first, stop, likely=likely))
        if (part.sum - digest) & MASK and not part.missing and not part.changed:
            where = f"one before offset {dense_from} is gone, or was added" if dense_from else "one was exchanged"
            what = f"its digest is not the sum of its records' checksums: {where}"
            self._damages.append(Damage("partitions", what, topic, partition))
