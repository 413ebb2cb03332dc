"""Upgrades files of older formats."""

import sqlite3

from eventlib.log.checksum import seal
from eventlib.log.sqlite.format import FORMAT_VERSION, LOG_VIEW
from eventlib.log.sqlite.sealed import PARTITIONS, seal_partitions

OLDER_TEXTS = frozenset((
    *(226684847383073435, 234435361758398390, 739089622231232859, 769297669372583137, 2497334376515474543),
    *(2880933781208575331, 3797671311263995297, 4239526835062498411, 7155700674699173922, 7227462552776342581),
    *(8298243595742787451, 8377426911475200505, 8892200643999867346, 8940623070822526748, 9159755708799081934),
))  # fmt: skip
"""The seals of the first format's rows in sqlite_schema, as they were and as `upgrade` leaves them."""
_COLUMNS = (
    "meta ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
    "topics ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
    "partitions ADD COLUMN dense_from INTEGER NOT NULL DEFAULT 0",
    "partitions ADD COLUMN checked_from INTEGER NOT NULL DEFAULT 0",
    "partitions ADD COLUMN digest INTEGER NOT NULL DEFAULT 0",
    "partitions ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
    "records ADD COLUMN checksum INTEGER",
    "milestones ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
    "owners ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
)

SEALED = {
    "meta": (("name",), ("name", "value")),
    "topics": (
        ("name",),
        ("name", "partitions", "partitioner", "retention_ms", "retention_bytes", "compacted", "latest", "max_event_bytes"),
    ),
    "milestones": (("position",), ("position", "newest_at")),
    "owners": (("service", "partition"), ("service", "partition", "epoch", "owner")),
    "archived": (("number",), ("number", "next_offset")),
}  # fmt: skip
"""Each small table's key, and the columns under its rows' checksums; partitions are handled separately."""


def upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Upgrade a file of an older format, in the transaction that was begun. Raises: sqlite3.Error.

    Existing records stay as they are. In the first format they have no checksum; the small tables get theirs now.
    """
    if version == 1:
        _seal_tables(connection)
    connection.execute("DROP VIEW IF EXISTS main.log")
    connection.execute(LOG_VIEW)
    connection.execute(f"PRAGMA user_version={FORMAT_VERSION}")


def _seal_tables(connection: sqlite3.Connection) -> None:
    for column in _COLUMNS:
        connection.execute(f"ALTER TABLE {column}")
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "archived" in tables:
        connection.execute("ALTER TABLE archived ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
    connection.execute("UPDATE partitions SET dense_from = next_offset, checked_from = next_offset")
    for name in SEALED.keys() & tables:
        _seal(connection, name)
    seal_partitions(connection, connection.execute(PARTITIONS).fetchall())


def _seal(connection: sqlite3.Connection, table: str) -> None:
    key, columns = SEALED[table]
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()  # noqa: S608  names of this file
    update = f"UPDATE {table} SET checksum = ? WHERE {' AND '.join(f'{name} = ?' for name in key)}"  # noqa: S608  names of this file
    connection.executemany(update, [(seal(*row), *row[: len(key)]) for row in rows])
