"""Group commit: appends that arrive while one is in flight are sent together as the next batch."""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex
from typing import NamedTuple

from eventlib.errors import EventlibError, LogUnavailable, TerminalError
from eventlib.ground.tasks import cancelled
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Fenced
from eventlib.log.kafka.point_reads import Written
from eventlib.log.kafka.producer import Producer
from eventlib.model.record import Record

_RECORDS = 5_000
_BYTES = 4_000_000
_OVERHEAD = 100  # bytes of a record besides its key, value and headers; and of each attribute


class _Entry(NamedTuple):
    """One caller's records, and the future that it awaits."""

    records: Sequence[Record]
    size: int
    future: "asyncio.Future[list[int]]"
    act: Callable[[], Awaitable[None]] | None = None


class AppendBatch:
    """Collects appends, and writes them one group after the other.

    `write` is atomic. A group whose content is refused is retried one entry at a time, so that each caller gets its own
    error.
    """

    def __init__(
        self, write: Callable[[Sequence[Record]], Awaitable[list[int]]], name: str, most_bytes: int = _BYTES
    ) -> None:
        self._write = write
        self._name = name
        self._most_bytes = most_bytes
        self._pending = deque[_Entry]()
        self._writing: asyncio.Task[None] | None = None

    def append(self, records: Sequence[Record]) -> "asyncio.Future[list[int]]":
        """Add records to the next group; the future resolves to their offsets when they are durable."""
        return self._enqueue(records, size_of(records), None)

    def alone(self, act: Callable[[], Awaitable[None]]) -> "asyncio.Future[list[int]]":
        """Run an action exclusively between two groups; the future resolves when it is done."""
        return self._enqueue((), 0, act)

    def _enqueue(
        self, records: Sequence[Record], size: int, act: Callable[[], Awaitable[None]] | None
    ) -> "asyncio.Future[list[int]]":
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._pending.append(_Entry(records, size, future, act))
        if self._writing is None:
            self._writing = asyncio.create_task(self._run(), name=self._name)
        return future

    async def close(self) -> None:
        """Stop; waiting callers do not learn whether their records were written."""
        await cancelled(self._writing)
        closed = LogUnavailable("the log was closed before it answered whether this was written")
        _fail(self._pending, closed)

    async def _run(self) -> None:
        group: list[_Entry] = []
        try:
            while group := self._next():
                if group[0].act is None:
                    await self._together(group)
                else:
                    await group[0].act()
                    group[0].future.set_result([])
        except BaseException as error:
            _fail(group, error if isinstance(error, Exception) else LogUnavailable("the log was closed meanwhile"))
            raise
        finally:
            self._writing = None

    def _next(self) -> list[_Entry]:
        group, count, size = list[_Entry](), 0, 0
        while self._pending:
            entry = self._pending[0]
            if entry.act is not None:
                return group or [self._pending.popleft()]
            if group and (count + len(entry.records) > _RECORDS or size + entry.size > self._most_bytes):
                break
            self._pending.popleft()
            if not entry.future.done():  # its caller may have been cancelled
                group.append(entry)
                count += len(entry.records)
                size += entry.size
        return group

    async def _together(self, group: list[_Entry]) -> None:
        try:
            offsets = await self._write([record for entry in group for record in entry.records])
        except TerminalError as error:
            if len(group) == 1:
                _fail(group, error)
                return
            for entry in group:
                await self._together([entry])
        except Exception as error:  # noqa: BLE001  each caller gets the error, whatever it is
            _fail(group, error)
        else:
            first = 0
            for entry in group:
                if not entry.future.done():
                    entry.future.set_result(offsets[first : first + len(entry.records)])
                first += len(entry.records)


def size_of(records: Sequence[Record]) -> int:
    """Estimate the records' size on the wire in bytes, erring high."""
    size = 0
    for record in records:
        size += 9 * _OVERHEAD + len(record.key or b"") + len(record.value or b"")
        for name, value in record.headers:
            size += _OVERHEAD + len(name) + len(value)
    return size


def _fail(entries: "Sequence[_Entry] | deque[_Entry]", error: Exception) -> None:
    for entry in entries:
        if not entry.future.done():
            entry.future.set_exception(error)


class Appends:
    """Appends of a process without a claim.

    Guarantee: atomic, and durable. After LogUnavailable the records may still be on the log.
    """

    def __init__(self, cluster: Cluster, written: Written, largest: Callable[[str], int]) -> None:
        self._cluster = cluster
        self._written = written
        self._largest = largest
        self._plain: Producer | None = None
        self._transactional: Producer | None = None
        self._starting = asyncio.Lock()
        self._groups = dict[TopicPartition, AppendBatch]()
        self._several = AppendBatch(self._commit, "appends to several partitions")

    async def append(self, records: Sequence[Record]) -> list[int]:
        """Append records; those of one partition that fit into a batch need no transaction."""
        topic_partition = records[0].topic_partition
        largest = self._largest(topic_partition[0])
        if size_of(records) > largest or any(record.topic_partition != topic_partition for record in records):
            return await self._several.append(records)
        group = self._groups.get(topic_partition)
        if group is None:
            group = self._groups[topic_partition] = AppendBatch(
                self._produce, f"appends to {topic_partition[0]}/{topic_partition[1]}", largest
            )
        return await group.append(records)

    async def close(self) -> None:
        """Stop, and fail what is queued."""
        await asyncio.gather(*(group.close() for group in (*self._groups.values(), self._several)))

    async def _produce(self, records: Sequence[Record]) -> list[int]:
        async with self._starting:
            if self._plain is None:
                started = Producer(self._cluster, "write 0", self._largest, None)
                await started.start()
                self._plain = started
        producer = self._plain
        try:
            offsets = await producer.produce(records)
        except EventlibError:
            if (
                self._plain is producer
            ):  # the outcome of its last batch may be unknown: the next append uses a new producer
                self._plain = None
            raise
        self._written.wrote(records, offsets)
        return offsets

    async def _commit(self, records: Sequence[Record]) -> list[int]:
        if self._transactional is None:
            name = f"{self._cluster.options.writers}{os.getpid()}-{token_hex(6)}"
            started = Producer(self._cluster, "write 0", self._largest, name)
            await started.start()
            self._transactional = started
        producer, self._transactional = self._transactional, None
        try:
            offsets = await producer.commit(records)
        except Fenced as error:
            raise LogUnavailable(f"the outcome of this append is unknown: {error}") from error
        self._transactional = producer
        self._written.wrote(records, offsets)
        return offsets
