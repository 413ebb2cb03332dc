"""Examines a log in an SQLite file: whether it is intact and writable, and other processes keep no lock on it."""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from eventlib.errors import EventlibError
from eventlib.log.processes import is_dead
from eventlib.log.sqlite.connection import connect, refuse_cut_off
from eventlib.log.sqlite.errors import explained, is_busy
from eventlib.log.sqlite.high_water import losses, missing_in, why_no_mark
from eventlib.log.sqlite.schema import check_version, retired
from eventlib.operations.doctor.disk import examine_room, network_file_system
from eventlib.operations.doctor.finding import Diagnosis, error, fine, warning
from eventlib.values import from_ms

_LOCK_PATIENCE_S = 3.0
_CHECK_PATIENCE_S = 60.0
_STEPS_BETWEEN_LOOKS = 100_000
_LARGE_JOURNAL_BYTES = 256 << 20
_LOCKS = Path("/proc/locks")
_WRITE_LOCK_BYTE = "120"  # https://sqlite.org/walformat.html, "WAL Locks"


def examine_file(path: Path) -> list[Diagnosis]:
    """Examine a log's file. Nothing is changed, not even what could be repaired."""
    path = path.absolute()
    if not path.exists():
        return [_examine_place(path)]
    found = [each for each in (_examine_file_system(path), _examine_room(path)) if each is not None]
    try:
        refuse_cut_off(path)
        if path.stat().st_size == 0:
            return [*found, _examine_place(path)]
        with closing(connect(path)) as connection:
            check_version(connection, path)
            checks: tuple[Callable[[sqlite3.Connection, Path], Diagnosis | None], ...] = (
                _examine_retirement,
                _examine_journal,
                _examine_pages,
                _examine_tail,
                _examine_lock,
                _examine_owners,
            )
            found += [each for check in checks if (each := check(connection, path)) is not None]
    except sqlite3.Error as trouble:
        found.append(_diagnosis_of(explained(trouble, path)))
    except EventlibError as trouble:
        found.append(_diagnosis_of(trouble))
    return found


def _diagnosis_of(trouble: EventlibError) -> Diagnosis:
    what, _, remedy = str(trouble).partition(": ")
    return error("file", what, remedy)


