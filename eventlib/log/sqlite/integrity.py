"""Verifies an SQLite log's file: its B-tree, its schema texts, its small tables, and all its records."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eventlib.log.checksum import seal_of
from eventlib.log.sqlite.damage import Damage, as_it_stands
from eventlib.log.sqlite.format import FORMAT_VERSION
from eventlib.log.sqlite.scan import Progress, Scan
from eventlib.log.sqlite.schema import foreign_texts, version_of
from eventlib.log.sqlite.upgrade import SEALED

_FAULTS = 100
_AFTER = {
    "milestones": "it only speeds up reads by time",
    "owners": "its task is claimed again, with an epoch above every other claim",
    "archived": "retention is paused until the next run of the archiver",
    "topics": "its retention is paused until its declaration is written again, at the next start of its services",
}


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of verifying an SQLite log's file.

    `unsealed` counts the records without a checksum, written by an older release: those cannot be verified.
    """

    damages: Sequence[Damage]
    records: int
    unsealed: int


def prove(connection: sqlite3.Connection, progress: Progress = lambda _: None) -> Proof:
    """Verify everything in a log's file, as of one moment; nothing is changed.

    The connection is dedicated to this, and unusable afterwards. Raises: sqlite3.Error for what cannot be read at all.
    """
    connection.execute("BEGIN")
    connection.text_factory = as_it_stands
    damages = [*_prove_structure(connection), *_prove_schema(connection)]
    for table in SEALED:
        damages += _prove_table(connection, table)
    scan = Scan(connection, progress)
    damages += scan.run()
    return Proof(damages, scan.records, sum(part.unsealed for part in scan.parts.values()))


def _prove_structure(connection: sqlite3.Connection) -> Iterator[Damage]:
    try:
        for (fault,) in connection.execute(f"PRAGMA integrity_check({_FAULTS})"):
            if fault != "ok":
                yield Damage("structure", fault)
    except sqlite3.DatabaseError as error:
        yield Damage("structure", str(error))


def _prove_schema(connection: sqlite3.Connection) -> Iterator[Damage]:
    if (version := version_of(connection)) not in range(1, FORMAT_VERSION + 1):
        yield Damage("schema", f"its user_version is {version}, which no release has written")
    for name in foreign_texts(connection):
        yield Damage("schema", f"the text of {name} in sqlite_schema is not what a log writes, or is missing")


def _prove_table(connection: sqlite3.Connection, table: str) -> Iterator[Damage]:
    """Verify each row of a small table against its checksum."""
    key, columns = SEALED[table]
    try:
        rows = connection.execute(f"SELECT {', '.join(columns)}, checksum FROM {table}").fetchall()  # noqa: S608  names of its own
    except sqlite3.DatabaseError as error:
        if table != "archived" or "no such table" not in str(error):  # only an archived log has it
            yield Damage("tables", f"table {table} cannot be read: {error}")
        return
    for *values, checksum in rows:
        row = tuple(values)
        if checksum != seal_of(row):
            named = f"the row {', '.join(map(repr, row[: len(key)]))} of table {table}"
            yield Damage("tables", f"{named} does not match its checksum", likely=_AFTER.get(table, ""))
