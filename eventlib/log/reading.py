"""Reads partitions to their end in chunks; damaged records are skipped and reported."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NoReturn

from eventlib.errors import DamagedRecord, LogReadOnly
from eventlib.log.base import Claim, Log, Membership, Reader, TopicPartition
from eventlib.model.record import Record
from eventlib.model.topic import Topic

CHUNK = 2_000


async def chunks(
    log: Log, topic_partition: TopicPartition, first: int, at_once: int = CHUNK
) -> AsyncIterator[list[Record]]:
    """Yield a partition's records from an offset to its end, `at_once` at most together.

    Raises: what `Log.read` does.
    """
    offset = first
    while records := await log.read(*topic_partition, offset, at_once):
        offset = records[-1].offset + 1
        yield records


async def records_between(
    log: Log, topic_partition: TopicPartition, first: int, end: int | None = None
) -> AsyncIterator[Record]:
    """Yield the records of a partition from an offset up to another one, or to its end. Raises: what `Log.read` does."""
    if end is None or first < end:
        async for records in chunks(log, topic_partition, first):
            for record in records:
                if end is not None and record.offset >= end:
                    return
                yield record
            if end is not None and records[-1].offset + 1 >= end:
                return


class ReadOnlyLog(Log):
    """A log that can only be read: each write raises LogReadOnly, with the sentence of `refusal`."""

    def refusal(self) -> str:
        """Return why nothing is written."""
        return f"{self.url} is opened read-only here"

    async def create_topics(self, topics: Iterable[Topic]) -> None:
        """Refuse. Raises: LogReadOnly."""
        self._refuse(topics)

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Refuse. Raises: LogReadOnly."""
        self._refuse(names)

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """Refuse. Raises: LogReadOnly."""
        self._refuse(records, claim)

    async def seize(self, service: str, partition: int) -> Claim:
        """Refuse. Raises: LogReadOnly."""
        self._refuse(service, partition)

    async def join(self, service: str, partitions: int, standbys: int = 0) -> Membership:
        """Refuse. Raises: LogReadOnly."""
        self._refuse(service, partitions, standbys)

    def _refuse(self, *_asked: object) -> NoReturn:
        raise LogReadOnly(self.refusal())


class SkippingReader(ReadOnlyLog):
    """A read-only view of another log that skips damaged records; `damaged` maps their locations to the errors.

    It never waits.
    """

    def __init__(self, log: Log) -> None:
        self.url, self.log_id = log.url, log.log_id
        self.damaged: dict[tuple[str, int, int], DamagedRecord] = {}
        self._log = log

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`; it raises nothing about damage."""
        while True:
            try:
                return await self._log.read(topic, partition, offset, limit)
            except DamagedRecord as error:
                self.damaged[topic, partition, error.offset] = error
                offset = error.resume_at

    async def topics(self) -> Mapping[str, Topic]:
        """See `Log.topics`."""
        return await self._log.topics()

    async def start(self, topic: str, partition: int) -> int:
        """See `Log.start`."""
        return await self._log.start(topic, partition)

    async def log_start(self, topic: str, partition: int) -> int:
        """See `Log.log_start`."""
        return await self._log.log_start(topic, partition)

    async def end(self, topic: str, partition: int) -> int:
        """See `Log.end`."""
        return await self._log.end(topic, partition)

    async def decided_end(self, topic: str, partition: int) -> int:
        """See `Log.decided_end`."""
        return await self._log.decided_end(topic, partition)

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """See `Log.offset_at`."""
        return await self._log.offset_at(topic, partition, timestamp_ms)

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """Refuse: it never waits. Raises: LogReadOnly."""
        self._refuse(positions)

    async def compact(self) -> None:
        """Do nothing: the log is left unchanged."""

    async def close(self) -> None:
        """Do nothing: the caller that opened the log closes it."""
