"""The log as applications see it: typed events in, typed events out."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from secrets import token_hex
from time import time_ns
from typing import Protocol

from eventlib.codec.base import Codec, UnknownSchema
from eventlib.errors import ContractError, DamagedRecord, EventlibError, LogUnavailable, UndecodableRecord
from eventlib.external import ExternalRouter
from eventlib.log.base import Log, undecodable
from eventlib.model.choreography import Choreography
from eventlib.model.event import Contract, Event, Position, contract_of, key_of, unwritable_key
from eventlib.model.identity import SAMPLED_SHARE, child_traceparent, request_id, root_traceparent, sampling_bound
from eventlib.model.record import Record
from eventlib.model.service import Service, topics_of
from eventlib.publication import Publication, headers_of
from eventlib.values import from_ms

CALLER: ContextVar[str | None] = ContextVar("caller", default=None)
"""The trace context on whose behalf something is published just now: that of an HTTP request, for instance."""


SAGA: ContextVar[str | None] = ContextVar("saga", default=None)
"""The correlation id of the saga that something is done for just now: by an effect, for instance."""


class Published(Protocol):
    """Hooks for what this process publishes from outside the services."""

    def published(self, records: Sequence[Record], caller: str | None, began_ns: int) -> None:
        """Take note of records that are on the log now; `caller` is the trace context that they were published in."""


class Rebuild(Protocol):
    """Rebuilds a damaged record of a task's changelog."""

    async def __call__(
        self, log: "EventLog", service: Service, partition: int, damaged: DamagedRecord, /
    ) -> Sequence[Record]:
        """Return the records that stand for it. Raises: DamagedRecord when that cannot be proved."""


