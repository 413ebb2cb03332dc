"""The files of an archive: Parquet below `data/topic=…/date=…/`, and a manifest that lists those that count.

A manifest is whole or not there, and the one with the highest number counts. A file is never changed; one that no
manifest names was never finished, or is not needed any more. Each page of a file has a CRC that readers verify; the
manifest has the SHA-256 of each file, and one of itself.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from eventlib.errors import LogCorrupt, LogUnavailable, LogVersionMismatch, OwnershipLost
from eventlib.ground.durable import settle
from eventlib.ground.inner_paths import InnerPath
from eventlib.ground.object_store import Place
from eventlib.ground.private_files import create_private, make_private_directory
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.log.archive.place import located
from eventlib.log.base import TopicPartition
from eventlib.model.topic import Topic

M = TypeVar("M", bound=BaseModel)

FORMAT = 2

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

_MANIFESTS = "manifests"
_KEPT_MANIFESTS = 10


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Span(_Part):
    """The part of a partition in one file: offsets from `first` and before `end`, and the number of records."""

    partition: int
    first: int
    end: int
    records: int


class DataFile(_Part):
    """One Parquet file; times are of its oldest and newest records. Those of the first format have no `sha256`."""

    path: InnerPath
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

    path: InnerPath
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
    """The contents of an archive."""

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


def newest_number(place: Place) -> int:
    """Return the number of the newest manifest, 0 when there is none."""
    names = (
        (path.stem for path in (place / _MANIFESTS).glob("*.json"))
        if isinstance(place, Path)
        else (key.removeprefix(f"{_MANIFESTS}/").removesuffix(".json") for key in place.sizes(f"{_MANIFESTS}/"))
    )
    return max((int(name) for name in names if name.isdigit()), default=0)


def read_manifest(place: Place, number: int | None = None) -> Manifest:
    """Return the newest manifest, or one by number. Raises: LogUnavailable, LogCorrupt, LogVersionMismatch."""
    number = number or newest_number(place)
    name = _name(number)
    try:
        content = (place / name).read_bytes() if isinstance(place, Path) else place.get(name)[0]
    except FileNotFoundError as error:
        raise LogUnavailable(
            f"there is no archive in {place}: `python -m analytics archive --log URL --to {place}` makes one"
        ) from error
    return parse_manifest(Manifest, content, located(place, name), f"the archive {place} was")


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


def commit(place: Place, manifest: Manifest) -> None:
    """Commit a manifest atomically; in a directory, the caller holds the archive's lock.

    Guarantee: the files it names are stored before it is, and it is durable when this returns. On a store, of several
    processes that commit the same number one succeeds. Raises: LogUnavailable when another one has.
    """
    content = manifest.model_dump(mode="json")
    text = json.dumps({**content, "sha256": _sum_of(content)}).encode()
    superseded = range(max(1, manifest.number - 2 * _KEPT_MANIFESTS), manifest.number - _KEPT_MANIFESTS + 1)
    if isinstance(place, Path):
        _write(place / _name(manifest.number), text)
        for number in superseded:
            (place / _name(number)).unlink(missing_ok=True)
        return
    try:
        place.replace(_name(manifest.number), text, None)
    except OwnershipLost as error:
        raise LogUnavailable(
            f"another process has archived to {place} meanwhile: what this one wrote is discarded; let one archive at a time"
        ) from error
    place.delete(map(_name, superseded))


def _write(path: Path, text: bytes) -> None:
    """Write a file that is whole or not there, and durable."""
    make_private_directory(path.parent)
    unfinished = path.with_suffix(".unfinished")
    create_private(unfinished)
    with unfinished.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    settle(path.parent)


def _sum_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _name(number: int) -> str:
    return f"{_MANIFESTS}/{number:010}.json"
