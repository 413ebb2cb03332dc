"""Backs up a log to a file while services write to it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from eventlib.errors import WiringError
from eventlib.ground.durable import alone, sha256_of
from eventlib.ground.private_files import create_private, make_private_directory
from eventlib.log.sqlite.connection import connect, refuse_cut_off
from eventlib.log.sqlite.errors import explained
from eventlib.log.sqlite.schema import check_version
from eventlib.operations.backup.increments import increment_fits, write_increment
from eventlib.operations.backup.manifest import Backup, Manifest, cannot_write, commit, manifest_of, newest, numbered
from eventlib.operations.backup.verify import Content, content_of
from eventlib.values import from_ms, now_ms

_UNFINISHED = ".unfinished"
_PAGES_AT_ONCE = 2_000

Progress = Callable[[int, int], None]
"""Called with how many pages are copied, and how many there are."""


def back_up(log: Path, url: str, to: Path, *, full: bool, progress: Progress) -> Backup:
    """Back up a log as of one point in time: to a file, or to a directory as the next of its backups.

    The next one in a directory is an increment where that is smaller: the changes since the one before.
    Guarantee: a file under its final name is complete, verified and on disk; writers are not blocked, and the log is not
    changed. Raises: LogCorrupt, LogFull, LogUnavailable, LogReadOnly, WiringError.
    """
    if not log.is_file():
        raise WiringError(f"there is no log at {log}: name another with --log")
    refuse_cut_off(log)
    try:
        if to.is_dir():
            with alone(to, "makes backups in"):
                return _next(log, url, to, full=full, progress=progress)
        make_private_directory(to.parent)
        if to.exists() or manifest_of(to).exists():
            raise WiringError(f"{to} exists already: give this backup another name, or a directory")
        with alone(to.parent, "makes backups in"):
            return _write(log, url, manifest_of(to), to.name, None, progress)
    except sqlite3.Error as error:
        raise explained(error, to, "backup") from error
    except OSError as error:
        raise cannot_write(error, to) from error


def _next(log: Path, url: str, directory: Path, *, full: bool, progress: Progress) -> Backup:
    for left in directory.glob(f"*{_UNFINISHED}*"):
        left.unlink()
    before = newest(directory)
    number = 1 if before is None else before.manifest.number + 1
    before = None if full else before
    if before is not None and not increment_fits(directory, before, log):
        before = None
    name = f"{number:06}-{'full' if before is None else 'increment'}.db"
    return _write(log, url, numbered(directory, number), name, before, progress)


def _write(log: Path, url: str, path: Path, name: str, before: Backup | None, progress: Progress) -> Backup:
    unfinished = path.with_name(f"{name}{_UNFINISHED}")
    unfinished.unlink(missing_ok=True)
    made_at = f"{from_ms(now_ms()):%Y-%m-%dT%H:%M:%S.%fZ}"
    try:
        if before is None:
            _copy(log, unfinished, progress)
            content = content_of(unfinished)
        else:
            content = write_increment(log, unfinished, before.manifest)
        manifest = _manifest(content, before, url, name, made_at, unfinished)
        number = int(path.stem) if path.stem.isdecimal() else 1
        return commit(unfinished, path, manifest.model_copy(update={"number": number}))
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
            path.with_name(f"{path.name}{_UNFINISHED}").unlink(missing_ok=True)
        raise


def _manifest(content: Content, before: Backup | None, url: str, name: str, made_at: str, file: Path) -> Manifest:
    return Manifest(
        kind="full" if before is None else "increment",
        number=1,
        log_id=content.log_id,
        log_url=url,
        made_at=made_at,
        release=_release(),
        file=name,
        bytes=file.stat().st_size,
        sha256=sha256_of(file),
        records=content.records,
        partitions=content.partitions,
        previous=None if before is None else sha256_of(before.path),
        damaged=content.damaged,
    )


def _copy(log: Path, to: Path, progress: Progress) -> None:
    """Copy a log's pages as of one point in time.

    A read transaction fixes that point, while others continue to write: without it, SQLite restarts the copy after each
    write of another process.
    """
    create_private(to)
    with closing(connect(log)) as source, closing(sqlite3.connect(to, isolation_level=None)) as target:
        check_version(source, log)
        target.execute("PRAGMA journal_mode=OFF")
        target.execute("PRAGMA synchronous=OFF")  # an unfinished copy is not valid, and the end waits for the disk
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM meta").fetchone()
        source.backup(target, pages=_PAGES_AT_ONCE, progress=lambda _, left, total: progress(total - left, total))
        source.execute("COMMIT")


def _release() -> str:
    try:
        return version("eventlib-sagas")
    except PackageNotFoundError:
        return "unknown"
