"""A service and its rerun side by side: what each has said, and what each knows."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from eventlib.errors import UndecodableRecord
from eventlib.event import Event
from eventlib.eventlog import EventLog
from eventlib.log.port import Record, TopicPartition
from eventlib.rerun.positions import positions_of
from eventlib.rerun.recorded import Recorded
from eventlib.rerun.unheard import unmarked
from eventlib.service import Service
from eventlib.topic import Topic

_CHUNK = 2_000


class Said(NamedTuple):
    """One event that a service and its rerun have not said alike: what the service said, and what the rerun did."""

    old: Record | None
    new: Record | None

    @property
    def decider(self) -> str:
        """Who has said it."""
        return (self.either.source or "").partition("/")[2]

    @property
    def either(self) -> Record:
        """The event as the service has said it, or else as the rerun has."""
        found = self.old or self.new
        assert found is not None  # noqa: S101  one of the two has said it
        return found


class Sayings(NamedTuple):
    """What a service and its rerun have said: how many events alike, by decider, and which not."""

    alike: Mapping[str, int]
    differ: list[Said]


async def times_of(log: EventLog, run: Service) -> list[int]:
    """Return the time up to which each task of a rerun has followed its service (ms)."""
    return [(await positions_of(log, run, task)).at_ms for task in range(run.partitions)]


async def sayings(log: EventLog, service: Service, run: Service) -> Sayings:
    """Compare what a service has said with what its rerun has, as far as that has come.

    Two events are one when they have one id; and they are alike with the same type, place and content, whenever they
    were said. Memory: the differences, and what lies between the two in one partition.
    """
    comparing = _Comparing(log, service, run, await times_of(log, run))
    for topic in run.outputs:
        for partition in range(topic.partitions):
            await comparing.compare(topic, partition)
    return comparing.result()


async def event_in(log: EventLog, record: Record) -> Event | str:
    """Return the event in a record, or why there is none."""
    try:
        event = await log.decode_now(record)
    except UndecodableRecord as error:
        return error.reason
    return f"{record.type} is not an event of {log.choreography.name}" if event is None else event


class _Comparing:
    """Goes through the two sides partition by partition."""

    def __init__(self, log: EventLog, service: Service, run: Service, times: list[int]) -> None:
        self._log = log
        self._run = run
        self._recorded = Recorded(log, service)
        self._times = times
        self._alike = Counter[str]()
        self._differ = list[Said]()
        self._old: dict[str, Record] = {}
        self._new: dict[str, Record] = {}

    async def compare(self, topic: Topic, partition: int) -> None:
        """Compare one partition; what is left over may still have its other side elsewhere."""
        old, new = dict[str, Record](), dict[str, Record]()
        places = [(topic.name, partition), (self._run.said_on(topic).name, partition)]
        offsets = [0, 0]
        more = True
        while more:
            more = False
            for side, (place, found) in enumerate(zip(places, (old, new), strict=True)):
                records = await self._read(place, offsets[side])
                if records:
                    offsets[side] = records[-1].offset + 1
                    more = True
                found |= {record.event_id: record for record in records if side or self._is_of_service(record)}
            for event_id in old.keys() & new.keys():
                await self._pair(old.pop(event_id), unmarked(new.pop(event_id)))
        self._old |= old
        self._new |= {event_id: unmarked(record) for event_id, record in new.items()}

    def result(self) -> Sayings:
        """Return what was found, in the order of time."""
        for event_id in self._old.keys() | self._new.keys():
            self._differ.append(Said(self._old.get(event_id), self._new.get(event_id)))
        self._differ.sort(key=lambda said: (said.either.timestamp_ms, said.either.event_id))
        return Sayings(self._alike, self._differ)

    def _is_of_service(self, record: Record) -> bool:
        if not self._recorded.is_own(record):
            return False
        task = self._recorded.task_of(record)
        return record.timestamp_ms <= (max(self._times) if task is None else self._times[task])

    async def _read(self, place: TopicPartition, offset: int) -> list[Record]:
        return await self._log.port.read(*place, offset, _CHUNK)

    async def _pair(self, old: Record, new: Record) -> None:
        pair = Said(old, new)
        same_bytes = (old.type, old.key, old.value) == (new.type, new.key, new.value)
        # The same content may have other bytes, when its schema has changed.
        if same_bytes or (old.type == new.type and await event_in(self._log, old) == await event_in(self._log, new)):
            self._alike[pair.decider] += 1
        else:
            self._differ.append(pair)
