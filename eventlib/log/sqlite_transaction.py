"""A transaction of an SQLite file that writes: all of it, or nothing."""

import sqlite3


class Transaction:
    """BEGIN IMMEDIATE, then COMMIT; ROLLBACK when the block or the commit fails. Raises: sqlite3.Error."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
