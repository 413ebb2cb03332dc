"""A full, read-only copy of a compacted topic in this process."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from eventlib.arguments import A_LOG, AN_EVENT, check, check_class
from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, DamagedRecord, EventlibError, RetryableError, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import Reader, TopicPartition, keep_newest
from eventlib.log.record import Record
from eventlib.log.rules import witnessed_loss
from eventlib.model.event import Event, Position, contract_of
from eventlib.model.topic import Topic
from eventlib.state.table_snapshot import TableFile, Values

E = TypeVar("E", bound=Event)

_CHUNK = 2_000
_PAUSE_S = 0.2
_PATIENCE_S = 0.05
_SCHEMA_BYTES = 5
_KEPT_EVERY_S = 600.0

_log = logging.getLogger(__name__)


class GlobalTable(Mapping[str, E]):
    """The newest event of each key, by key: `async with GlobalTable(log, ProductListed) as products: products["A1"]`.

    It copies `<topic>.latest`, or a topic that is compacted itself, and follows it; a tombstone removes its key, and
    so does a newest event of another type. It holds encoded bytes, some 130 more than they are for each key, and
    decodes on access. Iterating walks over the keys as of then: use `get` where the log may take one away meanwhile.
    With a `path` it is kept in that file as well, some minutes old at most and as of its end, and begins with that.
    Guarantee: once entered it has all that was on the topic before; later events follow within moments, those of a
    key in order. While the log is out of reach it stays as it is, and goes on after.
    Raises: WiringError for an event whose topic keeps no newest event of each key, and on access before it was entered;
    ContractError on access to a record that cannot be read, to a key that is not there while one of its partition is
    damaged, and on any access once the topic cannot be followed any more.
    """

    def __init__(self, log: EventLog, event_type: type[E], path: Path | str | None = None) -> None:
        check(log, EventLog, "log", A_LOG)
        check_class(event_type, Event, "event_type", AN_EVENT)
        self._log = log
        self._event_type = event_type
        self._topic = _compacted(event_type)
        self._kind = None if self._topic.name in log.external.topics else event_type.__name__
        self._file: TableFile | None = None
        if path is not None:
            self._file = TableFile(Path(path), [log.port.log_id, self._topic.name, event_type.__name__])
        self._values = Values()
        self._schemas = set[bytes]()
        self._passed: dict[TopicPartition, int] = {}
        self._damaged: dict[TopicPartition, DamagedRecord] = {}
        self._kept: Mapping[TopicPartition, int] = {}
        self._reader: Reader | None = None
        self._tasks = list[asyncio.Task[None]]()
        self._moved = asyncio.Event()

    async def __aenter__(self) -> Self:
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
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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

    async def reached(self, position: Position) -> None:
        """Wait until the table has seen what stands at a position of its topic, as `publish` returns it.

        Give it a time limit of your own, for instance `async with asyncio.timeout(5)`.
        Raises: ContractError for a position in another topic, and when the topic cannot be followed any more.
        """
        topic_partition = self._topic.name, position.partition
        if position.topic == self._topic.name:
            offset = position.offset + 1
        elif position.topic == contract_of(self._event_type).topic.name:
            offset = await self._log.port.decided_end(
                *topic_partition
            )  # written with the event itself, so it is before that
        else:
            raise ContractError(f"{position.topic} is not the topic of this table, which is {self._topic.name}")
        while (reader := self._followed()) and self._passed[topic_partition] < offset:
            self._moved.clear()
            reader.wake()  # its position may have passed a gap since
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self._moved.wait()

    def __getitem__(self, key: str) -> E:
        self._refuse_stale()
        value = self._values.get(_encoded(key))
        if value is None:
            self._refuse_unknown(key)
            raise KeyError(key)
        record = Record(self._topic.name, 0, -1, 0, key.encode(), value, type=self._event_type.__name__)
        try:
            event = self._log.decode(record)
        except EventlibError as error:
            reason = getattr(error, "reason", None) or str(error)
            raise ContractError(f"{key!r} in {self._topic.name} cannot be read: {reason}") from error
        assert isinstance(event, self._event_type)  # noqa: S101  the record says so
        return event

    def __contains__(self, key: object) -> bool:
        self._refuse_stale()
        if not isinstance(key, str):
            return False
        if _encoded(key) in self._values:
            return True
        self._refuse_unknown(key)
        return False

    def __len__(self) -> int:
        self._refuse_stale()
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        self._refuse_stale()
        return iter([key.decode() for key in self._values])

    async def _begin(self) -> None:
        """Begin with what the file has. Raises: TailLost when it has seen more of the log than there is."""
        topic_partitions = [(self._topic.name, partition) for partition in range(self._topic.partitions)]
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
        _log.error("the table of %s goes on without an event: %s", self._topic.name, error)
        self._damaged[error.topic, error.partition] = error
        if isinstance(error.record, Record) and isinstance(error.record.key, bytes):
            keep_newest([error.record.replace(value=None)], self._values, self._kind)

    def _refuse_unknown(self, key: str) -> None:
        """Raise when it is not known whether there is such a key. Raises: ContractError."""
        error = self._damaged.get((self._topic.name, self._topic.partition_of(_encoded(key))))
        if error is not None:
            raise ContractError(f"whether there is {key!r} in {self._topic.name} is not known: {error}")

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
            _log.warning("the table of %s cannot be kept in its file: %s", self._topic.name, error)

    async def _follow(self, reader: Reader) -> None:
        try:
            while True:
                try:
                    await self._take(await reader.poll(_CHUNK))
                    self._passed = {
                        topic_partition: reader.position(topic_partition) for topic_partition in self._passed
                    }
                except DamagedRecord as error:
                    self._lose(error)
                    reader.seek((error.topic, error.partition), error.resume_at)
                except RetryableError as error:
                    _log.warning("the table of %s cannot follow, tries again: %s", self._topic.name, error)
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
        self._refuse_stale()
        if self._reader is None:
            raise self._not_open()
        return self._reader

    def _not_open(self) -> WiringError:
        return WiringError(f"the table of {self._topic.name} is not open: `async with GlobalTable(...) as table`")

    def _refuse_stale(self) -> None:
        """Raise what ended the following of the topic, if something has: what was not read would seem not to be there."""
        if not self._tasks:
            raise self._not_open()
        following = self._tasks[0]
        if not following.done() or following.cancelled():
            return
        if (error := following.exception()) is not None:
            raise ContractError(f"the table of {self._topic.name} is not followed any more: {error}") from error


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")  # what is no UTF-8 is no key here


def _compacted(event_type: type[Event]) -> Topic:
    topic = contract_of(event_type).topic
    if topic.latest:
        return topic.latest_topic
    if topic.compacted:
        return topic
    raise WiringError(
        f"topic {topic.name!r} of {event_type.__name__} keeps no newest event of each key: declare it as "
        f"Topic({topic.name!r}, latest=True)"
    )
