"""Decodes what a replay reads, if it has to: not what the decider that emitted it makes again, with the same bytes."""

from collections.abc import Iterable, Sequence
from typing import Any

from eventlib.codec.base import UnknownSchema
from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record
from eventlib.replay.partition_buffer import UNREAD, Buffered, Item

_MAX_SCHEMAS = 10_000
"""How many schemas' headers are remembered: damaged values may begin with anything."""


class EventLoader:
    """Loads records, and decodes their events when they are wanted; by then their schemas are known."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.codec = log.codec
        self._external = log.external.topics
        self._schemas: set[bytes] = set()

    def event(self, buffered: Buffered) -> Any:
        """Return a record's event, or why it has none; decoded if nothing has made it."""
        if buffered.event is UNREAD:
            buffered.event = self._decoded(buffered.record)
        return buffered.event

    def read(self, emitted: Sequence[Buffered], now: Sequence[Event]) -> list[Item]:
        """Return outputs with their events: those of `now` if the bytes are equal, others decoded."""
        for buffered, event in zip(emitted, now, strict=False):
            if buffered.event is UNREAD and not buffered.is_sample and self._has_bytes_of(buffered.record, event):
                buffered.event = event
        return [(buffered.record, self.event(buffered)) for buffered in emitted]

    def _has_bytes_of(self, record: Record, event: Event) -> bool:
        is_of_type = record.type == contract_of(type(event)).type
        return is_of_type and record.value is not None and self.codec.gives(event, record.value)

    async def load(self, records: Iterable[Record]) -> list[Buffered]:
        """Return records as their deciders see them, ready for `event`."""
        found = list[Buffered]()
        for record in records:
            item = Buffered(record)
            if not self._is_ready(item):
                await self._learn(record)
            found.append(item)
        return found

    def _is_ready(self, item: Buffered) -> bool:
        """Tell whether its schema was learned; for each schema, False once. Of an external topic, the event is settled here."""
        if item.record.topic in self._external:
            if item.event is UNREAD:
                self._settle(item)
            return True
        value = item.record.value
        schema = b"" if value is None else value[:HEADER_BYTES]
        if schema in self._schemas:
            return True
        if len(self._schemas) > _MAX_SCHEMAS:
            self._schemas.clear()
        self._schemas.add(schema)
        return False

    async def _learn(self, record: Record) -> None:
        """Learn a record's schema now, if that is necessary: `event` cannot wait for it."""
        if not self._is_known(record):
            await self.codec.refresh()

    def _is_known(self, record: Record) -> bool:
        try:
            self.log.decode(record)
        except UnknownSchema:
            return False
        except UndecodableRecord:
            return True  # `event` meets it again
        return True

    def _settle(self, item: Buffered) -> None:
        external, record = self.log.external, item.record
        try:
            item.event = external.decode(record)
            item.record = external.settled(record, item.event)
        except UndecodableRecord as error:
            item.event = error

    def _decoded(self, record: Record) -> Event | UndecodableRecord:
        try:
            event = self.log.decode(record)
        except UndecodableRecord as error:
            return error
        except UnknownSchema as error:
            return self.codec.unreadable_record(record, error)
        return _unreadable(record, f"{record.type} is not an event of this choreography") if event is None else event


def _unreadable(record: Record, reason: str) -> UndecodableRecord:
    return UndecodableRecord(reason, record.topic, record.partition, record.offset)