def _examine_place(path: Path) -> Diagnosis:
    there = next(each for each in path.parents if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        return error(
            "file", f"there is no log at {path}, and {there} cannot be written by this user", "name another --log"
        )
    return warning("file", f"there is no log at {path} yet", "`eventlib run` makes one, or name another with --log")


def _examine_file_system(path: Path) -> Diagnosis | None:
    kind = network_file_system(path.parent)
    if kind is None:
        return None
    what = f"{path} is on a network file system ({kind}), where SQLite's locks and shared memory cannot be relied on"
    return error("file", what, "move the log to a disk of this machine, or to Kafka (`eventlib copy`)")


def _examine_room(path: Path) -> Diagnosis | None:
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        return error(
            "file", f"{path} or its directory cannot be written by this user", "give this user write access to both"
        )
    return examine_room("file", path.parent)


def _examine_retirement(connection: sqlite3.Connection, path: Path) -> Diagnosis | None:
    reason = retired(connection)
    if reason is None:
        return None
    undo = "DROP TRIGGER retired; DELETE FROM meta WHERE name = 'retired'"
    remedy = f'use that one; if nothing has run on it, sqlite3 {path} "{undo}" undoes the move'
    return error("file", f"it is closed to writes: {reason}", remedy)


def _examine_journal(connection: sqlite3.Connection, path: Path) -> Diagnosis:
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if mode != "wal":
        what = f"its journal mode is {mode}: readers and writers block each other"
        return error("journal", what, f"stop the services; sqlite3 {path} 'PRAGMA journal_mode=WAL'")
    journal = path.with_name(f"{path.name}-wal")
    size = journal.stat().st_size if journal.exists() else 0
    if size > _LARGE_JOURNAL_BYTES:
        what = f"its write-ahead log has grown to {size / 1e6:,.0f} MB: some process has a read transaction that does not end"
        return warning("journal", what, f"`fuser {path}` shows who has it open; it shrinks when that one ends")
    return fine("journal", f"write-ahead log, {size / 1e6:,.1f} MB")


def _examine_pages(connection: sqlite3.Connection, path: Path) -> Diagnosis:
    size = f"{path.stat().st_size / 1e6:,.1f} MB"
    deadline = time.monotonic() + _CHECK_PATIENCE_S
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)
    try:
        faults = [row[0] for row in connection.execute("PRAGMA quick_check(3)")]
    except sqlite3.OperationalError as trouble:
        if getattr(trouble, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
            raise
        what = f"its {size} were not checked to the end within {_CHECK_PATIENCE_S:g} s"
        return warning("pages", what, f"sqlite3 {path} 'PRAGMA quick_check' takes as long as it needs")
    finally:
        connection.set_progress_handler(None, 0)
    if faults != ["ok"]:
        what = f"the file is damaged: {'; '.join(faults)}"
        remedy = f"keep a copy, restore it from a backup; sqlite3 {path.name} '.recover' saves what is readable"
        return error("pages", what, remedy)
    return fine("pages", f"{size}, intact")


def _examine_tail(connection: sqlite3.Connection, path: Path) -> Diagnosis | None:
    missing = missing_in(path, connection)
    if missing:
        what = (
            f"{missing:,} records that were acknowledged are missing from its end: its write-ahead log was lost or damaged, or "
            "an older copy was put in its place; it refuses writes"
        )
        remedy = (
            "`eventlib restore` restores a newer copy; `eventlib repair --accept-loss --reason WHY` continues without"
        )
        return error("tail", what, remedy)
    accepted = losses(connection)
    if accepted:
        told = "; ".join(
            f"{from_ms(each.at_ms):%Y-%m-%d %H:%M}: {each.records:,} records ({each.reason})" for each in accepted
        )
        return warning(
            "tail",
            f"a loss was accepted, {told}",
            "external systems may have acted on these records; this log does not show it",
        )
    why = why_no_mark(path)
    if why:
        what = (
            f"no watermark can be kept beside it, so that a loss of records from its end would not be noticed ({why})"
        )
        return warning("tail", what, "use a local disk, if this one cannot map files into memory")
    return None


def _examine_lock(connection: sqlite3.Connection, path: Path) -> Diagnosis:
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    began = time.monotonic()
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as trouble:
            if not is_busy(trouble):
                raise
            if time.monotonic() > deadline:
                what = f"another process has held the write lock for {_LOCK_PATIENCE_S:g} s: {_writer(path)}"
                return error(
                    "lock", what, "let it end its transaction, or end it: until then nothing else can be written"
                )
            time.sleep(0.001)
        else:
            connection.execute("ROLLBACK")
            return fine("lock", f"could write after {(time.monotonic() - began) * 1000:,.0f} ms")


def _writer(path: Path) -> str:
    """Return which process has the lock, from the system's table of locks."""
    try:
        shared = path.with_name(f"{path.name}-shm").stat().st_ino
        locks = [line.split() for line in _LOCKS.read_text(encoding="ascii").splitlines()]
        pids = [each[4] for each in locks if each[5].endswith(f":{shared}") and each[6] == _WRITE_LOCK_BYTE]
        command = Path(f"/proc/{pids[0]}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (OSError, IndexError):
        return f"`fuser {path}` shows which ones have it open"
    return f"process {pids[0]} ({command[:80]})"


def _examine_owners(connection: sqlite3.Connection, _: Path) -> Diagnosis:
    living = dict[str, set[str]]()
    for service, owner in connection.execute("SELECT DISTINCT service, owner FROM owners WHERE owner != ''"):
        if not is_dead(owner):
            host, pid, *_rest = owner.split("/")
            living.setdefault(f"process {pid} on {host}", set()).add(service)
    if not living:
        return fine("services", "no process runs services on it")
    return fine("services", "; ".join(f"{', '.join(sorted(names))}: {who}" for who, names in living.items()))
