"""What is under way on a log: each saga's states, unread inputs, pending effects, parked keys, and its past."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from eventlib.errors import ContractError, DamagedRecord, EventlibError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.reading import SkippingReader, records_between
from eventlib.model.event import Contract, contract_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.queries.causal_order import causes_first
from eventlib.replay.in_flight import InFlightSagas
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.parking.parked import waiting_behind
from eventlib.runtime.records import POSITION_KEY, ParkedKey, Positions, changelog_key

TaskName = tuple[str, int]
Place = tuple[str, int, str]


@dataclass
class SagaUnderWay:
    """One saga by its key: changelog records by task, unread inputs by (service, partition, topic), and its events.

    `parked` has what waits for a person: the key's note, and the inputs behind it.
    """

    key: str
    knows: dict[TaskName, dict[str, Record]] = field(default_factory=dict)
    waiting: dict[Place, list[Record]] = field(default_factory=dict)
    parked: list[tuple[TaskName, ParkedKey, list[Record]]] = field(default_factory=list)
    events: list[Record] = field(default_factory=list)

    @property
    def at_ms(self) -> int:
        """When it last moved."""
        return max((record.timestamp_ms for record in self.events), default=0)


@dataclass
class UnderWay:
    """All sagas that are under way, the states that they share with others, and inputs that belong to no saga.

    `key` is the name of the sagas' key field. `cut` are topics whose beginning is gone, and with it a part of some sagas' past.
    `damaged` has the errors of damaged records by their places, which were skipped; `positions` where tasks go on by topic,
    with the offsets of these notes in their changelogs.
    """

    key: str
    sagas: dict[str, SagaUnderWay] = field(default_factory=dict)
    shared: dict[TaskName, dict[str, Record]] = field(default_factory=dict)
    others: int = 0
    cut: list[str] = field(default_factory=list)
    damaged: Mapping[tuple[str, int, int], DamagedRecord] = field(default_factory=dict)
    positions: dict[TaskName, tuple[int, Mapping[str, int]]] = field(default_factory=dict)


async def under_way(log: EventLog) -> UnderWay:
    """Read what is under way; a log on which services run is best read from a backup of it.

    Raises: ContractError when no event of the choreography ends a saga, or those that do have several keys.
    """
    reader = SkippingReader(log.port)
    log = log.over(reader, log.codec)
    found = await _Reading(log, InFlightSagas(log)).read()
    found.damaged = reader.damaged
    return found


def saga_field(contracts: Iterable[Contract], application: str) -> str:
    """Return the name of the key of final events, which is a saga's. Raises: ContractError when there are several."""
    fields = {contract.key for contract in contracts if contract.final}
    if len(fields) != 1 or None in fields:
        raise ContractError(
            f"the final events of {application} have the keys {', '.join(sorted(map(str, fields)))}: a saga needs one key"
        )
    return str(fields.pop())


