"""Which sagas are in flight: those about which something was said, and that have not ended."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import Record, TopicPartition, key_text
from eventlib.model.event import contract_of
from eventlib.model.topic import Topic

_CHUNK = 2_000


class Flights:
    """The sagas in flight.

    A saga is all that shares a correlation id; it is known by the key under which it can end. Memory grows by some 100
    bytes with each saga that has ended.
    Raises: ContractError when no event of the choreography ends a saga.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        contracts = [contract_of(event) for event in log.choreography.events]
        self._finals = {contract.type for contract in contracts if contract.final}
        if not self._finals:
            raise ContractError(
                f"no event of {log.choreography.name} says final=True, so nothing tells which sagas have ended"
            )
        keys = {contract.key for contract in contracts if contract.final}
        told = [contract for contract in contracts if contract.key in keys and not contract.request]
        self._types = {contract.type for contract in told if contract.foreign is None}
        self._endings = {contract.topic for contract in contracts if contract.final}
        self._others = {contract.topic for contract in told} - self._endings
        self._services = {service.speaks_as for service in log.choreography.services}
        self._read_to: dict[TopicPartition, int] = {}
        self._ended = set[int]()
        self.keys: dict[str, str] = {}

    async def find(self) -> Mapping[str, str]:
        """Return the key of each saga in flight by its correlation id."""
        # What has begun is looked up first and read last, so that of what has begun every ending is known.
        begun = {place: await self._log.port.end(*place) for place in _places(self._others)}
        for place in _places(self._endings):
            await self._read(place, await self._log.port.start(*place), await self._log.port.end(*place))
        for place, end in begun.items():
            await self._read(place, await self._log.port.start(*place), end)
        return self.keys

    async def land(self) -> None:
        """Take those out that have ended since they were found."""
        for place in _places(self._endings):
            async for record in records_between(self._log, place, self._read_to[place]):
                self._end(record)

    async def _read(self, place: TopicPartition, first: int, end: int) -> None:
        self._read_to[place] = end
        async for record in records_between(self._log, place, first, end):
            saga = record.correlation_id
            if record.type not in self._types or saga is None or not self._is_said(record):
                continue
            if record.type in self._finals:
                self._end(record)
            elif hash((saga, record.key)) not in self._ended:
                self.keys[saga] = key_text(record)

    def _end(self, record: Record) -> None:
        if record.type in self._finals and record.correlation_id is not None:
            self._ended.add(hash((record.correlation_id, record.key)))
            self.keys.pop(record.correlation_id, None)

    def _is_said(self, record: Record) -> bool:
        """Tell whether a service has said this: what comes from outside begins nothing until it is answered."""
        return (record.source or "").partition("/")[0] in self._services


def _places(topics: Iterable[Topic]) -> Iterator[TopicPartition]:
    return ((topic.name, partition) for topic in topics for partition in range(topic.partitions))


async def records_between(
    log: EventLog, place: TopicPartition, first: int, end: int | None = None
) -> AsyncIterator[Record]:
    """Yield the records of a partition from an offset up to another one, or to its end."""
    offset = first
    while (end is None or offset < end) and (records := await log.port.read(*place, offset, _CHUNK)):
        for record in records:
            if end is not None and record.offset >= end:
                return
            yield record
        offset = records[-1].offset + 1
