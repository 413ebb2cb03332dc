"""Events that a rerun emitted and its own deciders have not consumed yet.

If the service emitted the same event, the rerun's replaces it among the inputs; otherwise the event is consumed after all
inputs recorded before it was emitted. A header of each event records which of the two applies.
"""

from collections import deque
from itertools import takewhile
from typing import NamedTuple

from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.reading import chunks
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.records import Positions

_HEADER = "rerun"


class PendingInput(NamedTuple):
    """The header of each event of a rerun: the emitting task, and which event of the service it replaces (`instead`).

    `offset` is the position of the replaced event in the input topic, where this one is consumed; None if that event is
    elsewhere, consumed already, or does not exist.
    """

    task: int
    instead: str
    offset: int | None


def marked(emitted: Record, note: PendingInput) -> Record:
    """Return an event of a rerun with its header."""
    offset = "" if note.offset is None else str(note.offset)
    return emitted.replace(headers=(*emitted.headers, (_HEADER, f"{note.task}/{offset}/{note.instead}".encode())))


def note_of(emitted: Record) -> PendingInput:
    """Parse the header of an event of a rerun."""
    text = next(value for name, value in emitted.headers if name == _HEADER).decode()
    task, offset, instead = text.split("/", 2)
    return PendingInput(int(task), instead, int(offset) if offset else None)


def unmarked(emitted: Record) -> Record:
    """Return an event as the service would have emitted it."""
    return emitted.replace(headers=tuple(header for header in emitted.headers if header[0] != _HEADER))


class PendingInputs:
    """The events of a rerun that its own deciders have not consumed, by input partition."""

    def __init__(self, log: EventLog, run: Service) -> None:
        self._log = log
        inputs = {topic.name for topic in run.inputs}
        self.topics = {topic.name: run.output_topic(topic).name for topic in run.outputs if topic.name in inputs}
        """The topics that the service both emits to and consumes, with the rerun's shadow topic of each."""
        self._input_topic = {shadow: topic for topic, shadow in self.topics.items()}
        self._replacing: dict[TopicPartition, dict[int, Record]] = {}
        self._added: dict[TopicPartition, deque[Record]] = {}

    def input_topic(self, shadow: str) -> str | None:
        """Return the input topic that this shadow topic replaces; None if the rerun does not consume it."""
        return self._input_topic.get(shadow)

    def add(self, emitted: Record) -> None:
        """Add an event that is on the log now."""
        topic = self._input_topic.get(emitted.topic)
        if topic is None:
            return
        partition = topic, emitted.partition
        offset = note_of(emitted).offset
        if offset is None:
            self._added.setdefault(partition, deque()).append(unmarked(emitted))
        else:
            self._replacing.setdefault(partition, {})[offset] = unmarked(emitted)

    def has(self, recorded: Record) -> bool:
        """Return whether the rerun has a replacement for this event of the service."""
        return recorded.offset in self._replacing.get(recorded.topic_partition, {})

    def take(self, recorded: Record) -> list[Record]:
        """Take what replaces this event of the service: the rerun's event, after added ones emitted before it."""
        replacing = self._replacing.get(recorded.topic_partition, {}).pop(recorded.offset, None)
        if replacing is None:
            return []
        added = self._added.get(recorded.topic_partition, deque())
        before = [added.popleft() for _ in [*takewhile(lambda each: each.offset < replacing.offset, added)]]
        return [*before, replacing.replace(topic=recorded.topic, offset=recorded.offset)]

    def next_added(self, topic: str, partition: int) -> Record | None:
        """Return a task's next added event: one that the service did not emit."""
        waiting = self._added.get((topic, partition))
        return waiting[0] if waiting else None

    def consumed(self, added: Record) -> None:
        """Remove the next added event."""
        self._added[self._input_topic[added.topic], added.partition].popleft()

    def skip(self, topic: str, partition: int, to: int) -> None:
        """Drop the replacements before an offset: an operator has skipped these inputs."""
        replacing = self._replacing.get((topic, partition), {})
        self._replacing[topic, partition] = {offset: each for offset, each in replacing.items() if offset >= to}

    async def load(self, partition: int, positions: Positions) -> None:
        """Load what a task has not consumed yet, when a rerun resumes."""
        for topic, shadow in self.topics.items():
            async for records in chunks(self._log.port, (shadow, partition), 0):
                for record in records:
                    offset = note_of(record).offset
                    consumed_to = positions.next.get(shadow if offset is None else topic, 0)
                    if (record.offset if offset is None else offset) >= consumed_to:
                        self.add(record)
