"""A log's archive as a read-only log, `archive:DIR` or `archive:s3a://BUCKET/DIR`, for every command that reads a log."""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple, Self

from eventlib.errors import LogUnavailable
from eventlib.ground.object_store import Place
from eventlib.log.archive.files import DataFile, Manifest, newest_number, read_manifest
from eventlib.log.archive.place import is_stored, place_of
from eventlib.log.archive.row_groups import Groups
from eventlib.log.base import Reader, TopicPartition
from eventlib.log.reader import LogReader, Waiting
from eventlib.log.reading import ReadOnlyLog
from eventlib.log.rules import known
from eventlib.model.record import Record
from eventlib.model.topic import Topic

_WATCH_S = 0.2
_WATCH_STORE_S = 5.0  # each look at a store is a request, which costs


class _Span(NamedTuple):
    """A partition's offsets in one file; `end_so_far` is the largest end of this and of all spans before it."""

    first: int
    end: int
    end_so_far: int
    file: DataFile


def _in_order(found: list[tuple[int, int, DataFile]]) -> list[_Span]:
    ordered = sorted(found, key=lambda each: each[:2])
    so_far = accumulate((end for _, end, _ in ordered), max)
    return [_Span(first, end, most, file) for (first, end, file), most in zip(ordered, so_far, strict=True)]


class ArchiveLog(ReadOnlyLog):
    """A log's archived records at their original offsets; open it with `ArchiveLog.open`.

    Guarantee: a read uses one manifest; a newer one is loaded when an end or the topics are requested, or while
    waiting.
    """

    def __init__(self, place: Place, url: str, manifest: Manifest) -> None:
        self.url = url
        self.log_id = f"archive-{manifest.log_id}"
        self.waiting = Waiting(self._watch)
        self.place = place
        self._groups = Groups(place)
        self._closed = False
        self._watching: asyncio.TimerHandle | None = None
        self._learn(manifest)

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open the archive at `archive:DIR`. Raises: LogUnavailable, LogCorrupt, LogVersionMismatch."""
        place = place_of(url)
        return cls(place, url, read_manifest(place))

    async def topics(self) -> Mapping[str, Topic]:
        """See `Log.topics`."""
        await self.refresh()
        return self._topics

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`."""
        found = list[Record]()
        for span in self._from(self._known(topic, partition), offset):
            if len(found) >= limit and span.first > found[limit - 1].offset:
                break
            # Dates overlap where clocks do: a later file may have an earlier offset.
            found += self._groups.records(span.file, partition, offset, limit)
            found = sorted(found, key=lambda record: record.offset)[:limit]
        return found

    async def start(self, topic: str, partition: int) -> int:
        """See `Log.start`."""
        topic_partition = self._known(topic, partition)
        spans = self._spans.get(topic_partition)
        return spans[0].first if spans else self._ends[topic_partition]

    async def log_start(self, topic: str, partition: int) -> int:
        """See `Log.log_start`: what the log had dropped before it was archived is in the manifest."""
        topic_partition = self._known(topic, partition)
        return max((lost.end for lost in self._lost if (lost.topic, lost.partition) == topic_partition), default=0)

    async def end(self, topic: str, partition: int) -> int:
        """See `Log.end`."""
        await self.refresh()
        return self._ends[self._known(topic, partition)]

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """See `Log.offset_at`."""
        topic_partition = self._known(topic, partition)
        first = self._ends[topic_partition]
        for span in self._from(topic_partition, 0):
            if span.first < first and span.file.newest_ms >= timestamp_ms:
                found = self._groups.first_at(span.file, partition, timestamp_ms)
                first = first if found is None else min(first, found)
        return first

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """See `Log.reader`."""
        for topic_partition in positions:
            self._known(*topic_partition)
        return LogReader(self, positions)

    async def refresh(self) -> None:
        """Load a newer manifest. Raises: LogUnavailable."""
        self._check_open()
        number = newest_number(self.place)
        if number != self._manifest.number:
            self._learn(read_manifest(self.place))
            self.waiting.look_all()  # those who wait, too, have not seen what this one was asked for

    def known_end(self, partition: TopicPartition) -> int:
        """Return up to where a partition is archived, as of the last refresh."""
        return self._ends[partition]

    async def create_topics(self, topics: Iterable[Topic]) -> None:
        """Refuse topics that are not there as declared. Raises: LogReadOnly."""
        self._check_open()
        if any(self._topics.get(topic.name) != topic for topic in topics):
            self._refuse()

    async def compact(self) -> None:
        """Do nothing: an archive keeps everything."""
        self._check_open()

    async def close(self) -> None:
        """See `Log.close`."""
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        self.waiting.look_all()

    def _learn(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._topics = {name: topic.topic(name) for name, topic in manifest.topics.items()}
        self._ends = manifest.ends
        self._lost = manifest.lost
        spans = dict[TopicPartition, list[tuple[int, int, DataFile]]]()
        for file in manifest.files:
            for span in file.spans:
                spans.setdefault((file.topic, span.partition), []).append((span.first, span.end, file))
        self._spans = {topic_partition: _in_order(found) for topic_partition, found in spans.items()}

    def _from(self, topic_partition: TopicPartition, offset: int) -> list["_Span"]:
        """Return what has a partition's offsets from one on, by their first."""
        spans = self._spans.get(topic_partition, [])
        first = bisect_right(spans, offset, key=lambda span: span.end_so_far)
        return [span for span in spans[first:] if span.end > offset]

    def _known(self, topic: str, partition: int) -> TopicPartition:
        self._check_open()
        known(self._topics, topic, partition)
        return topic, partition

    def refusal(self) -> str:
        """Return why nothing is written. Raises: LogUnavailable."""
        self._check_open()
        return f"{self.url} is an archive, which can only be read: write to {self._manifest.log_url}"

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailable(f"the log {self.url} was closed by this process; open it again to use it")

    def _watch(self) -> None:
        """Poll for a newer manifest while readers in this process wait for one."""
        if self._watching is None and not self._closed:
            self._watching = asyncio.get_running_loop().call_later(
                _WATCH_STORE_S if is_stored(self.url) else _WATCH_S, self._look
            )

    def _look(self) -> None:
        self._watching = None
        if self.waiting.readers:
            if newest_number(self.place) != self._manifest.number:
                self.waiting.look_all()
            self._watch()
