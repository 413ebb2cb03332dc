"""Builds anew what a damaged changelog record said: from the journal, the inputs and what was said, or not at all."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from eventlib.errors import ContractError, DamagedRecord, UnknownKey
from eventlib.eventlog import EventLog
from eventlib.log.base import Log, Record, TopicPartition, key_text
from eventlib.log.reading import SkippingReader, chunks
from eventlib.model.decider import Decider
from eventlib.model.evolution import wire_name_of
from eventlib.model.service import Service
from eventlib.replay.journal import TaskJournal
from eventlib.replay.key_history import key_history
from eventlib.replay.steps import HistoryStep
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.keyed_state import KeyLocation
from eventlib.runtime.processor import stalled
from eventlib.runtime.records import EFFECT, POSITION_KEY, STATE, JournalEntry, Positions, effect_key, state_key
from eventlib.values import to_ms

_AT_ONCE = 2_000
_SAYS = 3
"""Where a record's columns begin, after its topic, partition and offset."""
_NOTED = {"park", "release", "edit", "discard", "skip", "switch"}
"""Steps after which a changelog has records that the steps alone do not tell."""


class _Around(NamedTuple):
    """What stands around a damaged record: the keys that are written again later, and the times between which it was.

    `key` is the one that stands there, None when that is no key, or of another record that was read in its place.
    """

    later: Collection[str]
    since_ms: int
    until_ms: int
    key: str | None


async def rebuilt(log: EventLog, service: Service, partition: int, damaged: DamagedRecord) -> Sequence[Record]:
    """Return what the changelog's keys that a damaged record may have been about have to say now.

    Nothing, when all of them are written again later. Guarantee: today's code comes to the states that it is proved
    against: those that are not damaged, and the sequence numbers of all that was said.
    Raises: DamagedRecord when that cannot be proved; it says why.
    """
    seen = EventLog(SkippingReader(log.port), log.codec, log.choreography)
    try:
        around = await _around(seen.port, (service.changelog.name, partition), damaged)
        return await _Rebuilding(log, seen, service, partition, around).all()
    except (ContractError, DamagedRecord) as error:
        why = f"{damaged.reason}, and what it said cannot be proved from the journal: {error}"
        raise replace(damaged, reason=why) from error


async def _around(port: Log, place: TopicPartition, damaged: DamagedRecord) -> _Around:
    stands = damaged.record if isinstance(damaged.record, Record) and damaged.record.key else None
    later, since_ms, until_ms = dict[str, None](), 0, -1
    async for records in chunks(port, place, 0):
        for record in records:
            if stands is not None and record[_SAYS:] == stands[_SAYS:]:
                stands = None
            if record.offset >= damaged.resume_at:
                later[key_text(record)] = None
                until_ms = record.timestamp_ms if until_ms < 0 and _is_timed(record) else until_ms
            elif _is_timed(record):
                since_ms = max(since_ms, record.timestamp_ms)
    return _Around(
        later, since_ms, until_ms if until_ms >= 0 else 1 << 62, None if stands is None else key_text(stands)
    )


def _is_timed(record: Record) -> bool:
    """Tell whether a record has the time of its transaction: pending effects have their requests'."""
    return key_text(record).startswith((STATE, POSITION_KEY))


