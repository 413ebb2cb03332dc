"""Queries of an SQLite file through ADBC: the rows as Arrow batches."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eventlib.log.sqlite.connection import file_uri

if TYPE_CHECKING:
    from adbc_driver_sqlite import dbapi

BATCH_ROWS = 16_384
_LOCKED_MS = 30_000


class Batches:
    """A log's file, read as Arrow batches; open from the first query on, until it is closed.

    ADBC has an SQLite of its own. While both have one file open in one process, whichever closes it first drops the other's
    locks, and another process may then change what is being read: so it is closed before Python's is asked.
    Source: https://sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the same application".
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: dbapi.Connection | None = None

    def of(self, sql: str, values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield a query's rows."""
        with self._open().cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
            cursor.execute(sql, values)
            yield from cursor.fetch_record_batch()

    def _open(self) -> "dbapi.Connection":
        """Wait for locks: the first process to open a file, and the last to close it, hold one a moment."""
        from adbc_driver_sqlite import dbapi  # which imports pandas

        if self._connection is None:
            self._connection = dbapi.connect(file_uri(self._path, reads=True))
            with self._connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {_LOCKED_MS}")
                cursor.fetchall()
        return self._connection

    def close(self) -> None:
        """Close the file, and what is read of it; a next query opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
