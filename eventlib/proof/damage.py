"""What damage of a log makes unknown about the sagas that are under way on it."""

from collections.abc import Iterator
from dataclasses import dataclass

from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.reading import records_between
from eventlib.model.event import contract_of
from eventlib.model.record import key_text
from eventlib.model.service import Service
from eventlib.model.topic import Topic
from eventlib.proof.under_way import SagaUnderWay, TaskName, UnderWay
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.records import POSITION_KEY, STATE, changelog_key, state_key

_APART_MS = 3_600_000
"""By how much the time of a record may lie after that of the next one: clocks differ, and transactions take time."""

_EVER = 1 << 62


@dataclass(frozen=True, slots=True)
class _Place:
    """A damaged place: `home` is the topic by which a saga's key has its partition; None if any saga's may be there.

    What stood there was written by `until_ms`; None: that is not known.
    """

    topic: str
    partition: int
    offset: int
    home: Topic | None
    until_ms: int | None

    def may_have(self, key: str, first_ms: int | None) -> bool:
        """Return whether a part of a saga, which began at a time, may have stood here."""
        if self.home is not None and self.home.partition_of(key.encode()) != self.partition:
            return False
        return first_ms is None or self.until_ms is None or first_ms <= self.until_ms + _APART_MS


class Doubts:
    """Which sagas, and which of the states that they share, depend on what is damaged.

    Where that cannot be known, they do: a saga does not if it has other partitions, or began after the damaged record was
    written; a shared state does not if it was written again after it.
    """

    def __init__(self, log: EventLog, found: UnderWay) -> None:
        self._log = log
        self._found = found
        self._services = log.choreography.services
        self._readers = {service.name: InputReader(log, service) for service in self._services}
        self._keyed = {d.name for service in self._services for d in service.deciders if d.key == found.key}
        self._places = list[_Place]()
        self._unsure: dict[TaskName, int] = {}
        self._parked = set[TaskName]()

    @classmethod
    async def read(cls, log: EventLog, found: UnderWay) -> "Doubts":
        """Read what surrounds the damaged places."""
        made = cls(log, found)
        for (topic, partition, offset), error in found.damaged.items():
            await made._add((topic, partition), offset, error.resume_at)
        return made

    async def _add(self, place: TopicPartition, offset: int, resume_at: int) -> None:
        topic, partition = place
        for service in self._services:
            task = service.name, partition
            known_at, positions = self._found.positions.get(task, (-1, {}))
            if topic == service.changelog.name:
                is_before = offset < known_at
                until_ms = await self._next_ms(place, resume_at, (STATE, POSITION_KEY)) if is_before else None
                self._unsure[task] = max(self._unsure.get(task, -1), offset if is_before else _EVER)
                self._places.append(_Place(*place, offset, self._home(service), until_ms))
            elif topic == service.parked.name:
                self._parked.add(task)
                self._places.append(_Place(*place, offset, self._home(service), await self._next_ms(place, resume_at)))
            elif any(each.name == topic for each in service.inputs) and positions.get(topic, 0) <= offset:
                self._unsure[task] = _EVER  # it parks the key of this input, once it meets it
        contracts = [contract_of(event) for event in self._log.choreography.events]
        keys = {contract.topic: contract.key for contract in contracts if contract.topic.name == topic}
        if keys:
            is_by_saga = all(each.key == self._found.key for each in contracts if each.topic.name == topic)
            home = next(iter(keys)) if is_by_saga else None
            self._places.append(_Place(*place, offset, home, await self._next_ms(place, resume_at)))

    def _home(self, service: Service) -> Topic | None:
        return service.inputs[0] if all(decider.name in self._keyed for decider in service.deciders) else None

    async def _next_ms(self, place: TopicPartition, first: int, names: tuple[str, ...] = ("",)) -> int | None:
        """Return the time of the next record whose key begins with one of these names; pending effects have an earlier one."""
        async for record in records_between(self._log.port, place, first):
            if key_text(record).startswith(names):
                return record.timestamp_ms
        return None

    def about(self, saga: SagaUnderWay) -> str:
        """Return why what a saga has still to do is not known; nothing if it is."""
        roots = {record.correlation_id or record.event_id for record in saga.events}
        is_whole = bool(roots) and roots <= {record.event_id for record in saga.events}
        first_ms = min(record.timestamp_ms for record in saga.events) if is_whole else None
        for place in self._places:
            if place.may_have(saga.key, first_ms):
                return f"{place.topic}/{place.partition}/{place.offset} is damaged, and may have been about it"
        if any(task in self._parked for task, _, _ in saga.parked):
            return "what is parked before it may be damaged"
        unsure = next(self._unsure_states(saga), None)
        return "" if unsure is None else f"the state of {unsure}, which sagas share, may be damaged"

    def _unsure_states(self, saga: SagaUnderWay) -> Iterator[str]:
        for record in saga.events:
            for service in self._services:
                task = service.name, record.partition
                if task in self._unsure and any(topic.name == record.topic for topic in service.inputs):
                    for decider in self._readers[service.name].deciders_of(record) or ():
                        if self.is_unsure(task, state_key(decider.name, key_text(record))):
                            yield f"{decider.name} {key_text(record)}"

    def is_unsure(self, task: TaskName, name: str) -> bool:
        """Return whether a state that sagas share may be another one than is known."""
        about = changelog_key(name)
        if task not in self._unsure or about.kind != "state" or about.decider in self._keyed:
            return False
        known = self._found.shared.get(task, {}).get(name)
        return known is None or known.offset <= self._unsure[task]
