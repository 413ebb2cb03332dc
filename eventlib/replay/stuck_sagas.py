"""Finds in-flight sagas that cannot progress under the current code.

A saga progresses by a pending effect, a deadline, an unconsumed input, or the release of something parked. All of these
are read from the changelogs and the positions in them, as the current code would at its start.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.errors import ContractError, DamagedRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.reading import SkippingReader, records_between
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import contract_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.replay.in_flight import InFlightSagas
from eventlib.replay.replaying import FIRST, replay
from eventlib.replay.report import NOTHING_COMPARED, Report
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.keyed_state import KeyedState, entry_of
from eventlib.runtime.records import POSITION_KEY, ParkedKey, Positions, changelog_key

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A state that the current class cannot read."""

    decider: str
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class StuckSaga:
    """A saga that cannot progress, and why."""

    saga: str
    why: str


@dataclass(frozen=True, slots=True)
class InFlightStatus:
    """The status of in-flight sagas: their number, the stranded ones, and unreadable states.

    Of states shared by sagas, such as a product's shelf, one is tried for each schema that wrote them. `damaged` are sentences
    about damaged places: what stood there could have ended or begun a saga, or let one progress. Then no saga is stranded for
    certain: `doubtful` are those that seem to be.
    """

    in_flight: int
    stranded: tuple[StuckSaga, ...]
    unreadable: tuple[Unreadable, ...]
    doubtful: tuple[StuckSaga, ...] = ()
    damaged: tuple[str, ...] = ()


async def standing(log: EventLog) -> tuple[InFlightStatus, Collection[str]]:
    """Return the status of in-flight sagas under the current code, even while services run; and their correlation ids.

    Guarantee: damaged records are skipped, and named; nothing that depends on them is called stranded or unreadable.
    Raises: ContractError when no event ends a saga.
    """
    reader = SkippingReader(log.port)
    log = log.over(reader, log.codec)
    flights = InFlightSagas(log)
    scan = _ProgressScan(log, await flights.find(), reader.damaged)
    tasks = [(service, partition) for service in log.choreography.services for partition in range(service.partitions)]
    there = await log.port.topics()
    # Changelogs first, then inputs: an event emitted meanwhile is seen at least as an input.
    begun = [(*task, await scan.changelog(*task)) for task in tasks if task[0].changelog.name in there]
    for service, partition, positions in begun:
        await scan.inputs(service, partition, positions)
    await flights.land()
    return scan.standing(), flights.keys


