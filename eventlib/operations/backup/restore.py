"""Replaces a log with a backup: verified first, and never one that holds more without an explicit reason."""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from eventlib.errors import LogCorrupt, LogUnavailable, WiringError
from eventlib.ground.durable import settle
from eventlib.ground.posix import fcntl
from eventlib.ground.private_files import create_private, make_private_directory
from eventlib.log.sqlite.errors import Transaction, explained
from eventlib.log.sqlite.high_water import mark_beside, mark_path, record_loss
from eventlib.operations.backup.increments import put_on_top
from eventlib.operations.backup.manifest import Backup, cannot_write, chain
from eventlib.operations.backup.verify import content_of
from eventlib.operations.backup.witnesses import Testimony, ask_witnesses
from eventlib.values import from_ms, now_ms

# Where SQLite keeps its shared locks: https://sqlite.org/fileformat2.html, "The Lock-Byte Page"; while a process has
# a log in WAL mode open, it holds one of these bytes.
_SHARED_FIRST, _SHARED_BYTES = 0x40000002, 510


@dataclass(frozen=True, slots=True)
class Restored:
    """A restore: which backups, how many records, the witnesses asked, and where the replaced log is kept."""

    backups: Sequence[Backup]
    records: int
    testimony: Testimony
    log_id: str
    replaced: Path | None

    @property
    def is_another(self) -> bool:
        """Whether the log has a new log_id, so that no cache of lost records is used."""
        return self.log_id != self.backups[-1].manifest.log_id


async def restore(source: Path, path: Path, live: str | None, reason: str | None) -> Restored:
    """Replace the log at `path` with the newest backup at `source`; a `reason` allows it if the log holds more.

    `live` is another log or archive that may hold newer records.
    Guarantee: every byte and record of it is verified before anything changes; the replaced log is kept beside it.
    What is known to be lost is recorded in the log, which then has a new log_id. Raises: LogCorrupt for a damaged backup;
    WiringError when the existing log holds more, or cannot be read; LogUnavailable while processes have it open; LogFull,
    LogReadOnly.
    """
    backups = chain(source)
    manifest = backups[-1].manifest
    unfinished = path.with_name(f"{path.name}.restoring")
    try:
        for backup in backups:
            backup.refuse_changed()
        make_private_directory(path.parent)
        with _exclusively(path):
            pass
        mark = mark_beside(path)
        testimony = await ask_witnesses(manifest, path, live)
        if reason is None:
            _refuse_less(path, testimony)
        records = _build(backups, unfinished)
        log_id = manifest.log_id
        if testimony.missing:
            log_id = _begin_another(
                unfinished, testimony.missing, reason or f"restored the backup of {manifest.made_at}"
            )
        settle(unfinished)
        # The existing log was read before: opening and closing such a file here would release its locks.
        with _exclusively(path):
            if mark_beside(path) != mark:
                raise LogUnavailable(f"a process has just written to {path}: stop it first")
            replaced = _swap(unfinished, path)
    except sqlite3.Error as error:
        raise explained(error, path) from error
    except OSError as error:
        raise cannot_write(error, path) from error
    finally:
        for suffix in ("", "-wal", "-shm"):
            unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)
    if log_id != manifest.log_id:
        mark_path(path).unlink(missing_ok=True)
    return Restored(backups, records, testimony, log_id, replaced)


def _build(backups: Sequence[Backup], to: Path) -> int:
    """Build a log from a full backup and its increments, and return how many records it has. Raises: LogCorrupt."""
    full, *increments = backups
    create_private(to)
    shutil.copyfile(full.file, to)
    if increments:
        with closing(sqlite3.connect(f"file:{to}", uri=True, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            for each in increments:
                put_on_top(connection, each.file)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content, manifest = content_of(to), backups[-1].manifest
    faults = {*content.damaged} - {*manifest.damaged}
    if content.partitions != manifest.partitions or content.log_id != manifest.log_id:
        faults.add("its partitions do not end where they did")
    if faults:
        raise LogCorrupt(
            f"the backup {full.file.parent} is not what was backed up: {'; '.join(sorted(faults)[:5])}; use another"
        )
    return content.records


def _refuse_less(path: Path, testimony: Testimony) -> None:
    if not path.exists():
        return
    say = "give --force --reason WHY to replace it; what is there is kept beside it, under another name"
    if testimony.other_log:
        raise WiringError(f"at {path} is another log ({testimony.other_log}): {say}")
    if testimony.unreadable:
        raise WiringError(
            f"cannot determine whether {path} holds more than the backup ({testimony.unreadable[0]}): {say}"
        )
    if testimony.missing:
        behind = testimony.behind
        some = ", ".join(f"{each.topic}/{each.partition} from {each.first} to {each.end - 1}" for each in behind[:4])
        what = f" ({some}{' and more' if len(behind) > 4 else ''})" if behind else ""  # noqa: PLR2004  enough for a sentence
        raise WiringError(
            f"{path}, or what is beside it, has {testimony.missing:,} records more than the backup{what}: {say}"
        )


def _begin_another(path: Path, missing: int, reason: str) -> str:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with Transaction(connection):
            record_loss(connection, missing, reason)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (log_id,) = connection.execute("SELECT value FROM meta WHERE name = 'log_id'").fetchone()
    return str(log_id)


def _swap(unfinished: Path, path: Path) -> Path | None:
    """Replace a log with a file; the log is kept beside it under another name."""
    aside = path.with_name(f"{path.name}.replaced-{from_ms(now_ms()):%Y%m%dT%H%M%S%f}")
    journal = path.with_name(f"{path.name}-wal")
    was_there = path.exists()
    if was_there:
        path.rename(aside)
    if journal.exists():  # of the replaced log: for another one it would be garbage, or be applied
        journal.rename(aside.with_name(f"{aside.name}-wal"))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    unfinished.rename(path)
    settle(path.parent)
    return aside if was_there else None


@contextmanager
def _exclusively(path: Path) -> Iterator[None]:
    """Refuse when a process has a log open, and keep others from opening it. Raises: LogUnavailable."""
    if not path.exists():
        yield
        return
    with path.open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_BYTES, _SHARED_FIRST)
        except BlockingIOError as error:
            raise LogUnavailable(f"processes have {path} open: stop them first (`fuser {path}` shows them)") from error
        yield