class _Rebuilding:
    """One task's changelog records, from its journal."""

    def __init__(self, log: EventLog, seen: EventLog, service: Service, partition: int, around: _Around) -> None:
        self._log = log
        self._seen = seen
        self._service = service
        self._partition = partition
        self._around = around
        self._positions = Positions()
        self._names: dict[tuple[str, str], None] = {}
        self._noted: set[str] = set()
        self._deciders = {decider.name: decider for decider in service.deciders}

    async def all(self) -> list[Record]:
        """Return what the journal says about the keys that the damaged record may have had."""
        await self._read_journal()
        key = self._around.key
        known = {state_key(*name): name for name in self._names}
        found = list[Record]()
        if key in known:
            names: Iterable[tuple[str, str]] = [known[key]]
        elif key == POSITION_KEY:
            names = ()
        elif self._noted and not (key or "").startswith(EFFECT):
            raise ContractError(f"it may have been about what the journal calls {', '.join(sorted(self._noted))}")
        else:
            names = self._names
        if POSITION_KEY not in self._around.later:
            found.append(self._record(POSITION_KEY, self._positions))
        for name in names:
            found += await self._of_key(*name)
        return [record for record in found if key_text(record) not in self._around.later]

    async def _read_journal(self) -> None:
        reader = InputReader(self._seen, self._service)
        journal, around = TaskJournal(self._log, self._service, self._partition), self._around
        async for _, entry in journal.entries():
            self._move(entry)
            if around.since_ms <= entry.at_ms <= around.until_ms:
                self._noted |= _NOTED & {
                    step.kind for step in entry.steps if step.topic or step.kind in {"skip", "park"}
                }
                for step in entry.steps:
                    if step.decider:
                        self._names[step.decider, step.key] = None
                    elif step.kind == "run":
                        await self._take(reader, step.topic, step.first, step.last)

    async def _take(self, reader: InputReader, topic: str, first: int, last: int) -> None:
        while first <= last and (
            records := await self._log.port.read(topic, self._partition, first, min(_AT_ONCE, last - first + 1))
        ):
            first = records[-1].offset + 1
            for record in records:
                deciders = reader.deciders_of(record) if record.offset <= last else None
                if deciders is not None:
                    own = record
                    if topic in reader.foreign:
                        own, _ = await self._log.codec.known(partial(reader.read, record))
                    self._names.update(((decider.name, key_text(own)), None) for decider in deciders)

    def _move(self, entry: JournalEntry) -> None:
        """Go on to where the task stood after an entry."""
        now = self._positions
        after, past, first_ms = {**now.next}, {**now.past}, now.first_ms
        for step in entry.steps:
            match step.kind:
                case "begin":
                    first_ms = first_ms or entry.at_ms
                    after[step.topic], past[step.topic] = step.first, step.last
                case "run":
                    after[step.topic] = step.last + 1
                case "reset":
                    after[step.topic] = step.last
        past = {topic: end for topic, end in past.items() if after[topic] < end}
        self._positions = Positions(after, entry.at_ms, first_ms, past)

    async def _of_key(self, name: str, key: str) -> list[Record]:
        decider = self._deciders[name]
        try:
            past = await key_history(self._seen, decider, key, is_newest=False)
        except UnknownKey:
            return []
        if past.doubt:
            raise ContractError(past.doubt)
        last, topic = past.steps[-1], self._service.changelog.name
        source = f"{self._service.speaks_as}/{name}"
        place = KeyLocation(topic, self._partition, to_ms(last.at))
        entry = last.entry_after
        state = entry.record((name, key), place, source, self._log.codec)
        return [state, *(self._effect(*each) for each in _effects(decider, past.steps).items())]

    def _effect(self, request_id: str, pending: Record | None) -> Record:
        topic, key = self._service.changelog.name, effect_key(request_id).encode()
        if pending is None:
            return Record(topic, self._partition, -1, self._positions.at_ms, key, None)
        return Record(topic, self._partition, -1, pending.timestamp_ms, key, *pending[5:])

    def _record(self, key: str, content: Positions) -> Record:
        value, at_ms = self._log.codec.encode(content), self._positions.at_ms
        topic = self._service.changelog.name
        return Record(topic, self._partition, -1, at_ms, key.encode(), value, type=wire_name_of(type(content)))


def _effects(decider: Decider[Any], steps: Sequence[HistoryStep[Any]]) -> dict[str, Record | None]:
    """Return the requests of a key's effects as the changelog has them: pending, parked, or None when they are over."""
    found = dict[str, Record | None]()
    for step in steps:
        request = None if step.input is None else step.input.record
        match step.kind:
            case "answered" if request is not None:
                found[request.event_id] = None
            case "discarded" if request is not None and request.event_id in found and not step.was_parked:
                found[request.event_id] = None
            case "stalled" if request is not None:
                found[request.event_id] = stalled(request, step.reason, step.code_version)
            case "retried" if request is not None:
                found[request.event_id] = request._replace(headers=())
            case "handled" | "deadline":
                asked = [each.record for each in step.said if type(each.event) in decider.effects]
                found.update((each.event_id, each._replace(headers=())) for each in asked)
    return found
