"""The records of an SQLite log in rows of their own, for tests that change one of them below the log."""

import sqlite3
from contextlib import closing
from pathlib import Path

from eventlib.log.checksum import partition_seed
from eventlib.log.sqlite.damage import COLUMNS
from eventlib.log.sqlite.format import IS_BATCH
from eventlib.log.sqlite.packing import unpacked
from eventlib.log.sqlite.state import OFFSET_BITS


def in_rows(path: Path) -> Path:
    """Unpack each batch of a log's file, and return its path: the log stays what it is, also in its digests."""
    with closing(sqlite3.connect(path)) as connection, connection:
        names = connection.execute("SELECT number, topic, partition FROM partitions").fetchall()
        bases = {
            number: (partition_seed(topic, partition), number << OFFSET_BITS) for number, topic, partition in names
        }
        found = connection.execute(f"SELECT position, {', '.join(COLUMNS)} FROM records WHERE {IS_BATCH}").fetchall()  # noqa: S608
        connection.executemany("DELETE FROM records WHERE position = ?", [(row[0],) for row in found])
        rows = [each for row in found for each in unpacked(*bases[row[0] >> OFFSET_BITS], row)]
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        connection.executemany(f"INSERT INTO records VALUES ({marks})", rows)  # noqa: S608
    return path


def change_row(path: Path, sql: str, *values: object) -> None:
    """Change one row of an SQLite file, as a disk would."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(sql, values).rowcount == 1
        connection.commit()
