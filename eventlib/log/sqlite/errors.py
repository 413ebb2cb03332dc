"""Write transactions of an SQLite file, and the mapping of SQLite's errors to a log's errors."""

import os
import sqlite3
from pathlib import Path

from eventlib.errors import EventlibError, LogCorrupt, LogFull, LogReadOnly, LogReplaced, LogUnavailable

_PRIMARY = 0xFF  # the low byte of an extended code is the primary one
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
# The statements are correct, so beyond the first line these mean damage: a missing table, invalid text, or a length or
# location that was never written.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT} | {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_CONSTRAINT,
}
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_NO_SPACE_BYTES = 256 * 1024
REPAIR = "`eventlib repair` writes its row again where its records imply it; else restore it from a backup"


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process holds the file's lock, so that a retry helps."""
    return _code(error) & _PRIMARY in _BUSY


def is_damaged(error: Exception) -> bool:
    """Whether the file itself is corrupt, or not a database."""
    if isinstance(error, sqlite3.Error):
        return _code(error) & _PRIMARY in _DAMAGED
    return isinstance(error, UnicodeDecodeError)  # SQLite's message quotes bytes that are not UTF-8


def is_about_the_record(error: sqlite3.Error) -> bool:
    """Whether a record's own content was refused, independent of the log's state."""
    about = {sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH}
    return isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError | sqlite3.DataError) or (
        _code(error) & _PRIMARY in about
    )


def explained(error: sqlite3.Error, path: Path, what: str = "log") -> EventlibError:
    """Return the error that an SQLite error means for `what`."""
    code = _code(error)
    primary = code & _PRIMARY
    if primary in _BUSY:
        return unavailable(path, "another process is writing to it without a pause", what)
    if primary == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE or _has_no_space(primary, path):
        return LogFull(
            f"no space is left for the {what} {path} ({error}): this write was rolled back, and earlier writes "
            f"are safe; free space on its disk, and the {what} continues"
        )
    if code == sqlite3.SQLITE_CONSTRAINT_TRIGGER:  # its only trigger is that of a retired log
        return LogReadOnly(f"the {what} {path} accepts no more writes: {error}")
    if is_damaged(error):
        return damaged(path, str(error), what)
    if primary in _FORBIDDEN:
        return read_only(path, str(error), what)
    return unavailable(path, f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})", what)


def damaged(path: Path, why: str, what: str = "log") -> LogCorrupt:
    """Return the error for a file that cannot be read as a log or cache."""
    return LogCorrupt(
        f"the {what} {path} is damaged, is not a {what} at all, or was replaced by a copy while a process had it open ({why}): keep a copy, and restore it from a backup; "
        f'`sqlite3 {path.name} ".recover"` salvages what is readable'
    )


def replaced(path: Path) -> LogReplaced:
    """Return the error for a log whose name belongs to another file by now, or to none."""
    what = ("replaced", "the file") if path.exists() else ("removed or moved", "a file")
    return LogReplaced(
        f"the log's file {path} was {what[0]} while this process had it open: what is written here no longer gets into "
        f"{what[1]} of that name, so this append counts as failed. Stop every process that has the log open, put the right "
        "file in its place (without the -wal of another one), and start them again"
    )


def read_only(path: Path, why: str, what: str = "log") -> LogReadOnly:
    """Return the error for a write to a log that can only be read."""
    return LogReadOnly(
        f"the {what} {path} cannot be written to ({why}): nothing was written; give this user write access to the file "
        "and its directory, or open a copy elsewhere"
    )


def unavailable(path: Path, why: str, what: str = "log") -> LogUnavailable:
    """Return the error for a log that may become available again."""
    return LogUnavailable(f"the {what} {path} is unavailable: {why}; nothing was written, try again later")


def _code(error: sqlite3.Error) -> int:
    # Python's own errors have no code: undecodable text is an OperationalError, the others are bugs here.
    own = sqlite3.SQLITE_ERROR if isinstance(error, sqlite3.OperationalError) else sqlite3.SQLITE_MISUSE
    return getattr(error, "sqlite_errorcode", own)


def _has_no_space(primary: int, path: Path) -> bool:
    if primary != sqlite3.SQLITE_IOERR:
        return False
    try:
        there = os.statvfs(path.parent)
    except OSError:
        return False
    return there.f_bavail * there.f_frsize < _NO_SPACE_BYTES


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