class _Reading:
    """Changelogs are read first, then inputs, and then the events of the sagas that were found in them."""

    def __init__(self, log: EventLog, flights: InFlightSagas) -> None:
        self._log = log
        self._flights = flights
        contracts = [contract_of(event) for event in log.choreography.events]
        self._found = UnderWay(saga_field(contracts, log.choreography.name))
        self._keyed = {contract.type for contract in contracts if contract.key == self._found.key}
        self._mentioning = {
            contract_of(event).type for event in log.choreography.events if self._found.key in event.model_fields
        }
        self._topics = {contract.topic.name: contract.topic for contract in contracts}
        self._there: Collection[str] = ()
        self._key_of = dict[str, str]()
        self._changelogs = dict[TaskName, dict[str, Record]]()

    async def read(self) -> UnderWay:
        self._there = (await self._log.port.topics()).keys()
        services = [each for each in self._log.choreography.services if each.changelog.name in self._there]
        tasks = [(service, partition) for service in services for partition in range(service.partitions)]
        for service, partition in tasks:
            self._changelogs[service.name, partition] = await self._newest((service.changelog.name, partition))
        self._key_of |= await self._flights.find()
        unread = [each for service, partition in tasks async for each in self._unread(service, partition)]
        await self._name([record for _, record in unread])
        for key in self._key_of.values():
            self._found.sagas.setdefault(key, SagaUnderWay(key))
        for place, record in unread:
            saga = await self._saga_of(record)
            if saga is None:
                self._found.others += 1
            else:
                saga.waiting.setdefault(place, []).append(record)
        for service, partition in tasks:
            await self._share_out(service, partition)
        await self._events()
        return self._found

    async def _newest(self, changelog: TopicPartition) -> dict[str, Record]:
        newest: dict[str, Record] = {}
        async for record in records_between(self._log.port, changelog, await self._log.port.start(*changelog)):
            if record.value is None:
                newest.pop(key_text(record), None)
            else:
                newest[key_text(record)] = record
        return newest

    async def _unread(self, service: Service, partition: int) -> AsyncIterator[tuple[Place, Record]]:
        position = self._changelogs[service.name, partition].get(POSITION_KEY)
        positions = Positions()
        if position is not None:
            decode = partial(self._log.codec.decode, Positions, position.value or b"")
            positions = await self._log.codec.decode_now(decode)
            self._found.positions[service.name, partition] = position.offset, positions.next
        reader = InputReader(self._log, service)
        for topic in (each for each in service.inputs if each.name in self._there):
            place = (topic.name, partition)
            first = positions.next.get(topic.name, await self._log.port.start(*place))
            async for record in records_between(self._log.port, place, first):
                if reader.deciders_of(record):
                    yield (service.name, partition, topic.name), record

    async def _name(self, unread: Iterable[Record]) -> None:
        """Find the keys of sagas that are under way by an input or an effect, and all correlation ids of each saga.

        A saga has several: a request from outside, such as a wish to cancel, has one of its own.
        """
        left = set[str]()
        for record in unread:
            correlation_id = record.correlation_id or record.event_id
            if record.type in self._keyed:
                self._key_of.setdefault(correlation_id, key_text(record))
            left.add(correlation_id)
        for changelog in self._changelogs.values():
            left |= {r.correlation_id or "" for name, r in changelog.items() if changelog_key(name).kind == "effect"}
        left -= self._key_of.keys()
        if left:
            async for record in self._all_events():
                if record.correlation_id in left and record.type in self._keyed:
                    self._key_of.setdefault(record.correlation_id or "", key_text(record))
        keys = {*self._key_of.values()}
        if keys:
            async for record in self._all_events():
                if record.type in self._keyed and (key := key_text(record)) in keys and record.correlation_id:
                    self._key_of.setdefault(record.correlation_id, key)

    async def _saga_of(self, record: Record) -> SagaUnderWay | None:
        if record.type in self._keyed:
            return self._found.sagas.get(key_text(record))
        key = self._key_of.get(record.correlation_id or "")
        if key is not None and record.type in self._mentioning:
            with suppress(EventlibError):  # what cannot be read belongs to the saga that it came from
                key = str(getattr(await self._log.decode_now(record), self._found.key, key))
        return self._found.sagas.get(key or "")

    async def _share_out(self, service: Service, partition: int) -> None:
        task = service.name, partition
        own = {decider.name for decider in service.deciders if decider.key == self._found.key}
        for name, record in self._changelogs[task].items():
            by_cause = self._key_of.get(record.correlation_id or "", "")
            kind, decider, key, _ = changelog_key(name)
            if kind in {"state", "request"}:
                if decider not in own:
                    self._found.shared.setdefault(task, {})[name] = record
                elif key in self._found.sagas:
                    self._found.sagas[key].knows.setdefault(task, {})[name] = record
            elif kind == "effect" and by_cause in self._found.sagas:
                self._found.sagas[by_cause].knows.setdefault(task, {})[name] = record
            elif kind == "parked":
                await self._parked(service, partition, record)

    async def _parked(self, service: Service, partition: int, record: Record) -> None:
        decode = partial(self._log.codec.decode, ParkedKey, record.value or b"")
        note = await self._log.codec.decode_now(decode)
        waiting = await waiting_behind(note, (service.parked.name, partition), self._log.port)
        key = note.key
        if self._log.choreography.decider(note.decider).key != self._found.key:
            key = self._key_of.get(waiting[0].correlation_id or "", "") if waiting else ""
        if key:
            saga = self._found.sagas.setdefault(key, SagaUnderWay(key))
            saga.parked.append(((service.name, partition), note, waiting))
        else:
            self._found.others += 1

    async def _events(self) -> None:
        events: dict[str, dict[str, Record]] = {key: {} for key in self._found.sagas}
        async for record in self._all_events():
            saga = await self._saga_of(record)
            if saga is not None:
                events[saga.key][record.event_id] = record
        for key, found in events.items():
            records = sorted(found.values(), key=lambda each: (each.timestamp_ms, each.sequence or 0))
            self._found.sagas[key].events = [records[i] for i in causes_first(records)]

    async def _all_events(self) -> AsyncIterator[Record]:
        for topic in (each for each in self._topics.values() if each.name in self._there):
            for partition in range(topic.partitions):
                first = await self._log.port.start(topic.name, partition)
                if await self._log.port.log_start(topic.name, partition) > 0 and topic.name not in self._found.cut:
                    self._found.cut.append(topic.name)
                async for record in records_between(self._log.port, (topic.name, partition), first):
                    yield record
