"""A window on a log that moves forwards in time: each event is read and decoded once, for all who want it.

An event is wanted by the tasks that take it as an input, and where its service is judged by what it has said.
"""

from collections.abc import Iterable, Mapping, Sequence

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import Record, TopicPartition
from eventlib.model.event import Event, contract_of
from eventlib.model.service import Service
from eventlib.replay.partition_buffer import Item, PartitionBuffer, Shard, Taker
from eventlib.values import from_ms

_READ_AHEAD = 10_000
_LEAST, _MOST = 50, 2_000
"""How many records are read ahead over all partitions, and of one of them at least and at most."""

_KEPT = 60_000
"""How many inputs wait in memory for tasks that are behind; these read again what was dropped."""

_SAYERS = 50_000
"""Of how many deciders' keys it is remembered whether they are in this part."""

_FOR_EVER = 1 << 62


Moment = tuple[str, int]
"""A service, and a time (ms)."""


SaidBy = tuple[str | None, str | None, str | None]
"""The decider that said something (`service/decider`), its key, and the event that it names as its cause."""

Sayer = tuple[str | None, str | None]
"""The decider that said something, and its key."""


class OutputHistory:
    """What a service has said at a moment: how much of it was read, and what nobody has claimed yet."""

    __slots__ = ("items", "read")

    def __init__(self) -> None:
        self.read = 0
        self.items: dict[SaidBy, list[Item]] = {}


_NOTHING = OutputHistory()


