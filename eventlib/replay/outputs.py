"""What a decider has said under one key, found on the topics that it speaks on."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from eventlib.errors import ContractError, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import Record, TopicPartition
from eventlib.log.reading import chunks
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.model.service import Service
from eventlib.replay.steps import RecordedEvent
from eventlib.runtime.emit import Emission


class EmittedEvents:
    """The events that were said under one key, by id."""

    def __init__(self, found: Iterable[RecordedEvent]) -> None:
        self._by_id = defaultdict[str, list[RecordedEvent]](list)
        for said in sorted(found, key=lambda each: each.record.sequence or 0):
            self._by_id[said.id].append(said)

    def in_turn(self, turn: Emission) -> list[RecordedEvent]:
        """Take what was said in one turn, in order; each is taken once, since a fact that came twice said the same.

        What was said later, with the same cause, was said when a rerun was taken over.
        """
        found = list[RecordedEvent]()
        while (left := self._by_id.get(turn.id(len(found)))) and left[0].record.timestamp_ms == turn.at_ms:
            found.append(left.pop(0))
        return found

    def at(self, at_ms: int) -> list[RecordedEvent]:
        """Take what was said at a time and not in any turn: when what a rerun had said was said by its service."""
        found = [said for left in self._by_id.values() for said in left if said.record.timestamp_ms == at_ms]
        for said in found:
            self._by_id[said.id].remove(said)
        return sorted(found, key=lambda each: each.record.sequence or 0)


class Search(NamedTuple):
    """Where to look for what was said: from a time on, until another, or to the end of the log.

    An event whose key field is the decider's own has, but for rare designs, the decider's key too: then only that
    partition is read, unless it has to be `everywhere`.
    """

    since_ms: int
    until_ms: int | None = None
    everywhere: bool = False


async def find_emitted(log: EventLog, decider: Decider[Any], key: str, search: Search) -> EmittedEvents:
    """Find what a decider has said under a key."""
    service = log.choreography.service_of(decider)
    source = f"{service.speaks_as}/{decider.name}"
    found = list[RecordedEvent]()
    for place in _places(service, decider, key, everywhere=search.everywhere):
        offset = await log.port.offset_at(*place, search.since_ms)
        async for records in chunks(log.port, place, offset):
            own = [record for record in records if record.source == source and (record.subject or "") == key]
            found += [recorded(*decoded) for decoded in await log.decode_many(own)]
            if search.until_ms is not None and records[-1].timestamp_ms > search.until_ms:
                break
    return EmittedEvents(found)


async def refuse_dropped(log: EventLog, decider: Decider[Any]) -> None:
    """Refuse a past of which something that was said is missing, where retention explains it. Raises: ContractError."""
    for topic, partition in _places(log.choreography.service_of(decider), decider, "", everywhere=True):
        if (start := await log.port.log_start(topic, partition)) > 0:
            raise ContractError(
                f"not all that {decider.name} has said is on the log any more: {topic}/{partition} begins at offset "
                f"{start}, and what followed cannot be known without the rest"
            )


def recorded(record: Record, read: Event | UndecodableRecord | None) -> RecordedEvent:
    """Return a record with what decoding it came to."""
    if isinstance(read, Event):
        return RecordedEvent(record, read)
    error = f"{record.type} is not an event of the choreography" if read is None else read.reason
    return RecordedEvent(record, None, error)


def _places(service: Service, decider: Decider[Any], key: str, *, everywhere: bool) -> list[TopicPartition]:
    places = dict[TopicPartition, None]()
    for event_type in decider.says:
        topic, event_key = service.said_on(contract_of(event_type).topic), contract_of(event_type).key
        own = event_key == decider.key and not everywhere
        partitions = [topic.partition_of(key.encode())] if own else range(topic.partitions)
        places.update(dict.fromkeys((topic.name, partition) for partition in partitions))
    return [*places]
