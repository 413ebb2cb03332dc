"""A task's inputs: who handles a record, and the event in it, checked against where it stands."""

from collections.abc import Sequence
from typing import Any

from eventlib.codec.port import UnknownSchema
from eventlib.decider import Decider
from eventlib.event import Event, contract_of, key_of
from eventlib.eventlog import EventLog
from eventlib.log.port import Record, key_text, undecodable
from eventlib.service import Service


class InputReader:
    """Reads one service's inputs."""

    def __init__(self, log: EventLog, service: Service) -> None:
        self._log = log
        self._said_on = service.said_on
        self._by_type: dict[str, list[Decider[Any]]] = {}
        self._by_topic: dict[str, list[Decider[Any]]] = {}
        for decider in service.deciders:
            for event_type in decider.handlers:
                contract = contract_of(event_type)
                self._by_type.setdefault(contract.type, []).append(decider)
                readers = self._by_topic.setdefault(contract.topic.name, [])
                if decider not in readers:
                    readers.append(decider)

        self.foreign = log.foreigners.topics & {topic.name for topic in service.inputs}
        self.schemas_known = False

    def deciders_of(self, record: Record) -> Sequence[Decider[Any]] | None:
        """Return who has to do with a record; nobody, when its type is not handled here."""
        if record.type and record.topic not in self.foreign:
            return self._by_type.get(record.type)
        return self._by_topic.get(record.topic)

    def readers_of(self, topic: str) -> Sequence[Decider[Any]]:
        """Return who may have to do with a record of a topic whose type is not known."""
        return self._by_topic.get(topic, ())

    def read(self, record: Record) -> tuple[Record, Event]:
        """Return a record's event, and the record as its deciders are to see it.

        Raises: UndecodableRecord when it is no event, or stands where it does not belong; UnknownSchema when the codec
        has to be refreshed, unless `schemas_known` says that it just was.
        """
        event = self._log.said_at(record)
        if event is not None:
            return record, event
        event = self._decoded(record)
        if record.topic in self.foreign:
            return self._log.foreigners.settled(record, event), event
        self._refuse_misplaced(record, event)
        return record, event

    def _decoded(self, record: Record) -> Event:
        try:
            event = self._log.decode(record)
        except UnknownSchema as error:
            if self.schemas_known:
                raise undecodable(record, str(error)) from error
            raise
        if event is None:
            raise undecodable(record, f"{record.type} is not an event of this choreography")
        return event

    def _refuse_misplaced(self, record: Record, event: Event) -> None:
        contract = contract_of(type(event))
        if record.topic != contract.topic.name and record.topic != self._said_on(contract.topic).name:
            raise undecodable(record, f"{record.type} belongs on topic {contract.topic.name}, not on {record.topic}")
        key = key_text(record)
        if (key_of(event) or "") != key:
            raise undecodable(record, f"the record's key is {key!r}, the event's {key_of(event)!r}")
        home = contract.topic.partition_of(record.key or b"")
        if home != record.partition and contract.key is not None:
            what = f"key {key!r} belongs in partition {home}: was it written with another partitioner?"
            raise undecodable(record, what)
