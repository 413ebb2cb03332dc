"""Writes the rows of partitions again that a damaged SQLite log's records imply: nothing is guessed, and the file is kept."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import sleep

from eventlib.errors import WiringError
from eventlib.ground.private_files import create_private
from eventlib.log.processes import described, is_dead, is_here
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.damage import Damage
from eventlib.log.sqlite.errors import Transaction, explained
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.operations.doctor.deep import Progress, prove_file


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repair: what it repaired, what is left, how many records have no checksum, and the copy of the file before."""

    done: Sequence[Damage]
    left: Sequence[Damage]
    unsealed: int
    kept: Path | None


def repair_file(path: Path, *, dry_run: bool, progress: Progress = lambda *_: None) -> Repaired:
    """Restore partitions' rows from their records, whose checksums prove them.

    Guarantee: the original file is copied beside it before anything is written, and all that is proved is written in one
    transaction. Raises: WiringError while services run on it; LogCorrupt, LogUnavailable.
    """
    try:
        before = prove_file(path, progress)
        proved = [each for each in before.damages if each.repair]
        if dry_run or not proved:
            return Repaired(proved, [each for each in before.damages if not each.repair], before.unsealed, None)
        _refuse_running(path)
        kept = _kept(path)
        _write(path, proved)
        return Repaired(proved, prove_file(path, progress).damages, before.unsealed, kept)
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _refuse_running(path: Path) -> None:
    """Refuse a log with running services, here or elsewhere: an owner whose heartbeat is older than a lease is dead."""
    with closing(connect(path)) as connection:
        before = _heartbeats(connection)
        living = {service: described(owner) for service, owner, _ in before if is_here(owner)}
        if before and not living:
            sleep(SqliteOptions().lease_s)
            living = {service: described(owner) for service, owner, _ in _heartbeats(connection) - before}
    if living:
        who = ", ".join(f"{service} ({owner})" for service, owner in sorted(living.items()))
        raise WiringError(f"services run on the log {path}: {who}; stop them first, then repair (--dry-run only reads)")


def _heartbeats(connection: sqlite3.Connection) -> set[tuple[str, str, int]]:
    """Return the owners that may be alive, and their last heartbeats."""
    rows = connection.execute("SELECT service, owner, seen_at FROM owners WHERE owner != ''")
    return {(service, owner, seen_at) for service, owner, seen_at in rows if not is_dead(owner)}


def _kept(path: Path) -> Path:
    """Copy the file, with its write-ahead log, beside it, and return the copy."""
    copy = path.with_name(f"{path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}Z")
    create_private(copy)
    with closing(connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def _write(path: Path, proved: Sequence[Damage]) -> None:
    """Write what is proved in one transaction."""
    with closing(connect(path)) as connection, Transaction(connection):
        for damage in proved:
            for sql, values in damage.repair:
                connection.execute(sql, values)
