"""The records of one task while its past is folded: inputs that are not consumed yet, outputs that are not claimed yet."""

from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any

from analytics.audit.application import Run
from eventlib.codec.base import UnknownSchema
from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.claims import EmissionKey, claimed
from eventlib.replay.partition_buffer import UNREAD, Buffered, Item
from eventlib.runtime.records import TaskClock

_CHUNK = 1_000
_WORTH_TRIMMING = 512


class TaskRecords:
    """The inputs and outputs of one task; `ends` are those of the inputs.

    Memory holds what is not consumed yet, and the outputs of one time.
    """

    def __init__(
        self,
        opened: EventLog,
        run: Run,
        task: tuple[Service, int],
        ends: Mapping[TopicPartition, int],
        clock: TaskClock,
    ) -> None:
        service, self._partition = task
        self._clock = clock
        self._log, self._run, self._ends = opened, run, ends
        self._inputs = {topic.name: _Inputs() for topic in service.inputs}
        self._emitted_to = {contract_of(event).topic.name for event in service.emits}
        self._outputs: dict[EmissionKey, list[Buffered]] = {}
        self._outputs_ms = -1
        self._left: dict[str, int] = {}
        self.at_ms = 0
        self.external = opened.external.topics

    def consume(self, item: Buffered) -> None:
        """Take a possible input."""
        self._inputs[item.record.topic].add(item)

    def emit(self, item: Buffered) -> None:
        """Take an output."""
        record = item.record
        if self._clock.time(record.timestamp_ms) < self._clock.time(self.at_ms):
            return  # of an entry that an earlier fold has folded
        if record.timestamp_ms != self._outputs_ms:
            self._leave()
            self._outputs_ms = record.timestamp_ms
        by = record.source, record.subject, record.causation_id
        known = self._outputs.get(by)
        if known is None:
            self._outputs[by] = [item]
        else:
            known.append(item)

    def begin(self, at_ms: int) -> None:
        """Begin with an entry of a time: no earlier output will be claimed."""
        if at_ms != self.at_ms:
            self._left.clear()
        if self._clock.time(self._outputs_ms) < self._clock.time(at_ms):
            self._outputs = {}
        self.at_ms = at_ms

    def take(self, topic: str, first: int, last: int) -> Sequence[Buffered]:
        """Return the inputs in a range of offsets; none of a topic that the current code does not consume."""
        inputs = self._inputs.get(topic)
        return () if inputs is None else inputs.take(first, last)

    def claim(self, by: EmissionKey, cause_id: str, decider: str) -> Sequence[Item]:
        """Remove and return the outputs of a cause, decoded, in their order."""
        if not self._outputs:
            return ()
        return [(item.record, self.event(item)) for item in claimed(self._outputs, by, cause_id, decider)]

    def claim_of_key(self, source: str, key: str, cause_id: str) -> Sequence[Item]:
        """Remove and return the outputs of a cause that they do not name, decoded."""
        decider = source.partition("/")[2]
        of_key = [by for by in self._outputs if by[:2] == (source, key)]
        return next((found for by in of_key if (found := self.claim(by, cause_id, decider))), ())

    def drop_outputs(self) -> None:
        """Forget the outputs of this time."""
        self._outputs = {}

    def seek(self, topic: str, offset: int) -> None:
        """Go on at any offset; what was passed is read from the log again."""
        inputs = self._inputs.get(topic)
        if inputs is None:
            return
        end, inputs.next = inputs.next, offset
        while offset < end:
            records = self._run(self._log.port.read(topic, self._partition, offset, min(_CHUNK, end - offset)))
            if not records:
                break
            for record in records:
                inputs.add(Buffered(record))
            offset = records[-1].offset + 1

    # --- events

    def event(self, item: Buffered) -> Any:
        """Return an item's event, or why it has none."""
        if item.event is UNREAD:
            item.event = self._decoded(item.record)
        return item.event

    def seen(self, item: Buffered) -> Record:
        """Return an item's record as its deciders see it: an external one with its event's key."""
        record = item.record
        if record.topic not in self.external:
            return record
        event = self.event(item)
        return record if isinstance(event, UndecodableRecord) else self._log.external.settled(record, event)

    def type_of(self, record: Record) -> str | None:
        """Return the type of the event in a record."""
        return self._log.external.type_of(record) if record.topic in self.external else record.type

    def _decoded(self, record: Record) -> Any:
        try:
            try:
                event = self._log.decode(record)
            except UnknownSchema:
                event = self._run(self._log.decode_now(record))
        except UndecodableRecord as error:
            return error
        if event is None:
            reason = f"{record.type} is not an event of this choreography"
            return UndecodableRecord(reason, record.topic, record.partition, record.offset)
        return event

    # --- from one fold to the next

    def restore(self, at_ms: int, positions: Mapping[str, int]) -> None:
        """Go on where an earlier fold has ended: after a time, at these offsets of the inputs."""
        self.at_ms = at_ms
        for topic in positions.keys() & self._inputs.keys():
            self._inputs[topic].next = positions[topic]

    def positions(self) -> dict[str, int]:
        """Return the next offset of each topic that was begun."""
        return {topic: inputs.next for topic, inputs in self._inputs.items() if inputs.next}

    def outputs_from(self) -> dict[str, int]:
        """Return from where on a later fold reads outputs: what nothing has claimed yet, and what is beyond the ends."""
        if self._clock.time(self._outputs_ms) >= self._clock.time(self.at_ms):
            self._leave()
        places = {f"{topic}/{n}": end for (topic, n), end in self._ends.items() if topic in self._emitted_to}
        return {place: min(end, self._left.get(place, end)) for place, end in places.items()}

    def _leave(self) -> None:
        """Forget the outputs that nothing has claimed, and remember from where on to read them again."""
        for items in self._outputs.values():
            for record in (item.record for item in items):
                place = f"{record.topic}/{record.partition}"
                self._left[place] = min(record.offset, self._left.get(place, record.offset))
        self._outputs = {}


class _Inputs:
    """The records of one topic that are not consumed yet, in order; `next` is the offset after the last consumed one."""

    __slots__ = ("_at", "_items", "next")

    def __init__(self) -> None:
        self.next = 0
        self._items: list[Buffered] = []
        self._at = 0

    def add(self, item: Buffered) -> None:
        """Add a record, unless it was consumed."""
        offset, items = item.record.offset, self._items
        if offset < self.next:
            return
        if items and offset < items[-1].record.offset:
            insort(items, item, lo=self._at, key=_offset)
        else:
            items.append(item)

    def take(self, first: int, last: int) -> list[Buffered]:
        """Return the records from `first` up to `last`, and pass over those before."""
        items, at = self._items, self._at
        while at < len(items) and items[at].record.offset < first:
            at += 1
        begin = at
        while at < len(items) and items[at].record.offset <= last:
            at += 1
        found = items[begin:at]
        if at > _WORTH_TRIMMING:
            del items[:at]
            at = 0
        self._at, self.next = at, max(self.next, last + 1)
        return found


def _offset(item: Buffered) -> int:
    return item.record.offset
