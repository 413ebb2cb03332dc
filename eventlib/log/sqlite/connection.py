"""Opens the file of an SQLite log: with what settings, from a read-only mount too, and not when it is cut off."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from eventlib.errors import LogReadOnly
from eventlib.log.sqlite.errors import damaged

_HEADER_BYTES = 100


def refuse_cut_off(path: Path) -> None:
    """Refuse a truncated file, before SQLite takes the rest for a new or shorter database.

    Raises: LogCorrupt.
    """
    journal = path.with_name(f"{path.name}-wal")
    journal_bytes = _size(journal)
    size = _size(path)
    if journal_bytes > 0 and not path.exists():
        raise damaged(path, f"there is no such file, but its journal {journal.name} is there: it was removed or moved")
    if size == 0 and journal_bytes > 0:
        raise damaged(path, f"it is empty, but its journal {journal.name} is not")
    if 0 < size < _HEADER_BYTES:
        raise damaged(path, f"it has only {size} bytes")
    # With a journal, the last page may be partial for a moment, or after a crash: the journal then has all of it.
    if size > 0 and journal_bytes == _size(journal) == 0:
        page_bytes = _page_bytes(path)
        if page_bytes and size % page_bytes:
            raise damaged(path, f"its {size} bytes are not a multiple of the page size {page_bytes}")


def file_uri(path: Path, *, reads: bool = False) -> str:
    """Return the URI that opens a file with SQLite, read-only if `reads`; from a read-only mount always.

    There SQLite cannot share memory with other processes, and opens the file as immutable. Raises: LogReadOnly
    when the mount has a write-ahead log, which cannot be read then.
    """
    uri = f"file:{quote(str(path.absolute()))}"
    if not _is_on_read_only_mount(path):
        return f"{uri}?mode=ro" if reads else uri
    journal = path.with_name(f"{path.name}-wal")
    if _size(journal) == 0:
        return f"{uri}?mode=ro&immutable=1"
    if not path.with_name(f"{path.name}-shm").exists():
        why = f"it is on a read-only mount, and {journal.name} has changes not yet in the file"
        raise LogReadOnly(
            f"the log {path} cannot be read there ({why}): copy {path.name} and {journal.name} together to a directory "
            "that is writable, and open the copy"
        )
    return f"{uri}?mode=ro"


def _is_on_read_only_mount(path: Path) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:  # it does not exist yet, or SQLite will report what is wrong
        return False


def connect(path: Path, max_bytes: int | None = None) -> sqlite3.Connection:
    """Open the file, without a busy handler: a caller that waits yields to the event loop.

    Raises: sqlite3.Error; LogCorrupt for a file whose tables have no readable declaration.
    """
    connection = sqlite3.connect(file_uri(path), uri=True, timeout=0, isolation_level=None, cached_statements=256)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA cache_size=-8192")  # KiB
        connection.execute("PRAGMA journal_size_limit=67108864")
        if max_bytes is not None:
            page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={max_bytes // page_bytes}")
    except UnicodeDecodeError as error:  # SQLite's own message quotes bytes that are not UTF-8
        connection.close()
        raise damaged(path, str(error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def identity(path: Path) -> tuple[int, int] | None:
    """Return which file has this name now, as its inode and device; None when it is missing or unknown."""
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_ino, there.st_dev


def log_id_in(path: Path) -> str | None:
    """Return which log a file has, without its write-ahead log; None while it has none yet, or when that is unknown."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)) as alone:
            row = alone.execute("SELECT value FROM meta WHERE name = 'log_id'").fetchone()
    except sqlite3.Error:
        return None
    return str(row[0]) if row else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0  # SQLite will report what is wrong


def _page_bytes(path: Path) -> int:
    """Return a database's page size; 0 without a valid header.

    SQLite is asked: had this process a descriptor of its own, closing it would drop the locks of all its connections to
    the file, and another process would then delete a journal that is in use.
    Source: https://sqlite.org/howtocorrupt.html, "POSIX advisory locks canceled by a separate thread doing close()".
    """
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)) as file:
            file.execute("PRAGMA writable_schema = ON")  # lets it read the header of a file that is cut off
            file.execute("PRAGMA schema_version")
            return int(file.execute("PRAGMA page_size").fetchone()[0])
    except sqlite3.Error:
        return 0
