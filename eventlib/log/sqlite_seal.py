"""Checksums for the records that an older release wrote without: from then on they are held to what they say now."""

import sqlite3

from eventlib.log.checksum import MASK, row_checksum
from eventlib.log.sqlite_damage import COLUMNS
from eventlib.log.sqlite_scan import Part, written
from eventlib.log.sqlite_sealed import PARTITIONS
from eventlib.log.sqlite_state import OFFSET_BITS

_UNSEALED = f"""
SELECT position, {", ".join(COLUMNS[:-1])} FROM records
WHERE position >= ? AND position < ? AND checksum IS NULL ORDER BY position LIMIT 5000
"""  # noqa: S608  names of this package


def seal_records(connection: sqlite3.Connection) -> int:
    """Give each old record its checksum, in the transaction that was begun; return how many. Raises: sqlite3.Error."""
    sealed = 0
    for *row, _ in connection.execute(PARTITIONS).fetchall():
        part = Part(tuple(row))
        found, digest = _seal_partition(connection, part)
        sealed += found
        if found or part.row[9]:
            connection.execute(*written((*row[:9], 0, digest)))
    return sealed


def _seal_partition(connection: sqlite3.Connection, part: Part) -> tuple[int, int]:
    """Seal what a partition has before its checked_from; return how many, and its digest then."""
    sealed, digest, top = 0, part.row[10], part.base + part.row[9]
    while rows := connection.execute(_UNSEALED, (part.base, top)).fetchall():
        checksums = [
            (row_checksum(part.seed, position - (part.row[0] << OFFSET_BITS), columns), position)
            for position, *columns in rows
        ]
        connection.executemany("UPDATE records SET checksum = ? WHERE position = ?", checksums)
        digest = digest + sum(checksum for checksum, _ in checksums) & MASK
        sealed += len(rows)
    return sealed, digest