class LogScanner:
    """The events of a log around a moment that moves on.

    Memory is bounded, however long the log is. Guarantee: `complete` has everything that was said at a moment, though
    the records of a partition need not be sorted by time.
    """

    def __init__(self, log: EventLog, part: Shard, services: Iterable[Service]) -> None:
        self._log = log
        self._part = part
        self._services = {service.speaks_as: (service, service.inputs[0]) for service in services if service.inputs}
        self._sayers: dict[Sayer, str | None] = {}
        self._foreign = log.foreigners.topics
        self._said: dict[Moment, OutputHistory] = {}
        self._strips: dict[TopicPartition, PartitionBuffer] = {}
        self._chunk = _MOST
        self._horizon_ms = -1
        self._kept = 0
        self.events = 0

    async def open(self, topics: Mapping[str, int], tasks: Iterable[tuple[Service, int]]) -> None:
        """Begin to read these topics (with their partitions) at their oldest records, with inputs for these tasks."""
        handled: dict[TopicPartition, set[str]] = {}
        for service, partition in tasks:
            for event in service.handles:
                contract = contract_of(event)
                handled.setdefault((contract.topic.name, partition), set()).add(contract.type)
        for topic, partitions in topics.items():
            for place in ((topic, partition) for partition in range(partitions)):
                types = frozenset(handled.get(place, ()))
                any_type = topic in self._foreign and bool(types)
                self._strips[place] = PartitionBuffer(
                    place, await self._log.port.start(*place), None if any_type else types
                )
        self._chunk = min(_MOST, max(_LEAST, _READ_AHEAD // max(1, len(self._strips))))

    async def taker(self, place: TopicPartition, first: int) -> Taker:
        """Let a task take its inputs from a partition. Raises: ContractError when retention has dropped some."""
        start = await self._log.port.log_start(*place)
        if start > first:
            topic, partition = place
            raise ContractError(
                f"{topic}/{partition} begins at offset {start}: what stood there from {first} on was dropped, and "
                "without it what followed cannot be known"
            )
        return Taker(self._strips[place], first, self._log.port, self.decoded)

    async def take(self, taker: Taker, last: int) -> list[Item]:
        """Return the inputs up to an offset that a task has not taken before."""
        found, strip = list[Item](), taker.strip
        while True:
            if taker.at < 0:
                found += await taker.caught_up(last)
            if taker.next > last or strip.next > last or strip.ended:
                break
            await self._read(strip)  # which may drop what this task has not taken yet
        if taker.next > last:
            return found
        taken = taker.taken(last)
        self._kept -= strip.trim()
        return found + taken if found else taken

    async def complete(self, at_ms: int, said: Mapping[str, int]) -> None:
        """Read on until all that services said at a time is there; `said` tells how much that is.

        Raises: ContractError when it is not on the log.
        """
        if at_ms >= self._horizon_ms:
            await self._advance(at_ms)
        for service, count in said.items():
            moment = service, at_ms
            while (read := self._said.get(moment, _NOTHING).read) < count:
                if not await self._read_all():
                    raise ContractError(
                        f"{service} said {count} events at {from_ms(at_ms).isoformat()}, and {read} of them are on the "
                        "log: has retention dropped the others?"
                    )

    def said(self, service: str, at_ms: int) -> dict[SaidBy, list[Item]]:
        """Return what a service said at a time and nobody has claimed yet; claim it by taking it out."""
        return self._said.get((service, at_ms), _NOTHING).items

    def read(self, said: Sequence[Item], now: Sequence[Event]) -> Sequence[Item]:  # noqa: ARG002  all of it is read here
        """Return what was said with its events; `now` is what may have been said, as far as is known."""
        return said

    def unclaimed(self, service: str, at_ms: int) -> list[Item]:
        """Forget what a service said at a time, and return what nobody has claimed of it."""
        said = self._said.pop((service, at_ms), _NOTHING).items
        return [item for items in said.values() for item in items]

    def unknown(self, at_ms: int) -> list[Item]:
        """Forget what was said before a time that no journal knows of, and return it."""
        old = [moment for moment in self._said if moment[1] < at_ms]
        return [item for moment in old for item in self.unclaimed(*moment)]

    async def _advance(self, at_ms: int) -> None:
        for strip in self._strips.values():
            while strip.newest_ms <= at_ms and not strip.ended:
                await self._read(strip)
        going = (strip.newest_ms for strip in self._strips.values() if not strip.ended)
        self._horizon_ms = min(going, default=_FOR_EVER)

    async def _read_all(self) -> bool:
        """Read a chunk of each partition; False when nothing was left."""
        before = self.events
        for strip in self._strips.values():
            await self._read(strip)
        return self.events > before

    async def _read(self, strip: PartitionBuffer) -> None:
        records = await self._log.port.read(*strip.place, strip.next, self._chunk)
        if not records:
            strip.ended = True
            return
        self.events += len(records)
        types, known = strip.types, self._sayers
        wanted, sayers = list[Record](), list[str | None]()
        for record in records:
            name = record.source, record.subject
            sayer = known[name] if name in known else self._sayer(name)
            if sayer is not None or types is None or record.type in types:
                wanted.append(record)
                sayers.append(sayer)
        inputs = list[Item]()
        for item, sayer in zip(await self.decoded(wanted), sayers, strict=True):
            if sayer is not None:
                self._note(sayer, item)
            if types is None or item[0].type in types:
                inputs.append(item)
        strip.items += inputs
        self._kept += len(inputs)
        strip.next = records[-1].offset + 1
        strip.newest_ms = max(strip.newest_ms, *[record.timestamp_ms for record in records])
        while self._kept > _KEPT:
            longest = max(self._strips.values(), key=lambda each: len(each.items))
            self._kept -= longest.drop((len(longest.items) + 1) // 2)

    def _note(self, sayer: str, item: Item) -> None:
        record = item[0]
        moment = sayer, record.timestamp_ms
        said = self._said.get(moment)
        if said is None:
            said = self._said[moment] = OutputHistory()
        said.read += 1
        by = record.source, record.subject, record.causation_id
        items = said.items.get(by)
        if items is None:
            said.items[by] = [item]
        else:
            items.append(item)

    def _sayer(self, name: Sayer) -> str | None:
        """Return the service that said an event, by its source and subject, when one of its tasks is in this part."""
        if len(self._sayers) > _SAYERS:
            self._sayers.clear()
        source, subject = name
        said_by = self._services.get((source or "").partition("/")[0])
        sayer = None
        if said_by is not None:
            service, keyed = said_by
            if self._part.has(service, keyed.partition_of((subject or "").encode())):
                sayer = service.name
        self._sayers[name] = sayer
        return sayer

    async def decoded(self, records: list[Record]) -> list[Item]:
        """Return records as their deciders see them, each with its event, or why there is none."""
        found = list[Item]()
        for record in records:
            try:
                found.append(self._item(record))
            except UnknownSchema:
                await self._log.codec.refresh()
                found.append(self._item(record, schemas_known=True))
        return found

    def _item(self, record: Record, *, schemas_known: bool = False) -> Item:
        try:
            event = self._log.decode(record)
            if event is None:
                raise _unreadable(record, f"{record.type} is not an event of this choreography")
            if record.topic in self._foreign:
                return self._log.foreigners.settled(record, event), event
        except UndecodableRecord as error:
            return record, error
        except UnknownSchema as error:
            if not schemas_known:
                raise
            return record, _unreadable(record, str(error))
        return record, event


def _unreadable(record: Record, reason: str) -> UndecodableRecord:
    return UndecodableRecord(reason, record.topic, record.partition, record.offset)
