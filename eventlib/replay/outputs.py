"""The events that a decider emitted under one key, found on its output topics."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from eventlib.errors import ContractError, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.reading import chunks
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.steps import RecordedEvent
from eventlib.runtime.emit import Emission


class EmittedEvents:
    """The events emitted under one key, by id."""

    def __init__(self, found: Iterable[RecordedEvent]) -> None:
        self._by_id = defaultdict[str, list[RecordedEvent]](list)
        for emitted in sorted(found, key=lambda each: each.record.sequence or 0):
            self._by_id[emitted.id].append(emitted)

    def of(self, emission: Emission) -> list[RecordedEvent]:
        """Take the events of one emission, in order; each once, since an input consumed twice emits the same ids.

        Later events of the same cause were emitted when a rerun was taken over.
        """
        found = list[RecordedEvent]()
        while (left := self._by_id.get(emission.id(len(found)))) and left[0].record.timestamp_ms == emission.at_ms:
            found.append(left.pop(0))
        return found

    def at(self, at_ms: int) -> list[RecordedEvent]:
        """Take the events of a time that belong to no emission: those emitted in the takeover of a rerun."""
        found = [each for left in self._by_id.values() for each in left if each.record.timestamp_ms == at_ms]
        for each in found:
            self._by_id[each.id].remove(each)
        return sorted(found, key=lambda each: each.record.sequence or 0)


async def find_emitted(
    log: EventLog,
    decider: Decider[Any],
    key: str,
    *,
    since_ms: int,
    until_ms: int | None = None,
    everywhere: bool = False,
) -> EmittedEvents:
    """Find the events that a decider emitted under a key, from a time on until another one, or to the end of the log.

    An event with the decider's key field nearly always has the decider's key too: only that partition is read, unless
    `everywhere` is set.
    """
    service = log.choreography.service_of(decider)
    source = f"{service.emits_as}/{decider.name}"
    found = list[RecordedEvent]()
    for topic_partition in _output_partitions(service, decider, key, everywhere=everywhere):
        offset = await log.port.offset_at(*topic_partition, since_ms)
        async for records in chunks(log.port, topic_partition, offset):
            own = [record for record in records if record.source == source and record.subject == key]
            found += [recorded(*decoded) for decoded in await log.decode_many(own)]
            if until_ms is not None and records[-1].timestamp_ms > until_ms:
                break
    return EmittedEvents(found)


async def refuse_dropped(log: EventLog, decider: Decider[Any]) -> None:
    """Refuse a history with missing outputs if retention explains them. Raises: ContractError."""
    for topic, partition in _output_partitions(log.choreography.service_of(decider), decider, "", everywhere=True):
        if (start := await log.port.log_start(topic, partition)) > 0:
            raise ContractError(
                f"some events that {decider.name} emitted are no longer on the log: {topic}/{partition} begins at offset "
                f"{start}, and later states depend on the dropped events"
            )


def recorded(record: Record, read: Event | UndecodableRecord | None) -> RecordedEvent:
    """Return a record with its decoded event, or the error."""
    if isinstance(read, Event):
        return RecordedEvent(record, read)
    error = f"{record.type} is not an event of the choreography" if read is None else read.reason
    return RecordedEvent(record, None, error)


def _output_partitions(service: Service, decider: Decider[Any], key: str, *, everywhere: bool) -> list[TopicPartition]:
    found = dict[TopicPartition, None]()
    for event_type in decider.emits:
        topic, event_key = service.output_topic(contract_of(event_type).topic), contract_of(event_type).key
        own = event_key == decider.key and not everywhere
        partitions = [topic.partition_of(key.encode())] if own else range(topic.partitions)
        found.update(dict.fromkeys((topic.name, partition) for partition in partitions))
    return [*found]
