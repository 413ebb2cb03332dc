"""The files of an archive: Parquet below `data/topic=…/date=…/`, and a manifest that lists those that count.

A manifest is whole or not there, and the one with the highest number counts. A file is never changed; one that no
manifest names was never finished, or is not needed any more. Each page of a file has a CRC that readers verify; the
manifest has the SHA-256 of each file, and one of itself.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from eventlib.durable import settle, sha256_of
from eventlib.errors import LogCorrupt, LogUnavailable, LogVersionMismatch
from eventlib.log.base import TopicPartition
from eventlib.model.topic import Topic
from eventlib.private_files import create_private, make_private_directory
from eventlib.pydantic_errors import sentence_of

M = TypeVar("M", bound=BaseModel)

FORMAT = 2
SCHEME = "archive:"

HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema([
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("recorded_at", pa.timestamp("ms", "UTC")),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("id", pa.string()),
    ("type", pa.string()),
    ("source", pa.string()),
    ("subject", pa.string()),
    ("sequence", pa.int64()),
    ("correlation_id", pa.string()),
    ("causation_id", pa.string()),
    ("traceparent", pa.string()),
    ("headers", HEADERS),
])  # fmt: skip
"""A record's fields, in their order; a file has its rows in order of partition and offset."""

_KEPT_MANIFESTS = 10


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Span(_Part):
    """What a file has of one partition: offsets from `first` and before `end`, and how many records."""

    partition: int
    first: int
    end: int
    records: int


class DataFile(_Part):
    """One Parquet file; times are of its oldest and newest records. Those of the first format have no `sha256`."""

    path: str
    topic: str
    date: str
    spans: tuple[Span, ...]
    bytes: int
    sha256: str = ""
    oldest_ms: int
    newest_ms: int

    @property
    def records(self) -> int:
        """How many records it has."""
        return sum(span.records for span in self.spans)


class Lost(_Part):
    """Offsets that the log had dropped before they were archived."""

    topic: str
    partition: int
    first: int
    end: int


class Replaced(_Part):
    """A file that was merged into another at a time; readers of an older manifest may still need it for a while."""

    path: str
    at_ms: int


class ArchivedTopic(_Part):
    """A topic as the log had it, and up to where each of its partitions is archived."""

    ends: tuple[int, ...]
    partitioner: str
    retention_ms: int | None
    retention_bytes: int | None
    compacted: bool
    latest: bool
    max_event_bytes: int

    @classmethod
    def of(cls, topic: Topic, ends: tuple[int, ...]) -> "ArchivedTopic":
        """Return a topic with its ends."""
        return cls(
            ends=ends,
            partitioner=topic.partitioner,
            retention_ms=None if topic.retention is None else topic.retention // timedelta(milliseconds=1),
            retention_bytes=topic.retention_bytes,
            compacted=topic.compacted,
            latest=topic.latest,
            max_event_bytes=topic.max_event_bytes,
        )

    def topic(self, name: str) -> Topic:
        """Return it as a log has it."""
        return Topic(
            name,
            partitions=len(self.ends),
            partitioner=self.partitioner,
            retention=None if self.retention_ms is None else timedelta(milliseconds=self.retention_ms),
            retention_bytes=self.retention_bytes,
            compacted=self.compacted,
            latest=self.latest,
            max_event_bytes=self.max_event_bytes,
        )


class Manifest(_Part):
    """What an archive has."""

    format: int = FORMAT
    number: int = 0
    log_id: str = ""
    log_url: str = ""
    committed_ms: int = 0
    topics: Mapping[str, ArchivedTopic] = {}
    files: tuple[DataFile, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    lost: tuple[Lost, ...] = ()

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Up to where each partition is archived."""
        return {(name, i): end for name, topic in self.topics.items() for i, end in enumerate(topic.ends)}


def changed_files(directory: Path, manifest: Manifest) -> Iterator[tuple[DataFile, str]]:
    """Yield an archive's damaged files, with what is wrong with each; all are read."""
    for file in manifest.files:
        try:
            size, found = (directory / file.path).stat().st_size, sha256_of(directory / file.path)
        except OSError as error:
            yield file, f"it cannot be read: {error.strerror or error}"
            continue
        if size != file.bytes:
            yield file, f"it has {size:,} bytes, and had {file.bytes:,} when it was archived"
        elif file.sha256 not in {"", found}:
            yield file, "its SHA-256 is not that of what was archived"


def directory_of(url: str) -> Path:
    """Return the directory in `archive:DIR`."""
    return Path(url.removeprefix(SCHEME))


def newest_number(directory: Path) -> int:
    """Return the number of the newest manifest, 0 when there is none."""
    return max((int(path.stem) for path in (directory / "manifests").glob("*[0-9].json")), default=0)


def read_manifest(directory: Path, number: int | None = None) -> Manifest:
    """Return the newest manifest, or one by number. Raises: LogUnavailable, LogCorrupt, LogVersionMismatch."""
    number = number or newest_number(directory)
    path = _path(directory, number)
    try:
        return parsed_manifest(Manifest, path, f"the archive {directory} was")
    except FileNotFoundError as error:
        raise LogUnavailable(
            f"there is no archive in {directory}: `python -m analytics archive --log URL --to {directory}` makes one"
        ) from error


def parsed_manifest(kind: type[M], path: Path, what: str, remedy: str = "") -> M:
    """Return a parsed manifest; `what` is for the errors. Raises: LogCorrupt, LogVersionMismatch; OSError."""
    return parse_manifest(kind, path.read_bytes(), path, what, remedy)


def parse_manifest(kind: type[M], text: bytes, path: object, what: str, remedy: str = "") -> M:
    """Return a manifest from its text; `path` is where it was. Raises: LogCorrupt, LogVersionMismatch."""
    try:
        content: Any = json.loads(text)
        is_sealed = isinstance(content, dict) and "sha256" in content
        if is_sealed and content.pop("sha256") != _sum_of(content):
            raise LogCorrupt(f"the manifest {path} is damaged: its SHA-256 is not that of its content{remedy}")
        if isinstance(content, dict) and content.get("format", 0) > kind.model_fields["format"].default:
            raise LogVersionMismatch(f"{what} written by a newer release: upgrade eventlib here")
        return kind.model_validate(content)
    except ValidationError as error:
        raise LogCorrupt(f"the manifest {path} is damaged: {sentence_of(error)}{remedy}") from error
    except ValueError as error:
        raise LogCorrupt(f"the manifest {path} is damaged: {error}{remedy}") from error


def commit(directory: Path, manifest: Manifest) -> None:
    """Commit a manifest atomically; the caller holds the archive's lock.

    Guarantee: the files it names are on disk before it is, and it is durable when this returns.
    """
    path = _path(directory, manifest.number)
    make_private_directory(path.parent)
    unfinished = path.with_suffix(".unfinished")
    create_private(unfinished)
    with unfinished.open("wb") as file:
        content = manifest.model_dump(mode="json")
        file.write(json.dumps({**content, "sha256": _sum_of(content)}).encode())
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    settle(path.parent)
    for number in range(max(1, manifest.number - 2 * _KEPT_MANIFESTS), manifest.number - _KEPT_MANIFESTS + 1):
        _path(directory, number).unlink(missing_ok=True)


def _sum_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _path(directory: Path, number: int) -> Path:
    return directory / "manifests" / f"{number:010}.json"
