"""What a view reads and emits: events of the choreography, and values under another key."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import faust
from faust.types import AppT, EventT, Message, StreamT, TopicT
from pydantic_core import from_json, to_json

from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.json_form import json_of
from eventlib.live.connection import Connection
from eventlib.live.counters import ViewCounters
from eventlib.live.transport import Sent
from eventlib.log.kafka.batches import record_of
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.identity import child_traceparent, derived_id, root_traceparent
from eventlib.model.topic import Topic
from eventlib.publication import Publication
from eventlib.values import to_ms

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp

_log = logging.getLogger(__name__)

Decode = Callable[..., Awaitable[EventT[Any]]]


class Origin(NamedTuple):
    """Where on the log something comes from: a partition (`orders/3`), the offset there, and its recorded_at.

    A table that keeps, in each row, the last offset that it has from each partition takes nothing twice.
    """

    partition: str
    offset: int
    at_ms: int


class Recorded(NamedTuple):
    """An event, and what the log knows of it."""

    event: Event
    meta: Meta

    @property
    def origin(self) -> Origin:
        """Where it stands."""
        return Origin(f"{self.meta.topic}/{self.meta.partition}", self.meta.offset, to_ms(self.meta.recorded_at))


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that a view has forwarded under another key, with the place on the log that it comes from."""

    key: str
    value: Mapping[str, Any]
    origin: Origin

    def encoded(self) -> bytes:
        """Return it as it stands in a topic between views."""
        return to_json({"from": self.origin, "value": json_of(self.value)})


class Unwanted:
    """What stands in a stream for a record that is not wanted."""


UNWANTED = Unwanted()


RecordedStream: TypeAlias = StreamT[Recorded]
CarriedStream: TypeAlias = StreamT[Carried]
"""What a view iterates over."""


class _Raw(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Any


class EventSchema(faust.Schema[Any, Any]):
    """Decodes events as everything else does: any writer's schema, brought up to date, with their headers as Meta.

    Events that no view of this app wants come as UNWANTED, undecoded. So does what cannot be read, with a warning: a view
    only watches, and who handles events parks those.
    """

    def __init__(
        self, connection: Connection, wanted: set[str], log: Callable[[], EventLog], counters: ViewCounters
    ) -> None:
        super().__init__(key_serializer="raw", value_serializer="raw", allow_empty=True)
        self._connection = connection
        self._wanted = wanted
        self._log = log
        self._counters = counters

    def compile(self, app: AppT, **_: Any) -> Decode:
        """Return what makes an event of a record."""

        async def decode(message: Message, *, propagate: bool = False) -> EventT[Any]:
            del propagate  # nothing is raised: a record that was skipped would be committed before those ahead of it
            return app.create_event(message.key, await self._decoded(message), message.headers, message)

        return decode

    async def _decoded(self, message: Message) -> "Recorded | Unwanted":
        headers = cast("Sequence[tuple[str, bytes]]", message.headers or ())
        if not any(name == "ce_type" and value.decode() in self._wanted for name, value in headers):
            return UNWANTED
        place = self._connection.logical(message.topic), message.partition
        raw = _Raw(message.offset, round(message.timestamp * 1000), message.key, message.value, headers)
        record = record_of(place, raw)
        try:
            event = await self._log().decode_now(record)
        except UndecodableRecord as error:
            _log.warning("live views pass over a record: %s", error)
            self._counters.failed[place[0]] += 1
            return UNWANTED
        return UNWANTED if event is None else Recorded(event, record.meta())


class CarriedSchema(faust.Schema[Any, Any]):
    """Decodes what views pass on to each other."""

    def __init__(self) -> None:
        super().__init__(key_serializer="raw", value_serializer="raw", allow_empty=True)

    def compile(self, app: AppT, **_: Any) -> Decode:
        """Return what makes an event of a record."""

        async def decode(message: Message, *, propagate: bool = False) -> EventT[Any]:
            del propagate
            key, value = cast("tuple[bytes, bytes]", (message.key, message.value))
            found = from_json(value)
            carried = Carried(key.decode(), found["value"], Origin(*found["from"]))
            return app.create_event(message.key, carried, message.headers, message)

        return decode


CarriedAgent = Callable[[StreamT[Carried]], Awaitable[None]]


class Carry:
    """A topic between views: group by another key, as a stream processor's `group_by` does.

    Values keep their origin on the log, which tells a value that was passed on again after a crash from a new one.
    """

    def __init__(self, topic: Topic, channel: TopicT, sent: Sent, decorate: Callable[[Any], Any]) -> None:
        self.topic = topic
        self._channel = channel
        self._sent = sent
        self._decorate = decorate

    async def send(self, key: str, value: Mapping[str, Any], origin: Origin) -> None:
        """Pass a value on; in the order of calls for each key. At most one of an origin for one row."""
        carried = Carried(key, value, origin)
        name = key.encode()
        sent = await self._channel.send(key=name, value=carried.encoded(), partition=self.topic.partition_of(name))
        self._sent.add(cast("asyncio.Future[Any]", sent))

    def watch(self, function: CarriedAgent) -> Any:
        """Decorate what gets the values."""
        return self._decorate(function)


E = TypeVar("E", bound=Event)


class Publisher(Generic[E]):
    """Puts a view's events of one type on the log, as everything there is: Avro, CloudEvents headers, trace context.

    Guarantee: durable when it returns; an event that is published again, after a crash, has the id that it had.
    """

    def __init__(self, app: "LiveApp", source: str, event_type: type[E]) -> None:
        self._app = app
        self._source = source
        self._kind = contract_of(event_type).type

    async def tell(self, event: E, *, about: str, at: datetime, cause: Meta | None = None) -> None:
        """Put an event on its topic; `about` is what it is about: it has one id however often it is published.

        `at` is its time; with a `cause` it belongs to that event's saga and trace.
        """
        log = self._app.log_here
        event_id = derived_id(about, self._source, self._kind, 0)
        (record, *_) = log.records_of(Publication(event), to_ms(at))
        told = record.replace(id=event_id, source=self._source, correlation_id=event_id)
        if cause is None:
            told = told.replace(traceparent=root_traceparent(event_id))
        else:
            told = told.replace(
                correlation_id=cause.correlation_id,
                causation_id=cause.id,
                traceparent=child_traceparent(cause.traceparent, event_id),
            )
        await log.port.append([told])
