"""Write transactions of an SQLite file, and what SQLite's errors mean for a log."""

import os
import sqlite3
from pathlib import Path

from eventlib.errors import EventlibError, LogCorrupt, LogFull, LogReadOnly, LogUnavailable

_PRIMARY = 0xFF  # the low byte of an extended code is the primary one
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
# The statements are right, so beyond the first line: a table is missing, a text is none, a length or a place was never
# written like that.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT} | {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_CONSTRAINT,
}
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_NO_SPACE_BYTES = 256 * 1024
REPAIR = "`eventlib doctor --deep` names all that is, `eventlib repair` does what can be proved"


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another process has the file right now, so that trying again helps."""
    return _code(error) & _PRIMARY in _BUSY


def is_damaged(error: Exception) -> bool:
    """Tell whether the file itself is broken, or is no database."""
    if isinstance(error, sqlite3.Error):
        return _code(error) & _PRIMARY in _DAMAGED
    return isinstance(error, UnicodeDecodeError)  # SQLite's message quotes bytes that are no text


def is_about_the_record(error: sqlite3.Error) -> bool:
    """Tell whether a record's own content was refused, not the log's state."""
    about = {sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH}
    return isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError | sqlite3.DataError) or (
        _code(error) & _PRIMARY in about
    )


def explained(error: sqlite3.Error, path: Path, what: str = "log") -> EventlibError:
    """Return what an SQLite error means for `what`."""
    code = _code(error)
    primary = code & _PRIMARY
    if primary in _BUSY:
        return unavailable(path, "another process is writing to it without a pause", what)
    if primary == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE or _has_no_space(primary, path):
        return LogFull(
            f"no space is left for the {what} {path} ({error}): nothing of this was written, and what was written before "
            f"is safe; make room on its disk, and the {what} goes on"
        )
    if code == sqlite3.SQLITE_CONSTRAINT_TRIGGER:  # its only trigger is that of a log that was retired
        return LogReadOnly(f"the {what} {path} takes nothing more: {error}")
    if is_damaged(error):
        return damaged(path, str(error), what)
    if primary in _FORBIDDEN:
        return read_only(path, str(error), what)
    return unavailable(path, f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})", what)


def damaged(path: Path, why: str, what: str = "log") -> LogCorrupt:
    """Return the refusal of a file that cannot be read as what it should be."""
    return LogCorrupt(
        f"the {what} {path} is damaged, or is not a {what} at all ({why}): keep a copy, and restore it from a backup; "
        f'`sqlite3 {path.name} ".recover"` saves what is readable'
    )


def read_only(path: Path, why: str, what: str = "log") -> LogReadOnly:
    """Return the refusal to write to a log that can only be read."""
    return LogReadOnly(
        f"the {what} {path} cannot be written to ({why}): nothing was written; give this user write access to the file "
        "and its directory, or open a copy elsewhere"
    )


def unavailable(path: Path, why: str, what: str = "log") -> LogUnavailable:
    """Return the failure of a log that may be there again later."""
    return LogUnavailable(f"the {what} {path} is out of reach: {why}; nothing was written, try again later")


def _code(error: sqlite3.Error) -> int:
    # Python's own errors have no code: text that cannot be decoded is an OperationalError, the others are our mistakes.
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
