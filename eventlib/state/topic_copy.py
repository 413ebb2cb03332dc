"""A copy of a compacted topic in this process: the newest bytes of each key, which follow the log."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, DamagedRecord, RetryableError, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import Reader, TopicPartition, keep_newest
from eventlib.log.losses import warn_of_lost
from eventlib.log.rules import witnessed_loss
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.state.table_snapshot import TableFile, Values

_CHUNK = 2_000
_PAUSE_S = 0.2
_PATIENCE_S = 0.05
_SCHEMA_BYTES = 5
_KEPT_EVERY_S = 600.0

_log = logging.getLogger(__name__)


class TopicCopy:
    """Copies a compacted topic, follows it, and keeps it in the file at `path`, if there is one.

    Guarantee: as `GlobalTable` gives it.
    """

    def __init__(self, log: EventLog, topic: Topic, event_type: type[Event], path: Path | str | None) -> None:
        self.topic = topic
        self._log = log
        self._event_type = event_type
        self._kind = None if topic.name in log.external.topics else event_type.__name__
        self._file: TableFile | None = None
        if path is not None:
            self._file = TableFile(Path(path), [log.port.log_id, topic.name, event_type.__name__])
        self._values = Values()
        self._schemas = set[bytes]()
        self._passed: dict[TopicPartition, int] = {}
        self._damaged: dict[TopicPartition, DamagedRecord] = {}
        self._kept: Mapping[TopicPartition, int] = {}
        self._reader: Reader | None = None
        self._tasks = list[asyncio.Task[None]]()
        self._moved = asyncio.Event()

    async def open(self) -> None:
        """Read all that is on the topic, and follow it from there."""
        await self._begin()
        passed = [self._folded(*each) for each in self._passed.items()]
        self._passed = dict(zip(self._passed, await asyncio.gather(*passed), strict=True))
        if self._kind is not None:
            await self._log.codec.refresh()  # access cannot wait for a schema
        self._reader = self._log.port.reader(self._passed)
        self._tasks = [asyncio.create_task(self._follow(self._reader))]
        if self._file is not None:
            self._tasks.append(asyncio.create_task(self._keep(self._file)))

    async def close(self) -> None:
        """Stop following; what was read stays readable."""
        if self._reader is None:
            return
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._reader.close()
        self._reader = None
        self._moved.set()
        if self._file is not None:
            await self._write(self._file)

    async def reached(self, partition: int, offset: int) -> None:
        """Wait until all of a partition before an offset is here. Raises: as `refuse_stale` does."""
        topic_partition = self.topic.name, partition
        while (reader := self._followed()) and self._passed[topic_partition] < offset:
            self._moved.clear()
            reader.wake()  # its position may have passed a gap since
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self._moved.wait()

    def refuse_stale(self) -> None:
        """Raise what ended the following of the topic, if something has: what was not read would seem not to be there.

        Raises: WiringError before it was opened; ContractError when the topic cannot be followed any more.
        """
        if not self._tasks:
            raise self._not_open()
        following = self._tasks[0]
        if not following.done() or following.cancelled():
            return
        if (error := following.exception()) is not None:
            raise ContractError(f"the table of {self.topic.name} is not followed any more: {error}") from error

    @property
    def values(self) -> Mapping[bytes, bytes]:
        """The newest value of each key. Raises: as `refuse_stale` does."""
        self.refuse_stale()
        return self._values

    def value(self, key: bytes) -> bytes | None:
        """Return the newest value of a key; None when there is none.

        Raises: as `refuse_stale` does; ContractError when damage leaves it unknown whether there is one.
        """
        value = self.values.get(key)
        if value is None:
            error = self._damaged.get((self.topic.name, self.topic.partition_of(key)))
            if error is not None:
                shown = key.decode("utf-8", "surrogatepass")
                raise ContractError(f"whether there is {shown!r} in {self.topic.name} is not known: {error}")
        return value

    async def _begin(self) -> None:
        """Begin with what the file has. Raises: TailLost when it has seen more of the log than there is."""
        topic_partitions = [(self.topic.name, partition) for partition in range(self.topic.partitions)]
        kept = None if self._file is None else await asyncio.to_thread(self._file.read)
        if self._file is not None and kept is not None:
            ends = await asyncio.gather(*(self._log.port.end(*topic_partition) for topic_partition in topic_partitions))
            for topic_partition, end in zip(topic_partitions, ends, strict=True):
                if kept[1].get(topic_partition, 0) > end:
                    raise witnessed_loss(
                        self._log.port,
                        topic_partition,
                        end,
                        f"the table in {self._file.path}",
                        kept[1][topic_partition],
                    )
            if kept[1].keys() >= {*topic_partitions}:
                self._values, self._kept = kept
                self._passed = {topic_partition: self._kept[topic_partition] for topic_partition in topic_partitions}
                return
        self._values, self._passed = Values(), dict.fromkeys(topic_partitions, 0)

    async def _folded(self, topic_partition: TopicPartition, offset: int) -> int:
        """Fold a partition into the table from an offset on, and return its end."""
        while True:
            try:
                return await self._log.port.newest(topic_partition, offset, self._values, self._kind)
            except DamagedRecord as error:
                self._lose(error)
                offset = error.resume_at

    def _lose(self, error: DamagedRecord) -> None:
        """Forget the key whose newest event cannot be read, if it can be made out: what was before it is no longer so."""
        _log.error("the table of %s goes on without an event: %s", self.topic.name, error)
        self._damaged[error.topic, error.partition] = error
        if isinstance(error.record, Record) and isinstance(error.record.key, bytes):
            keep_newest([error.record.replace(value=None)], self._values, self._kind)

    async def _keep(self, file: TableFile) -> None:
        while True:
            await self._write(file)
            await asyncio.sleep(_KEPT_EVERY_S)

    async def _write(self, file: TableFile) -> None:
        """Keep the table in its file: it is a cache, so what fails here only makes the next start slower."""
        if self._kept == self._passed or self._damaged:  # what is damaged may be mended at the next start
            return
        positions = dict(self._passed)
        try:
            for _ in file.write(self._values, positions):
                await asyncio.sleep(0)
            self._kept = positions
        except OSError as error:
            _log.warning("the table of %s cannot be kept in its file: %s", self.topic.name, error)

    async def _follow(self, reader: Reader) -> None:
        try:
            while True:
                try:
                    records = await reader.poll(_CHUNK)
                    warn_of_lost(reader, f"the table of {self.topic.name}")
                    await self._take(records)
                    self._passed = {
                        topic_partition: reader.position(topic_partition) for topic_partition in self._passed
                    }
                except DamagedRecord as error:
                    self._lose(error)
                    reader.seek((error.topic, error.partition), error.resume_at)
                except RetryableError as error:
                    _log.warning("the table of %s cannot follow, tries again: %s", self.topic.name, error)
                    await asyncio.sleep(_PAUSE_S)
                self._moved.set()
        finally:
            self._moved.set()  # waiters have to know that nothing more comes

    async def _take(self, records: list[Record]) -> None:
        keep_newest(records, self._values, self._kind)
        for record in records:
            if self._kind is not None and record.type == self._kind and record.value is not None:
                await self._learn(record.value)

    async def _learn(self, value: bytes) -> None:
        """See to it that a schema is known here, since access cannot wait for it."""
        if value[:_SCHEMA_BYTES] in self._schemas:
            return
        try:
            self._log.codec.decode(self._event_type, value)
        except UnknownSchema:
            await self._log.codec.refresh()
        except ContractError:
            return  # each read of the table raises it
        self._schemas.add(value[:_SCHEMA_BYTES])

    def _followed(self) -> Reader:
        self.refuse_stale()
        if self._reader is None:
            raise self._not_open()
        return self._reader

    def _not_open(self) -> WiringError:
        return WiringError(f"the table of {self.topic.name} is not open: `async with GlobalTable(...) as table`")
