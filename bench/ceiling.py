"""The ceiling: the records of a finished log, appended by bare sqlite3 in batches; prints records/s.

`python -m bench.ceiling LOG BATCH DIRECTORY`: the same bytes, with synchronous=FULL, by executemany into a
table of the same shape; nothing else is done.
"""

import sqlite3
import sys
import time
from pathlib import Path

from tests.in_rows import in_rows

_TABLE = """CREATE TABLE records (position INTEGER PRIMARY KEY, recorded_at INTEGER, key BLOB, value BLOB, id TEXT,
type TEXT, source TEXT, subject TEXT, sequence INTEGER, correlation_id TEXT, causation_id TEXT, traceparent TEXT,
headers TEXT, checksum INTEGER)"""
_INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def main(log: Path, batch: int, directory: Path) -> float:
    """Append the log's records again, each as a row, in the order of their times, and return the rate."""
    with sqlite3.connect(log) as source, sqlite3.connect(directory / "rows.db") as copy:
        source.backup(copy)
    with sqlite3.connect(in_rows(directory / "rows.db")) as source:
        rows = source.execute("SELECT * FROM records ORDER BY recorded_at, position LIMIT 200000").fetchall()
    source.close()
    target = sqlite3.connect(directory / "ceiling.db", isolation_level=None)
    target.execute("PRAGMA journal_mode=WAL")
    target.execute("PRAGMA synchronous=FULL")
    target.execute(_TABLE)
    began = time.perf_counter()
    for first in range(0, len(rows), batch):
        target.execute("BEGIN IMMEDIATE")
        target.executemany(_INSERT, rows[first : first + batch])
        target.execute("COMMIT")
    seconds = time.perf_counter() - began
    target.close()
    return len(rows) / seconds


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
