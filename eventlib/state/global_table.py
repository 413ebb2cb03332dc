"""A full, read-only copy of a compacted topic in this process."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar
from warnings import warn

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, DamagedRecord, EventlibError, RetryableError, WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, AN_EVENT, check, check_class
from eventlib.log.base import Reader, TopicPartition, keep_newest
from eventlib.log.losses import warn_of_lost
from eventlib.model.event import Event, Position, contract_of
from eventlib.model.record import Record
from eventlib.model.topic import Topic

E = TypeVar("E", bound=Event)

_CHUNK = 2_000
_PAUSE_S = 0.2
_PATIENCE_S = 0.05
_SCHEMA_BYTES = 5

_log = logging.getLogger(__name__)


class GlobalTable(Mapping[str, E]):
    """The newest event of each key, by key: `async with GlobalTable(log, ProductListed) as products: products["A1"]`.

    It copies `<topic>.latest`, or a topic that is compacted itself, and follows it; a tombstone removes its key, and
    so does a newest event of another type. It holds encoded bytes, some 130 more than they are for each key, and
    decodes on access. Iterating walks over the keys as of then: use `get` where the log may take one away meanwhile.
    Guarantee: once entered it has all that was on the topic before; later events follow within moments, those of a
    key in order. While the log is out of reach it stays as it is, and goes on after.
    Raises: WiringError for an event whose topic keeps no newest event of each key, and on access before it was entered;
    ContractError on access to a record that cannot be read, to a key that is not there while one of its partition is
    damaged, and on any access once the topic cannot be followed any more.
    """

    def __init__(self, log: EventLog, event_type: type[E], path: object = None) -> None:
        if path is not None:
            warn("GlobalTable has no file any more, and ignores path: leave it out", DeprecationWarning, stacklevel=2)
        check(log, EventLog, "log", A_LOG)
        check_class(event_type, Event, "event_type", AN_EVENT)
        self._log = log
        self._event_type = event_type
        self._topic = _compacted(event_type)
        self._kind = None if self._topic.name in log.external.topics else event_type.__name__
        self._values = dict[bytes, bytes]()
        self._schemas = set[bytes]()
        self._passed: dict[TopicPartition, int] = {}
        self._damaged: dict[TopicPartition, DamagedRecord] = {}
        self._reader: Reader | None = None
        self._following: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Read all that is on the topic, and follow it from there."""
        self._values = {}
        places = [(self._topic.name, partition) for partition in range(self._topic.partitions)]
        self._passed = dict(zip(places, await asyncio.gather(*map(self._folded, places)), strict=True))
        if self._kind is not None:
            await self._log.codec.refresh()  # access cannot wait for a schema
        self._reader = self._log.port.reader(self._passed)
        self._following = asyncio.create_task(self._follow(self._reader))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop following; what was read stays readable."""
        reader, self._reader = self._reader, None
        if reader is not None and self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            await reader.close()
            self._moved.set()

    async def reached(self, position: Position) -> None:
        """Wait until the table has seen what stands at a position of its topic, as `publish` returns it.

        Give it a time limit of your own, for instance `async with asyncio.timeout(5)`.
        Raises: ContractError for a position in another topic, and when the topic cannot be followed any more.
        """
        place = self._topic.name, position.partition
        if position.topic == self._topic.name:
            offset = position.offset + 1
        elif position.topic == contract_of(self._event_type).topic.name:
            offset = await self._log.port.decided_end(*place)  # written with the event itself, so it is before that
        else:
            raise ContractError(f"{position.topic} is not the topic of this table, which is {self._topic.name}")
        while (reader := self._followed()) and self._passed[place] < offset:
            self._moved.clear()
            reader.wake()  # its position may have passed a gap since
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self._moved.wait()

    def __getitem__(self, key: str) -> E:
        value = self._value(_encoded(key))
        if value is None:
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
        return isinstance(key, str) and self._value(_encoded(key)) is not None

    def __len__(self) -> int:
        self._refuse_stale()
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        self._refuse_stale()
        return iter([key.decode() for key in self._values])

    def _value(self, key: bytes) -> bytes | None:
        """Return the newest value of a key. Raises: ContractError when damage leaves it unknown whether there is one."""
        self._refuse_stale()
        value = self._values.get(key)
        error = self._damaged.get((self._topic.name, self._topic.partition_of(key))) if value is None else None
        if error is not None:
            shown = key.decode("utf-8", "surrogatepass")
            raise ContractError(f"whether there is {shown!r} in {self._topic.name} is not known: {error}")
        return value

    def _refuse_stale(self) -> None:
        """Raise what ended the following of the topic, if something has: what was not read would seem not to be there."""
        following = self._following
        if following is None:
            raise self._not_open()
        if following.done() and not following.cancelled() and (error := following.exception()) is not None:
            raise ContractError(f"the table of {self._topic.name} is not followed any more: {error}") from error

    def _followed(self) -> Reader:
        self._refuse_stale()
        if self._reader is None:
            raise self._not_open()
        return self._reader

    def _not_open(self) -> WiringError:
        return WiringError(f"the table of {self._topic.name} is not open: `async with GlobalTable(...) as table`")

    async def _folded(self, place: TopicPartition) -> int:
        """Fold a partition into the table, and return its end."""
        offset = 0
        while True:
            try:
                return await self._log.port.newest(place, offset, self._values, self._kind)
            except DamagedRecord as error:
                self._lose(error)
                offset = error.resume_at

    def _lose(self, error: DamagedRecord) -> None:
        """Forget the key whose newest event cannot be read, if it can be made out: what was before it is no longer so."""
        _log.error("the table of %s goes on without an event: %s", self._topic.name, error)
        self._damaged[error.topic, error.partition] = error
        if isinstance(error.record, Record) and isinstance(error.record.key, bytes):
            keep_newest([error.record.replace(value=None)], self._values, self._kind)

    async def _follow(self, reader: Reader) -> None:
        try:
            while True:
                try:
                    records = await reader.poll(_CHUNK)
                    warn_of_lost(reader, f"the table of {self._topic.name}")
                    keep_newest(records, self._values, self._kind)
                    await self._learn(records)
                    self._passed = {place: reader.position(place) for place in self._passed}
                except DamagedRecord as error:
                    self._lose(error)
                    reader.seek((error.topic, error.partition), error.resume_at)
                except RetryableError as error:
                    _log.warning("the table of %s cannot follow, tries again: %s", self._topic.name, error)
                    await asyncio.sleep(_PAUSE_S)
                self._moved.set()
        finally:
            self._moved.set()  # waiters have to know that nothing more comes

    async def _learn(self, records: list[Record]) -> None:
        """See to it that the schemas of records are known here, since access cannot wait for them."""
        values = [each.value for each in records if self._kind is not None and each.type == self._kind]
        for value in values:
            if value is None or value[:_SCHEMA_BYTES] in self._schemas:
                continue
            try:
                self._log.codec.decode(self._event_type, value)
            except UnknownSchema:
                await self._log.codec.refresh()
            except ContractError:
                continue  # each read of the table raises it
            self._schemas.add(value[:_SCHEMA_BYTES])


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
