"""The manifest of a backup: a backup is valid when its manifest exists and its file matches it."""

import errno
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from eventlib.errors import EventlibError, LogCorrupt, LogFull, LogReadOnly, LogVersionMismatch, WiringError
from eventlib.ground.durable import settle, sha256_of
from eventlib.ground.inner_paths import FileBeside
from eventlib.ground.private_files import create_private
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.log.base import TopicPartition

FORMAT = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PartitionEnd(_Part):
    """Where a partition ended, from where on it was dense, and the sum of its records' checksums."""

    topic: str
    partition: int
    end: int
    dense_from: int
    digest: int


class Manifest(_Part):
    """One backup: a whole log, or the changes since the backup before it.

    `previous` is the SHA-256 of that backup's manifest. `records` are those in the file; `damaged` lists the damage that
    the log had when the backup was made.
    """

    format: int = FORMAT
    kind: Literal["full", "increment"]
    number: int
    log_id: str
    log_url: str
    made_at: str
    release: str
    file: FileBeside
    bytes: int
    sha256: str
    records: int
    partitions: tuple[PartitionEnd, ...]
    previous: str | None = None
    damaged: tuple[str, ...] = ()

    @property
    def ends(self) -> dict[TopicPartition, PartitionEnd]:
        """Where its partitions ended."""
        return {(each.topic, each.partition): each for each in self.partitions}


class Backup(_Part):
    """A manifest, and its path."""

    path: Path
    manifest: Manifest

    @property
    def file(self) -> Path:
        """The path of its data."""
        return self.path.with_name(self.manifest.file)

    def refuse_changed(self) -> None:
        """Refuse a file that does not match the manifest. Raises: LogCorrupt."""
        try:
            size = self.file.stat().st_size
            hashed = sha256_of(self.file) if size == self.manifest.bytes else ""
        except OSError as error:
            raise LogCorrupt(f"the backup {self.file} cannot be read: {error}; use another one") from error
        if hashed != self.manifest.sha256:
            raise LogCorrupt(f"the backup {self.file} is not the file that {self.path.name} names: use another one")


def manifest_of(file: Path) -> Path:
    """Return the manifest's path for a backup in one file."""
    return file.with_name(f"{file.name}.json")


def newest(directory: Path) -> Backup | None:
    """Return the newest backup in a directory, None when there is none. Raises: LogCorrupt, LogVersionMismatch."""
    path = max(
        (path for path in directory.glob("*.json") if path.stem.isdecimal()), default=None, key=lambda p: int(p.stem)
    )
    return None if path is None else read(path)


def chain(directory: Path) -> Sequence[Backup]:
    """Return the full backup and the increments of the newest backup in a directory, or of the one in a file, in order.

    Raises: LogCorrupt, LogVersionMismatch; WiringError when there is none.
    """
    if not directory.is_dir():
        path = directory if directory.suffix == ".json" else manifest_of(directory)
        if not path.is_file():
            raise WiringError(f"there is no backup at {directory}: {path.name} is missing")
        return [read(path)]
    found = newest(directory)
    if found is None:
        raise WiringError(f"there is no backup in {directory}: `eventlib backup --to {directory}` makes one")
    backups = [found]
    while found.manifest.kind == "increment":
        path = numbered(directory, found.manifest.number - 1)
        if not path.is_file() or sha256_of(path) != found.manifest.previous:
            raise LogCorrupt(
                f"the backup {found.path} builds on {path.name}, which is missing or a different one: use another"
            )
        found = read(path)
        backups.insert(0, found)
    return backups


def read(path: Path) -> Backup:
    """Return a backup from its manifest. Raises: LogCorrupt, LogVersionMismatch."""
    try:
        content: Any = json.loads(path.read_bytes())
        if isinstance(content, dict) and content.get("format", 0) > FORMAT:
            raise LogVersionMismatch(f"the backup {path} was made by a newer release: upgrade eventlib here")
        return Backup(path=path, manifest=Manifest.model_validate(content))
    except ValidationError as error:
        raise LogCorrupt(f"the manifest {path} is damaged: {sentence_of(error)}; use another backup") from error
    except (OSError, ValueError) as error:
        raise LogCorrupt(f"the manifest {path} is damaged: {error}; use another backup") from error


def commit(unfinished: Path, path: Path, manifest: Manifest) -> Backup:
    """Make a backup valid. Guarantee: its file is on disk and named before its manifest is. Raises: OSError."""
    backup = Backup(path=path, manifest=manifest)
    settle(unfinished)
    unfinished.rename(backup.file)
    settle(path.parent)
    beside = path.with_name(f"{path.name}.unfinished")
    create_private(beside)
    beside.write_bytes(manifest.model_dump_json(indent=1).encode())
    settle(beside)
    beside.rename(path)
    settle(path.parent)
    return backup


def numbered(directory: Path, number: int) -> Path:
    """Return the manifest's path for a backup's number in a directory."""
    return directory / f"{number:06}.json"


def cannot_write(error: OSError, path: Path) -> EventlibError:
    """Return the library's error for a file that cannot be written."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return LogFull(
            f"no space is left for {path} ({error.strerror}): nothing was changed; make room there, and try again"
        )
    return LogReadOnly(f"{path} cannot be written ({error}): give this user write access, or name another place")
