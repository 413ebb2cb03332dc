"""What a rerun has said and its own deciders have not heard yet.

Where the service has said the same event, the rerun's takes its place among the inputs; where it has not, the event is
heard once all is heard that was recorded before it was said. A note in each event's headers tells which of the two.
"""

from collections import deque
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from eventlib.eventlog import EventLog
from eventlib.log.base import Record, TopicPartition
from eventlib.log.reading import chunks
from eventlib.model.service import Service
from eventlib.runtime.records import Positions

_HEADER = "rerun"


class PendingInput(NamedTuple):
    """What a rerun notes on each event that it says: by which task, and instead of which event of the service's.

    `place` is where the event is to be heard: at this offset of its own topic and partition, in the other's stead; None
    when the other does not stand there, is heard already, or does not exist.
    """

    task: int
    instead: str
    place: int | None


def marked(said: Record, note: PendingInput) -> Record:
    """Return an event that a rerun says with its note."""
    place = "" if note.place is None else str(note.place)
    return said._replace(headers=(*said.headers, (_HEADER, f"{note.task}/{place}/{note.instead}".encode())))


def note_of(said: Record) -> PendingInput:
    """Return the note on an event that a rerun has said."""
    text = next(value for name, value in said.headers if name == _HEADER).decode()
    task, place, instead = text.split("/", 2)
    return PendingInput(int(task), instead, int(place) if place else None)


def unmarked(said: Record) -> Record:
    """Return an event as the service would have said it."""
    return said._replace(headers=tuple(header for header in said.headers if header[0] != _HEADER))


class PendingInputs:
    """The events of a rerun that wait for its own deciders, by the partition in which these read."""

    def __init__(self, log: EventLog, run: Service) -> None:
        self._log = log
        heard = {topic.name for topic in run.inputs}
        self.topics = {topic.name: run.said_on(topic).name for topic in run.outputs if topic.name in heard}
        """The topics that the service both says and hears: where a rerun says what belongs there."""
        self._home = {said: topic for topic, said in self.topics.items()}
        self._placed: dict[TopicPartition, dict[int, Record]] = {}
        self._extra: dict[TopicPartition, deque[Record]] = {}

    def home_of(self, said_on: str) -> str | None:
        """Return the topic in whose stead the rerun says something here, and hears it; None: nobody hears this."""
        return self._home.get(said_on)

    def add(self, said: Record) -> None:
        """Let an event wait that is on the log now."""
        topic = self._home.get(said.topic)
        if topic is None:
            return
        place = topic, said.partition
        offset = note_of(said).place
        if offset is None:
            self._extra.setdefault(place, deque()).append(unmarked(said))
        else:
            self._placed.setdefault(place, {})[offset] = unmarked(said)

    def has(self, recorded: Record) -> bool:
        """Tell whether the rerun has said something where the service said this."""
        return recorded.offset in self._placed.get(recorded[:2], {})

    def take(self, recorded: Record) -> list[Record]:
        """Take what is to be heard where the service said this: the rerun's event, after those that it said before."""
        said = self._placed.get(recorded[:2], {}).pop(recorded.offset, None)
        if said is None:
            return []
        extras = self._extra.get(recorded[:2], deque())
        before = [extras.popleft() for _ in [*takewhile(lambda extra: extra.offset < said.offset, extras)]]
        return [*before, said._replace(topic=recorded.topic, offset=recorded.offset)]

    def next_extra(self, topic: str, partition: int) -> Record | None:
        """Return the next event for a task that the service has not said."""
        waiting = self._extra.get((topic, partition))
        return waiting[0] if waiting else None

    def heard(self, extra: Record) -> None:
        """Take note that the next of these is heard."""
        self._extra[self._home[extra.topic], extra.partition].popleft()

    def all_extras(self) -> Iterator[Record]:
        """Yield what nobody has heard yet."""
        for waiting in self._extra.values():
            yield from waiting

    def skip(self, topic: str, partition: int, to: int) -> None:
        """Forget what has its place before an offset: somebody has decided that this is not handled."""
        placed = self._placed.get((topic, partition), {})
        self._placed[topic, partition] = {offset: said for offset, said in placed.items() if offset >= to}

    async def load(self, partition: int, positions: Positions) -> None:
        """Find what a task has not heard yet, when a rerun goes on."""
        for topic, said_on in self.topics.items():
            async for records in chunks(self._log.port, (said_on, partition), 0):
                for record in records:
                    place = note_of(record).place
                    heard_to = positions.next.get(said_on if place is None else topic, 0)
                    if (record.offset if place is None else place) >= heard_to:
                        self.add(record)
