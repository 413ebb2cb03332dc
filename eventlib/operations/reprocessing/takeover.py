"""One task's takeover of a rerun's states, as the records of one transaction."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eventlib.errors import ContractError
from eventlib.eventlog import latest_copy
from eventlib.log.base import Log
from eventlib.model.event import contract_of
from eventlib.model.evolution import wire_name_of
from eventlib.model.identity import derived_id
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.operations.reprocessing.comparison import side_by_side
from eventlib.operations.reprocessing.follower import Follower
from eventlib.operations.reprocessing.metadata import CutoverMetadata, metadata_record
from eventlib.operations.reprocessing.output_diff import OriginalOutput
from eventlib.operations.reprocessing.pending_inputs import note_of, unmarked
from eventlib.operations.reprocessing.running import Rerun
from eventlib.runtime.parking.parked import SkippedInput, waiting_behind
from eventlib.runtime.processor import stalled
from eventlib.runtime.records import (
    EFFECT,
    PARKED,
    POSITION_KEY,
    REQUEST,
    SKIP,
    STATE,
    JournalEntry,
    ParkedKey,
    Positions,
    Step,
    changelog_key,
    effect_key,
    skip_key,
    state_key,
)
from eventlib.runtime.restore import positions_in
from eventlib.runtime.state import TaskState
from eventlib.values import now_ms


@dataclass(frozen=True)
class CutoverPlan:
    """Which events are emitted at the cutover, which stay, and which are consumed already.

    `emitted` are the events that only the rerun emitted, by its task, in order. `kept` are the service's events that are
    missing or changed in the rerun; they stay. `names` has new ids for events whose ids the service has used for something
    else. `consumed` are the ids, by task, of events that the rerun's task has consumed and the service's has not.
    """

    emitted: Mapping[int, Sequence[Record]]
    kept: Sequence[OriginalOutput]
    names: Mapping[str, str]
    consumed: Mapping[int, Sequence[str]]

    def named(self, record: Record) -> Record:
        """Return a record with the ids under which events are emitted."""
        names = self.names
        event_id, cause = record.id, record.causation_id
        return record.replace(
            id=names.get(event_id, event_id) if event_id else event_id,
            causation_id=names.get(cause, cause) if cause else cause,
        )


async def cutover_plan(rerun: Rerun) -> CutoverPlan:
    """Plan for all outputs up to now."""
    await rerun.outputs.catch_up()
    changed = rerun.outputs.changed(await rerun.times())
    new = [(pair, pair.new) for pair in changed if pair.new is not None and not pair.is_one_fact]
    names = {
        record.event_id: derived_id(f"{record.event_id}\x1f{record.type}", "rerun", rerun.run.name, 0)
        for pair, record in new
        if pair.old is not None and pair.old.event_id == record.event_id
    }
    emitted, consumed = defaultdict[int, list[Record]](list), defaultdict[int, list[str]](list)
    for _, record in new:
        if _is_consumed(rerun, record):
            consumed[record.partition].append(names.get(record.event_id, record.event_id))
        if note_of(record).task in rerun.followers:
            emitted[note_of(record).task].append(record)
    for old, moved in rerun.outputs.moved:
        if old is not None and moved is not None and _is_consumed(rerun, moved) and not _is_past(rerun, old):
            consumed[old.partition].append(old.event_id)
    for records in emitted.values():
        records.sort(key=lambda record: (record.timestamp_ms, record.sequence or 0))
    return CutoverPlan(emitted, [pair for pair in changed if pair.old is not None], names, consumed)


def _is_consumed(rerun: Rerun, emitted: Record) -> bool:
    """Return whether a task that has not taken over yet has consumed an event of the rerun."""
    consumer = rerun.followers.get(emitted.partition)
    topic = rerun.pending.input_topic(emitted.topic)
    if consumer is None or topic is None:
        return False
    offset = note_of(emitted).offset
    if offset is None:
        return emitted.offset < consumer.task.positions.next.get(emitted.topic, 0)
    return offset < consumer.task.positions.next.get(topic, 0)


def _is_past(rerun: Rerun, recorded: Record) -> bool:
    consumer = rerun.followers.get(recorded.partition)
    return consumer is None or recorded.offset < consumer.task.positions.next.get(recorded.topic, 0)


class Takeover:
    """Collects what a task writes at its takeover: events, changelog records, and a journal step.

    `states` counts the changed keys, `requested` the effects that only the rerun requested, `asked` those that only the
    service requested.
    """

    def __init__(
        self, rerun: Rerun, follower: Follower, old: TaskState, plan: CutoverPlan, *, runs_effects: bool
    ) -> None:
        self.at_ms = 0
        self.emitted = 0
        self.states = 0
        self.requested = 0
        self.asked = 0
        self._rerun = rerun
        self._service: Service = rerun.service
        self._port: Log = rerun.log.port
        self._task = follower.partition
        self._positions = follower.task.positions
        self._old = old
        self._new = follower.task.state
        self._plan = plan
        self._runs_effects = runs_effects
        self._codec = rerun.log.codec
        self._sequences = Counter[tuple[str, str]]()
        self._home = {rerun.run.output_topic(topic).name: topic.name for topic in rerun.run.outputs}

    async def records(self, why: str) -> list[Record]:
        """Return all records of the takeover's transaction."""
        before = await positions_in(self._old, self._codec)
        self.at_ms = max(now_ms(), before.at_ms, self._positions.at_ms)
        self._load_sequences()
        changes = [*self._states(), *self._requests(), *self._effects(), *self._skips()]
        events, parked = [*self._events()], await self._parked()
        positions = self._after(before)
        steps = [Step("switch", self._rerun.run.changelog.name, detail=why)]
        steps += [
            Step("reset", topic, offset, positions.next[topic], detail=why)
            for topic, offset in before.next.items()
            if positions.next[topic] != offset
        ]
        entry = JournalEntry(self._rerun.context.code_version, self.at_ms, tuple(steps), self.emitted)
        own = [
            self._own(self._service.changelog.name, POSITION_KEY.encode(), positions),
            self._own(self._service.journal.name, None, entry),
            metadata_record(self._rerun.log, self._rerun.run, self._task, CutoverMetadata(self.at_ms, why), self.at_ms),
        ]
        return [*events, *changes, *parked, *own]

    def _after(self, before: Positions) -> Positions:
        """Return the task's new positions: the rerun's, which has consumed everything that the task has.

        The next transaction is later than this one, so that later outputs are distinguished from earlier ones.
        """
        new = self._positions
        read = {t.name: new.next[t.name] for t in self._service.inputs if t.name in new.next}
        next_offsets = {**before.next, **read}
        past = {t: end for t, end in {**before.past, **new.past}.items() if next_offsets.get(t, end) < end}
        return Positions(next_offsets, self.at_ms + 1, before.first_ms, past)

    def _load_sequences(self) -> None:
        """Look up each key's event count: the events emitted now continue it."""
        for name in {_name(record) for record in self._plan.emitted.get(self._task, ())}:
            before = self._old.get(state_key(*name))
            self._sequences[name] = 0 if before is None else before.sequence or 0

    def _events(self) -> Iterator[Record]:
        log = self._rerun.log
        for record in self._plan.emitted.get(self._task, ()):
            sequence = self._sequences[_name(record)] = self._sequences[_name(record)] + 1
            named = self._plan.named(unmarked(record))
            event = named.replace(topic=self._home[record.topic], offset=-1, timestamp_ms=self.at_ms, sequence=sequence)
            yield event
            self.emitted += 1
            contract = contract_of(log.choreography.event(event.type or ""))
            if contract.topic.latest:
                yield latest_copy(event, tombstone=contract.tombstone)

    def _states(self) -> Iterator[Record]:
        emitted = Counter(_name(record) for record in self._plan.emitted.get(self._task, ()))
        for key, before, after in side_by_side(self._old, self._new, STATE):
            about = changelog_key(key)
            name = about.decider, about.key
            if after is None:
                self.states += 1
                yield self._changelog_record(key, None)
                continue
            sequence = 0 if before is None else before.sequence or 0
            taken = self._plan.named(after).replace(sequence=sequence + emitted[name])
            if before is None or before.astuple()[5:] != taken.astuple()[5:]:
                self.states += 1
                yield self._changelog_record(key, taken)

    def _requests(self) -> Iterator[Record]:
        """Take over the requests that have entries of their own: as a state's, in the place of those that there were."""
        for key, before, after in side_by_side(self._old, self._new, REQUEST):
            if after is None or before is None or before.headers != after.headers:
                yield self._changelog_record(key, after)

    def _effects(self) -> Iterator[Record]:
        for _, before, after in side_by_side(self._old, self._new, EFFECT):
            request = None if after is None else self._plan.named(after)
            is_other = request is not None and after is not None and request.id != after.id
            if before is not None and (request is None or is_other):
                self.asked += 1  # the request was emitted, and its answer must be consumed
            if request is not None and (before is None or is_other):
                if not request.headers:
                    self.requested += 1
                    request = (
                        request
                        if self._runs_effects
                        else stalled(request, self._reason(), self._rerun.context.code_version)
                    )
                yield self._changelog_record(effect_key(request.event_id), request)

    def _reason(self) -> str:
        return f"only the rerun {self._rerun.run.name} requested it: retry it to run it"

    def _skips(self) -> Iterator[Record]:
        for key, before, after in side_by_side(self._old, self._new, SKIP):
            if before is None and after is not None:
                yield self._changelog_record(key, after)
        for event_id in self._plan.consumed.get(self._task, ()):
            skipped = SkippedInput(event_id, f"consumed already, in {self._rerun.run.name}", once=True)
            yield self._own(self._service.changelog.name, skip_key(event_id).encode(), skipped)

    async def _parked(self) -> list[Record]:
        """Unpark what the rerun could handle; what neither can handle stays parked.

        Raises: ContractError if only the rerun could not: a retry would emit again what the service has emitted.
        """
        found = list[Record]()
        for key, before, after in side_by_side(self._old, self._new, PARKED):
            if after is None:
                found.append(self._changelog_record(key, None))
                continue
            parked = self._codec.decode(ParkedKey, after.value or b"")
            waiting = await self._waiting(parked, self._rerun.run.parked.name)
            known = None if before is None else self._codec.decode(ParkedKey, before.value or b"")
            waits_already = set() if known is None else await self._waiting(known, self._service.parked.name)
            if not waiting <= waits_already:
                raise ContractError(
                    f"{self._rerun.run.name} cannot handle what {self._service.name} has handled: {parked.decider} "
                    f"{parked.key} ({parked.reason}). Fix the code, and run all of it again under another name"
                )
        return found

    async def _waiting(self, parked: ParkedKey, topic: str) -> set[str]:
        return {each.event_id for each in await waiting_behind(parked, (topic, self._task), self._port)}

    def _changelog_record(self, key: str, record: Record | None) -> Record:
        empty = Record("", 0, -1, 0, None, None) if record is None else record
        changelog = self._service.changelog.name
        return empty.replace(
            topic=changelog, partition=self._task, offset=-1, timestamp_ms=self.at_ms, key=key.encode()
        )

    def _own(self, topic: str, key: bytes | None, content: object) -> Record:
        value = self._codec.encode(content)
        return Record(topic, self._task, -1, self.at_ms, key, value, type=wire_name_of(type(content)))


def _name(record: Record) -> tuple[str, str]:
    return (record.source or "").partition("/")[2], record.subject or ""
