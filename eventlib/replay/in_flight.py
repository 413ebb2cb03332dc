"""Finds in-flight sagas: those with emitted events and no final one."""

from collections.abc import Iterable, Iterator, Mapping

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.reading import records_between
from eventlib.model.event import contract_of
from eventlib.model.record import Record, key_text
from eventlib.model.topic import Topic


class InFlightSagas:
    """The sagas in flight.

    A saga is all events with one correlation id; its name is the key of its final event. Memory grows by about 100 bytes
    with each ended saga.
    Raises: ContractError when no event of the choreography ends a saga.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        contracts = [contract_of(event) for event in log.choreography.events]
        self._finals = {contract.type for contract in contracts if contract.final}
        if not self._finals:
            raise ContractError(
                f"no event of {log.choreography.name} has final=True, so no saga of it can be known to have ended"
            )
        keys = {contract.key for contract in contracts if contract.final}
        internal = [contract for contract in contracts if contract.key in keys and not contract.request]
        self._types = {contract.type for contract in internal if contract.external is None}
        self._endings = {contract.topic for contract in contracts if contract.final}
        self._others = {contract.topic for contract in internal} - self._endings
        self._services = {service.emits_as for service in log.choreography.services}
        self._read_to: dict[TopicPartition, int] = {}
        self._ended = set[int]()
        self.keys: dict[str, str] = {}

    async def find(self) -> Mapping[str, str]:
        """Return the key of each saga in flight by its correlation id."""
        # The ends of the other topics are taken first and read last: every ending of what they have is known then.
        ends = {each: await self._log.port.end(*each) for each in _partitions(self._others)}
        for each in _partitions(self._endings):
            await self._read(each, await self._log.port.start(*each), await self._log.port.end(*each))
        for each, end in ends.items():
            await self._read(each, await self._log.port.start(*each), end)
        return self.keys

    async def land(self) -> None:
        """Remove those that have ended since they were found."""
        for each in _partitions(self._endings):
            async for record in records_between(self._log.port, each, self._read_to[each]):
                self._end(record)

    async def _read(self, topic_partition: TopicPartition, first: int, end: int) -> None:
        self._read_to[topic_partition] = end
        async for record in records_between(self._log.port, topic_partition, first, end):
            saga = record.correlation_id
            if record.type not in self._types or saga is None or not self._is_emitted(record):
                continue
            if record.type in self._finals:
                self._end(record)
            elif hash((saga, record.key)) not in self._ended:
                self.keys[saga] = key_text(record)

    def _end(self, record: Record) -> None:
        if record.type in self._finals and record.correlation_id is not None:
            self._ended.add(hash((record.correlation_id, record.key)))
            self.keys.pop(record.correlation_id, None)

    def _is_emitted(self, record: Record) -> bool:
        """Return whether a service emitted this: an external event begins no saga until a service responds."""
        return (record.source or "").partition("/")[0] in self._services


def _partitions(topics: Iterable[Topic]) -> Iterator[TopicPartition]:
    return ((topic.name, partition) for topic in topics for partition in range(topic.partitions))
