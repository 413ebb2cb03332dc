"""What a view gets: events of the choreography as everywhere, and what views pass on under another key."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import faust
from faust.types import AppT, EventT, Message, StreamT
from pydantic_core import from_json, to_json

from eventlib.errors import UndecodableRecord
from eventlib.event import Event, Meta
from eventlib.eventlog import EventLog
from eventlib.live.connection import Connection
from eventlib.live.figures import Figures
from eventlib.log.kafka.batches import record_of
from eventlib.times import to_ms

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
    """What a view has passed on under another key."""

    key: str
    value: Mapping[str, Any]
    origin: Origin

    def encoded(self) -> bytes:
        """Return it as it stands in a topic between views."""
        return to_json({"from": self.origin, "value": self.value})


class Unwanted:
    """What stands in a stream for a record that nobody wants."""


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

    def __init__(self, connection: Connection, wanted: set[str], log: Callable[[], EventLog], figures: Figures) -> None:
        super().__init__(key_serializer="raw", value_serializer="raw", allow_empty=True)
        self._connection = connection
        self._wanted = wanted
        self._log = log
        self._figures = figures

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
            self._figures.failed[place[0]] += 1
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
