"""A task's inputs: which decider handles each, and how damaged ones are parked."""

from collections.abc import Sequence
from typing import Any

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, DamagedRecord, EventlibError
from eventlib.eventlog import EventLog
from eventlib.log.base import Log, undecodable
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.runtime.parking.parked import original_of


class InputReader:
    """Reads one service's inputs."""

    def __init__(self, log: EventLog, service: Service) -> None:
        self._log = log
        self._output_topic = service.output_topic
        self.by_type: dict[str, list[Decider[Any]]] = {}
        self._by_topic: dict[str, list[Decider[Any]]] = {}
        for decider in service.deciders:
            for event_type in decider.handlers:
                contract = contract_of(event_type)
                self.by_type.setdefault(contract.type, []).append(decider)
                readers = self._by_topic.setdefault(contract.topic.name, [])
                if decider not in readers:
                    readers.append(decider)

        self.external = log.external.topics & {topic.name for topic in service.inputs}
        self.schemas_known = False

    def deciders_of(self, record: Record) -> Sequence[Decider[Any]] | None:
        """Return the deciders of a record; none when its type is not handled here."""
        if record.type and record.topic not in self.external:
            return self.by_type.get(record.type)
        return self._by_topic.get(record.topic)

    def readers_of(self, topic: str) -> Sequence[Decider[Any]]:
        """Return who may have to do with a record of a topic whose type is not known."""
        return self._by_topic.get(topic, ())

    def why_passed_over(self, record: Record) -> str | None:
        """Return why an input without a value is neither an event nor a fault; None when it is one of the two."""
        return self._log.external.why_passed_over(record) if record.topic in self.external else None

    def read(self, record: Record) -> tuple[Record, Event]:
        """Return a record's event, and the record as its deciders are to see it.

        Raises: UndecodableRecord when it is not an event, or is on a topic of another event; UnknownSchema when the codec
        has to be refreshed, unless `schemas_known` says that it just was.
        """
        event = self._log.recent_event(record)
        if event is not None:
            return record, event
        event = self._decoded(record)
        if record.topic in self.external:
            return self._log.external.settled(record, event), event
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
        if record.topic != contract.topic.name and record.topic != self._output_topic(contract.topic).name:
            raise undecodable(record, f"{record.type} belongs on topic {contract.topic.name}, not on {record.topic}")
        key = key_text(record)
        if (key_of(event) or "") != key:
            raise undecodable(record, f"the record's key is {key!r}, the event's {key_of(event)!r}")
        try:
            home = contract.topic.partition_of(record.key or b"")
        except ContractError as error:
            raise undecodable(record, str(error)) from error
        if home != record.partition and contract.key is not None:
            what = f"key {key!r} belongs in partition {home}: was it written with another partitioner?"
            raise undecodable(record, what)


DAMAGE = "damage"
"""The fact about a parked record that keeps it from being handled as it is: why its bytes are not those written."""

_KEY, _HEADERS = 4, 14
_MOST = 1 << 62


def damaged_input(damaged: DamagedRecord, log: EventLog, at_ms: int) -> Record:
    """Return the record that is parked for a damaged one: with its columns as they are, as far as a record can have them.

    Its key is the damaged record's own where a second column confirms it; else its location on the log, which no event has
    as a key: then it waits alone, and blocks nothing.
    """
    place = damaged.topic, damaged.partition, damaged.offset
    found = Record(*place, at_ms, None, None)
    if isinstance(damaged.record, Record):
        stands = damaged.record.astuple()[_KEY:_HEADERS]
        columns: list[Any] = [value if _is_legible(value) else None for value in stands]
        found = Record(*(*place, at_ms, *columns, ()))
    key = found.key
    if key is None or not _is_confirmed(found, log):
        key = "{}/{}/{}".format(*place).encode()
    return found.replace(key=key, headers=((f"parked_{DAMAGE}", str(damaged).encode("utf-8", "backslashreplace")),))


async def repaired_among(waiting: Sequence[Record], log: Log) -> dict[int, Record]:
    """Return the inputs that are parked because they were damaged, and stand on the log as written again.

    By the offsets of what is parked of them. Raises: LogUnavailable.
    """
    found = dict[int, Record]()
    for parked in waiting:
        written = await as_written(parked, log)
        if written is not None:
            found[parked.offset] = written
    return found


async def as_written(parked: Record, log: Log) -> Record | None:
    """Return the input that was parked because it was damaged, once the log has it as written again; else None."""
    facts, record = original_of(parked)
    if DAMAGE not in facts:
        return None
    try:
        found = await log.read(record.topic, record.partition, record.offset, 1)
    except DamagedRecord:
        return None
    return found[0] if found and found[0].offset == record.offset else None


def _is_legible(value: object) -> bool:
    if isinstance(value, int):
        return 0 <= value < _MOST
    return not isinstance(value, str) or value.isprintable()


def _is_confirmed(found: Record, log: EventLog) -> bool:
    """Tell whether a record's key is also the one that its event, or its subject, has, and belongs in its partition."""
    key, topic = found.key or b"", next((t for t in log.choreography.topics if t.name == found.topic), None)
    try:
        if topic is None or topic.partition_of(key) != found.partition:
            return False
        if (found.subject or "").encode() == key:
            return True
        event = log.decode(found)
    except EventlibError:
        return False
    return event is not None and (key_of(event) or "").encode() == key