class _ProgressScan:
    """Scans for whatever lets sagas progress."""

    def __init__(
        self, log: EventLog, sagas: Mapping[str, str], damaged: Mapping[tuple[str, int, int], DamagedRecord]
    ) -> None:
        self._log = log
        self._damaged = damaged
        self._lost = set[str]()
        self._sagas = sagas
        self._by_key = {key: saga for saga, key in sagas.items()}
        self._moved = set[str]()
        self._stuck: dict[str, str] = {}
        self._unreadable: list[Unreadable] = []

    async def changelog(self, service: Service, partition: int) -> Positions:
        """Scan a task's changelog, and return its positions."""
        codec, deciders = self._log.codec, {decider.name: decider for decider in service.deciders}
        newest, samples = await self._newest((service.changelog.name, partition))
        position = newest.pop(POSITION_KEY, None)
        for name, record in newest.items():
            about = changelog_key(name)
            if about.kind == "parked":
                parked = await self._known(partial(codec.decode, ParkedKey, record.value or b""))
                if parked is not None:
                    self._moved.add(self._by_key.get(parked.key, ""))
            elif about.kind == "effect":
                self._effect(deciders.get((record.source or "").partition("/")[2]), record)
            elif about.kind == "state" and (decider := deciders.get(about.decider)) is not None:
                await self._state(decider, about.key, record)
        for name, record in samples.all():
            about = changelog_key(name)
            if name not in newest and (decider := deciders.get(about.decider)) is not None:
                await self._sample(decider, about.key, record)
        if position is None:
            return Positions()
        return await self._known(partial(codec.decode, Positions, position.value or b"")) or Positions()

    async def _newest(self, changelog: TopicPartition) -> tuple[dict[str, Record], "Samples"]:
        """Return the newest records of in-flight sagas, parked keys and positions; and samples of all states."""
        newest: dict[str, Record] = {}
        samples = Samples()
        async for record in records_between(self._log.port, changelog, await self._log.port.start(*changelog)):
            name = key_text(record)
            kind = changelog_key(name).kind
            if kind == "state":
                samples.add(name, record)
            if record.value and (record.correlation_id in self._sagas or kind in {"parked", POSITION_KEY}):
                newest[name] = record
            else:
                newest.pop(name, None)
        return newest, samples

    async def inputs(self, service: Service, partition: int, positions: Positions) -> None:
        """Scan the inputs that a task has not handled yet."""
        reader = InputReader(self._log, service)
        for topic in service.inputs:
            if (first := positions.next.get(topic.name)) is None:
                continue
            async for record in records_between(self._log.port, (topic.name, partition), first):
                if reader.deciders_of(record):
                    self._moved |= {record.correlation_id or "", self._by_key.get(key_text(record), "")}

    def standing(self) -> InFlightStatus:
        """Return the status of the sagas that are still in flight."""
        stranded = [
            StuckSaga(key, self._stuck.get(saga, _NOTHING_MOVES))
            for saga, key in self._sagas.items()
            if saga in self._stuck or saga not in self._moved
        ]
        ordered = tuple(sorted(stranded, key=lambda each: each.saga))
        damaged = tuple(sorted({*map(str, self._damaged.values()), *self._lost}))
        certain, doubtful = ((), ordered) if damaged else (ordered, ())
        return InFlightStatus(len(self._sagas), certain, tuple(self._unreadable), doubtful, damaged)

    def _effect(self, decider: Decider[Any] | None, request: Record) -> None:
        has_effect = decider is not None and request.type in {contract_of(event).type for event in decider.effects}
        saga = request.correlation_id or ""
        if has_effect or request.headers:  # headers mark a parked request, which an operator can retry
            self._moved.add(saga)
        else:
            self._stuck[saga] = f"the effect for {request.type} is pending, and the current code has none"

    async def _state(self, decider: Decider[Any], key: str, record: Record) -> None:
        saga = record.correlation_id or ""
        try:
            entry = await self._entry(decider, record)
        except ContractError as error:
            if self._may_be_old(record):
                return
            if self._sagas[saga] == key:
                self._stuck[saga] = f"the current code cannot read the state of {decider.name}: {error}"
            else:  # shared with other sagas, as a product's shelf is
                self._unreadable.append(Unreadable(decider.name, key, str(error)))
            return
        if entry is not None and entry.due.keys() - {FORGET}:
            self._moved.add(saga)

    async def _sample(self, decider: Decider[Any], key: str, record: Record) -> None:
        try:
            await self._entry(decider, record)
        except ContractError as error:
            if not self._may_be_old(record):
                self._unreadable.append(Unreadable(decider.name, key, str(error)))

    async def _entry(self, decider: Decider[Any], record: Record) -> KeyedState | None:
        return await self._known(partial(entry_of, record, decider, self._log.codec))

    async def _known(self, decode: Callable[[], T]) -> T | None:
        """Decode; None where a schema is damaged. Raises: ContractError."""
        try:
            return await self._log.codec.decode_now(decode)
        except DamagedRecord as error:
            self._lost.add(str(error))
            return None

    def _may_be_old(self, record: Record) -> bool:
        """Return whether a damaged record may have replaced this one."""
        return any(
            (topic, partition) == (record.topic, record.partition) and offset > record.offset
            for topic, partition, offset in self._damaged
        )


class Samples:
    """Some of the newest states of each schema."""

    def __init__(self) -> None:
        self._by_schema: dict[tuple[str, bytes], dict[str, Record]] = {}
        self._schema_of: dict[str, tuple[str, bytes]] = {}

    def add(self, name: str, record: Record) -> None:
        """Add a state; it replaces an older one of the same key."""
        if (before := self._schema_of.pop(name, None)) is not None:
            del self._by_schema[before][name]
        if not record.value:
            return
        schema = changelog_key(name).decider, record.value[:HEADER_BYTES]
        group = self._by_schema.setdefault(schema, {})
        if len(group) == _SAMPLES:
            oldest = next(iter(group))
            del group[oldest], self._schema_of[oldest]
        group[name], self._schema_of[name] = record, schema

    def all(self) -> Iterator[tuple[str, Record]]:
        """Yield one state for each schema."""
        return (next(iter(group.items())) for group in self._by_schema.values() if group)


_SAMPLES = 10
_NOTHING_MOVES = "no effect is pending, no deadline is due, no input waits"


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The status of in-flight sagas, and which of their decisions change under the current code."""

    standing: InFlightStatus
    report: Report

    @property
    def is_open(self) -> bool:
        """Whether the current code can take over: no saga is stranded, no decision changes, all states are readable.

        Not where something is damaged: what depends on it is not known.
        """
        return not self.standing.stranded and not self.standing.unreadable and self.report.same and not self.damaged

    @property
    def damaged(self) -> tuple[str, ...]:
        """Sentences about damaged records."""
        return tuple(sorted({*self.standing.damaged, *self.report.damaged}))


async def gate(
    log: EventLog,
    *,
    services: Sequence[str] | None = None,
    since: datetime | None = None,
    limit: int = FIRST,
) -> PreflightReport:
    """Return what the current code would do to in-flight sagas; the options are `replay`'s.

    Guarantee: read-only; services may run meanwhile.
    Raises: ContractError when no event ends a saga; what `replay` raises.
    """
    found, sagas = await standing(log)
    if not sagas:
        return PreflightReport(found, NOTHING_COMPARED)
    return PreflightReport(found, await replay(log, services=services, since=since, sagas=sagas, limit=limit))