class EventLog:
    """A log that publishes and decodes the events of a choreography: `async with open_log(url, shop) as log`.

    Guarantee: `publish` and `publish_many` return when the events are durable.
    """

    def __init__(
        self,
        port: Log,
        codec: Codec,
        choreography: Choreography,
        source: str = "outside",
        *,
        traced_share: float = SAMPLED_SHARE,
    ) -> None:
        self.observer: Published | None = None
        self.rebuild: Rebuild | None = None
        self._traced_below = sampling_bound(traced_share)
        self.port = port
        self.codec = codec
        self.choreography = choreography
        self._source = source
        self._types = {contract_of(event).type: event for event in choreography.events}
        self._topics = {topic.name: topic for topic in choreography.topics}
        self.external = ExternalRouter(choreography.events, self._traced_below)
        self._turn = 0
        self._recent: OrderedDict[tuple[str, int, int], tuple[Event, int]] = OrderedDict()
        self._recent_bytes = 0

    def over(self, port: Log, codec: Codec) -> "EventLog":
        """Return the same choreography's events on another log, with nothing that this one remembers."""
        made = EventLog(port, codec, self.choreography, self._source)
        made.external, made.rebuild = self.external, self.rebuild
        return made

    async def prepare(self, services: Sequence[Service] | None = None) -> None:
        """Create topics and register events' schemas, where they are not there yet: all, or what some services need.

        Guarantee: with `services`, it asks for nothing that these have no right to; a contract that is refused leaves
        the log as it was.
        """
        every = self.choreography
        events = every.events if services is None else [e for each in services for e in (*each.handles, *each.emits)]
        await self.codec.prepare(_with_topics(events))
        await self.port.create_topics(every.topics if services is None else topics_of(services))

    async def recover_schemas(self, own: Iterable[tuple[str, type]]) -> None:
        """Learn those of the damaged schemas that events, and the `own` types of services, have still.

        Guarantee: it only reads; a schema is taken for a damaged one if it has that record's checksum.
        """
        codec = self.codec
        types = [*_with_topics(self.choreography.events), *own]
        await codec.registry.ids([(codec.subject(topic, cls), codec.schema_of(cls)) for topic, cls in types])

    async def publish(
        self,
        event: Event,
        *,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
        idempotency_key: str | None = None,
    ) -> Position:
        """Publish one event from outside the services, and return its position.

        Guarantee: durable when it returns; on a topic with `latest=True`, on both topics or on neither.
        Raises: ContractError, and nothing is written, for an event that does not fit its contract, is too large, is
        not one of the choreography's, or is external; for a partition that there is not, or a header that is taken;
        LogFull, LogUnavailable and the like as `Log.append` does.
        """
        publication = Publication(event, idempotency_key, partition, headers or {})
        return (await self.publish_many([publication]))[0]

    async def publish_many(self, events: Iterable[Publication | Event]) -> list[Position]:
        """Publish events in order, all or none of them, and return their positions.

        A Publication is an event with what goes with it. Keyless events go to the partitions in turn.
        Guarantee and Raises: as for `publish`.
        """
        if isinstance(events, Publication | Event) or not isinstance(events, Iterable):
            events = [events]
        publications = [each if isinstance(each, Publication) else Publication(each) for each in events]
        if not publications:
            return []
        began_ns = time_ns()
        now = began_ns // 1_000_000
        self.codec.prepare_subjects(each.event for each in publications)
        records = list[Record]()
        places = list[int]()
        for publication in publications:
            places.append(len(records))
            records += self.records_of(publication, now)
        offsets = await self.port.append(records)
        for i, publication in zip(places, publications, strict=True):
            self._remember(records[i], offsets[i], publication.event)
        if self.observer is not None:
            self.observer.published([records[i].placed(offsets[i]) for i in places], CALLER.get(), began_ns)
        return [Position(records[i].topic, records[i].partition, offsets[i], from_ms(now)) for i in places]

    def remember(self, records: Sequence[Record], offsets: Sequence[int], events: Sequence[Event | None]) -> None:
        """Keep events that this process has just put on the log, for those in it who read them next."""
        for record, offset, event in zip(records, offsets, events, strict=False):
            if event is not None:
                self._remember(record, offset, event)

    def _remember(self, record: Record, offset: int, event: Event) -> None:
        recent, size = self._recent, len(record.value or b"")
        recent[record.topic, record.partition, offset] = (event, size)
        self._recent_bytes += size
        while len(recent) > _REMEMBERED or self._recent_bytes > _REMEMBERED_BYTES:
            _, (_, size) = recent.popitem(last=False)
            self._recent_bytes -= size

    def drop_recent(self) -> None:
        """Drop the decoded events that are kept for readers in this process: one of their subjects was erased."""
        self._recent.clear()
        self._recent_bytes = 0

    def recent_event(self, record: Record) -> Event | None:
        """Return the event in a record if this process has put it there lately: the same that decoding would give."""
        found = self._recent.get((record.topic, record.partition, record.offset))
        return None if found is None else found[0]

    def decode(self, record: Record) -> Event | None:
        """Return the event in a record; None when its type is not one of the choreography's, or a null value means nothing.

        Raises: UnknownSchema when the codec has to be refreshed; UndecodableRecord when it cannot be read.
        """
        if record.topic in self.external.topics:
            return None if self.external.why_passed_over(record) is not None else self.external.decode(record)
        if record.type is None:
            raise undecodable(record, "the record has no ce_type header, so it is not an event of this choreography")
        event_type = self._types.get(record.type)
        if event_type is None:
            return None
        if record.value is None:
            raise undecodable(record, f"{record.type} has no value")
        try:
            return self.codec.decode(event_type, record.value)
        except (UnknownSchema, LogUnavailable):
            raise
        except EventlibError as error:
            raise undecodable(record, str(error)) from error

    async def decode_many(self, records: Iterable[Record]) -> list[tuple[Record, Event | UndecodableRecord | None]]:
        """Return each record with its event, for readers that want to see what cannot be read as well."""
        found = list[tuple[Record, Event | UndecodableRecord | None]]()
        for record in records:
            try:
                found.append((record, await self.decode_now(record)))
            except UndecodableRecord as error:
                found.append((record, error))
        return found

    async def decode_now(self, record: Record) -> Event | None:
        """Decode a record, after learning its schema if it is new. Raises: UndecodableRecord."""
        try:
            return self.decode(record)
        except UnknownSchema:
            await self.codec.refresh()
        try:
            return self.decode(record)
        except UnknownSchema as error:
            raise self.codec.unreadable_record(record, error) from error

    def records_of(self, publication: Publication, now: int) -> list[Record]:
        """Return the records of one publication: the event, and its copy in a topic that is held twice."""
        event = publication.event
        contract = self._contract_of(event)
        topic = contract.topic
        text = key_of(event)
        try:
            key = None if text is None else text.encode()
        except UnicodeEncodeError as error:
            raise unwritable_key(event, text or "") from error
        if publication.partition is not None:
            partition = publication.partition
        elif key is None:
            self._turn += 1
            partition = self._turn % topic.partitions
        else:
            partition = topic.partition_of(key)
        event_id = (
            token_hex(16)
            if publication.idempotency_key is None
            else request_id(topic.name, publication.idempotency_key)
        )
        caller = CALLER.get()
        record = Record(
            topic=topic.name,
            partition=partition,
            offset=-1,
            timestamp_ms=now,
            key=key,
            value=self.codec.encode(event),
            id=event_id,
            type=contract.type,
            source=self._source,
            subject=text,
            correlation_id=event_id,
            traceparent=root_traceparent(event_id, self._traced_below)
            if caller is None
            else child_traceparent(caller, event_id),
            headers=headers_of(publication),
        )
        return [record] if not topic.latest else [record, latest_copy(record, tombstone=contract.tombstone)]

    def _contract_of(self, event: Event) -> Contract:
        event_type = type(event)
        contract = contract_of(event_type)
        if contract.external is not None:
            raise ContractError(
                f"{contract.type} is external: others write topic {contract.topic.name}, in a form of their own"
            )
        if self._types.get(contract.type) is not event_type:
            raise ContractError(
                f"{contract.type} is not an event of {self.choreography.name}: let a decider handle or emit it, or name "
                "it in the choreography's facts"
            )
        return contract


_REMEMBERED = 20_000
_REMEMBERED_BYTES = 2_000_000
"""How many of its own latest events a process keeps as they were emitted, and how many bytes they may have as encoded:
a few large orders would otherwise take what thousands of small events do."""


def _with_topics(events: Iterable[type[Event]]) -> list[tuple[str, type[Event]]]:
    """Return each event that has a schema, with its topic."""
    contracts = {event: contract_of(event) for event in events}
    return [(contract.topic.name, event) for event, contract in contracts.items() if contract.external is None]


def latest_copy(record: Record, *, tombstone: bool) -> Record:
    """Return the copy of a record in the compacted `<topic>.latest`."""
    return record.replace(topic=f"{record.topic}.latest", value=None if tombstone else record.value)
