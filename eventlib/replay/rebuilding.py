"""Rebuilds a damaged changelog record from the journal, the inputs and the outputs, if that is provably exact."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from eventlib.errors import ContractError, DamagedRecord, UnknownKey
from eventlib.eventlog import EventLog
from eventlib.log.base import Log, TopicPartition
from eventlib.log.reading import SkippingReader, chunks, records_between
from eventlib.model.decider import Decider
from eventlib.model.event import contract_of
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.replay.journal import TaskJournal
from eventlib.replay.key_history import key_history
from eventlib.replay.player import holds_in
from eventlib.replay.steps import HistoryStep
from eventlib.runtime.bootstrap import NO_PAST
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.keyed_state import NO_MEMORY, KeyLocation, moved_record
from eventlib.runtime.processor import body_hash, stalled
from eventlib.runtime.records import (
    POSITION_KEY,
    JournalEntry,
    Pause,
    Positions,
    changelog_key,
    effect_key,
    pause_key,
    state_key,
)
from eventlib.runtime.transaction import Hold
from eventlib.values import to_ms

_UNPROVABLE = {"park", "release", "edit", "discard", "skip", "switch"}
"""Kinds of steps that write changelog records which cannot be derived from the journal."""


class _Around(NamedTuple):
    """What surrounds a damaged record: the keys written again later, and the times between which it was written.

    `key` is the record's own; None if it has none, or if another record was read in its place.
    """

    later: Collection[str]
    since_ms: int
    until_ms: int
    key: str | None


async def rebuilt(log: EventLog, service: Service, partition: int, damaged: DamagedRecord) -> Sequence[Record]:
    """Return the current records of the changelog keys that a damaged record may have had.

    Empty if all of them are written again later. Guarantee: proved against the undamaged states and the sequence numbers
    of all outputs, which the current code reproduces.
    Raises: DamagedRecord when that cannot be proved, with the reason.
    """
    readable = EventLog(SkippingReader(log.port), log.codec, log.choreography)
    try:
        around = await _around(readable.port, (service.changelog.name, partition), damaged)
        return await _Rebuilding(log, readable, service, partition, around).all()
    except (ContractError, DamagedRecord) as error:
        why = f"{damaged.reason}, and its content cannot be proved from the journal: {error}"
        raise replace(damaged, reason=why) from error


async def _around(port: Log, changelog: TopicPartition, damaged: DamagedRecord) -> _Around:
    there = damaged.record if isinstance(damaged.record, Record) and damaged.record.key else None
    later, since_ms, until_ms = dict[str, None](), 0, -1
    async for records in chunks(port, changelog, 0):
        for record in records:
            if there is not None and record.placed(there.offset) == there:
                there = None
            if record.offset >= damaged.resume_at:
                later[key_text(record)] = None
                until_ms = record.timestamp_ms if until_ms < 0 and _is_timed(record) else until_ms
            elif _is_timed(record):
                since_ms = max(since_ms, record.timestamp_ms)
    key = None if there is None else key_text(there)
    return _Around(later, since_ms, until_ms if until_ms >= 0 else 1 << 62, key)


def _is_timed(record: Record) -> bool:
    """Return whether a record has its transaction's time: pending effects have their requests'."""
    return changelog_key(key_text(record)).kind in {"state", POSITION_KEY}


class _Rebuilding:
    """Rebuilds one task's changelog records from its journal."""

    def __init__(self, log: EventLog, readable: EventLog, service: Service, partition: int, around: _Around) -> None:
        self._log = log
        self._readable = readable
        self._service = service
        self._partition = partition
        self._around = around
        self._positions = Positions()
        self._names: dict[tuple[str, str], None] = {}
        self._unprovable: set[str] = set()
        self._parked: set[tuple[str, str]] = set()
        self._pauses: dict[str, Pause] = {}
        self._paused: dict[str, None] = {}
        self._deciders = {decider.name: decider for decider in service.deciders}

    async def all(self) -> list[Record]:
        """Return the records of the keys that the damaged record may have had."""
        await self._read_journal()
        key = self._around.key
        known = {state_key(*name): name for name in self._names}
        found = list[Record]()
        names: Iterable[tuple[str, str]]
        about = changelog_key(key or "")
        if about.kind == "request":
            names = [(about.decider, about.key)]
        elif key in known:
            names = [known[key]]
        elif key == POSITION_KEY or key in self._paused:
            names = ()
        elif self._unprovable and about.kind != "effect":
            raise ContractError(f"it may belong to journal steps of kind {', '.join(sorted(self._unprovable))}")
        else:
            names = self._names
        if POSITION_KEY not in self._around.later:
            found.append(self._record(POSITION_KEY, self._positions))
        found += [self._pause(name, self._pauses.get(name)) for name in self._paused]
        for name in names:
            found += await self._of_key(*name)
        return [record for record in found if key_text(record) not in self._around.later]

    async def _read_journal(self) -> None:
        reader = InputReader(self._readable, self._service)
        journal, around = TaskJournal(self._log, self._service, self._partition), self._around
        async for _, entry in journal.entries():
            self._advance(entry)
            is_around = around.since_ms <= entry.at_ms <= around.until_ms
            for hold in await holds_in(entry, self._log, (self._service.control.name, self._partition)):
                self._hold(hold, entry.at_ms, is_around=is_around)
            self._parked.update((step.decider, step.key) for step in entry.steps if step.kind == "park")
            if is_around:
                self._unprovable |= _UNPROVABLE & {
                    step.kind for step in entry.steps if step.topic or step.kind in {"skip", "park"}
                }
                for step in entry.steps:
                    if step.decider:
                        self._names[step.decider, step.key] = None
                    elif step.kind == "run":
                        await self._add_names(reader, step.topic, step.first, step.last)

    def _hold(self, hold: Hold, at_ms: int, *, is_around: bool) -> None:
        """Begin or end a pause, as the task did: what was there already, or was not, changed nothing."""
        pause, name = hold.pause, pause_key(hold.pause)
        if (name in self._pauses) is not hold.ends and (pause.kind != "limit" or hold.ends):
            return
        if hold.ends:
            del self._pauses[name]
        else:
            self._pauses[name] = replace(pause, since_ms=at_ms)
        if is_around:
            self._paused[name] = None
            if (pause.decider, pause.key) in self._parked:
                self._unprovable.add("pause of a parked key")

    async def _add_names(self, reader: InputReader, topic: str, first: int, last: int) -> None:
        async for record in records_between(self._log.port, (topic, self._partition), first, last + 1):
            deciders, own = reader.deciders_of(record), record
            if deciders is not None:
                if topic in reader.external:
                    own, _ = await self._log.codec.known(partial(reader.read, record))
                self._names.update(((decider.name, key_text(own)), None) for decider in deciders)

    def _advance(self, entry: JournalEntry) -> None:
        """Advance the positions past an entry."""
        now = self._positions
        after, past, first_ms = {**now.next}, {**now.past}, now.first_ms
        if not now.next and entry.steps[0].detail != NO_PAST:
            first_ms = entry.at_ms
        for step in entry.steps:
            match step.kind:
                case "begin":
                    after[step.topic], past[step.topic] = step.first, step.last
                case "run":
                    after[step.topic] = step.last + 1
                case "reset" | "lose":
                    after[step.topic] = step.last
                case "clock":
                    now = now.with_facts(clock=now.clock.with_reset(step.first, step.last, entry.at_ms))
        past = {topic: end for topic, end in past.items() if after[topic] < end}
        self._positions = Positions(after, entry.at_ms, first_ms, past, now.topics)

    async def _of_key(self, name: str, key: str) -> list[Record]:
        decider = self._deciders[name]
        try:
            history = await key_history(self._readable, decider, key, is_newest=False)
        except UnknownKey:
            return []
        if history.doubt:
            raise ContractError(history.doubt)
        last, topic = history.steps[-1], self._service.changelog.name
        source = f"{self._service.emits_as}/{name}"
        location = KeyLocation(topic, self._partition, to_ms(last.at))
        entry = last.entry_after
        state = entry.record((name, key), location, source, self._log.codec)
        effects = [self._effect(*each) for each in _effects(decider, history.steps).items()]
        return [state, *effects, *self._requests(decider, key, history.steps)]

    def _requests(self, decider: Decider[Any], key: str, steps: Sequence[HistoryStep[Any]]) -> Iterator[Record]:
        """Yield the entries of requests that the damaged record may have been."""
        memory, around = NO_MEMORY, self._around
        is_request = changelog_key(around.key or "").kind == "request"
        for step in steps:
            event, at_ms = None if step.input is None else step.input.event, to_ms(step.at)
            if step.kind == "switched":
                memory = step.entry_after.memory
            if step.kind != "handled" or step.input is None or event is None or not contract_of(type(event)).request:
                continue
            record = step.input.record
            answered = record.event_id, body_hash(record), at_ms, contract_of(type(event)).once_for
            memory, moved = memory.with_answered(*answered).bounded(at_ms)
            is_around = around.since_ms <= at_ms <= around.until_ms
            for each in moved:
                own = moved_record(decider.name, key, each, at_ms)
                if key_text(own) == around.key if is_request else is_around:
                    yield own.replace(topic=self._service.changelog.name, partition=self._partition)

    def _effect(self, request_id: str, pending: Record | None) -> Record:
        topic, key = self._service.changelog.name, effect_key(request_id).encode()
        if pending is None:
            return Record(topic, self._partition, -1, self._positions.at_ms, key, None)
        return Record(topic, self._partition, -1, pending.timestamp_ms, key, *pending.astuple()[5:])

    def _pause(self, name: str, pause: Pause | None) -> Record:
        if pause is None:
            return Record(self._service.changelog.name, self._partition, -1, self._positions.at_ms, name.encode(), None)
        return self._record(name, pause).replace(subject=pause.key)

    def _record(self, key: str, content: Positions | Pause) -> Record:
        value, at_ms = self._log.codec.encode(content), self._positions.at_ms
        topic = self._service.changelog.name
        return Record(topic, self._partition, -1, at_ms, key.encode(), value, type=wire_name_of(type(content)))


def _effects(decider: Decider[Any], steps: Sequence[HistoryStep[Any]]) -> dict[str, Record | None]:
    """Return the effect requests of a key as the changelog has them: pending, parked, or None if over."""
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
                found[request.event_id] = request.replace(headers=())
            case "handled" | "deadline":
                requests = [each.record for each in step.emitted if type(each.event) in decider.effects]
                found.update((each.event_id, each.replace(headers=())) for each in requests)
    return found
