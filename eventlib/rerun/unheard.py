"""What a rerun has said and its own deciders have not heard yet.

Where the service has said the same event, the rerun's takes its place among the inputs; where it has not, the event is
heard once all is heard that was recorded before it was said. A header on each event tells which of the two it is.
"""

from collections import deque
from collections.abc import Iterator
from itertools import takewhile

from eventlib.eventlog import EventLog
from eventlib.log.port import Record, TopicPartition
from eventlib.runtime.records import Positions
from eventlib.service import Service

_HEADER = "rerun"
_EXTRA, _ELSEWHERE = b"extra", b"elsewhere"
_CHUNK = 2_000


def marked(said: Record, recorded: Record | None, place: TopicPartition, heard_to: int) -> Record:
    """Return an event that a rerun says, with a note of what the service has said under its id, and where.

    `place` is where the event would stand if the service had said it, `heard_to` how far that is heard already.
    """
    note = _EXTRA
    if recorded is not None:
        is_to_come = recorded[:2] == place and recorded.offset >= heard_to
        note = str(recorded.offset).encode() if is_to_come else _ELSEWHERE
    return said._replace(headers=(*said.headers, (_HEADER, note)))


def recorded_offset(said: Record) -> int | None:
    """Return where, in its own topic and partition, it is to be heard instead of the service's; None: nowhere there."""
    note = next(value for name, value in said.headers if name == _HEADER)
    return None if note in {_EXTRA, _ELSEWHERE} else int(note)


def unmarked(said: Record) -> Record:
    """Return an event as the service would have said it."""
    return said._replace(headers=tuple(header for header in said.headers if header[0] != _HEADER))


class Unheard:
    """The events of a rerun that wait for its own deciders, by the partition in which these read."""

    def __init__(self, log: EventLog, run: Service) -> None:
        self._log = log
        heard = {topic.name for topic in run.inputs}
        self.topics = {topic.name: run.said_on(topic).name for topic in run.outputs if topic.name in heard}
        """The topics that the service both says and hears: where a rerun says what belongs there."""
        self._home = {said: topic for topic, said in self.topics.items()}
        self._placed: dict[TopicPartition, dict[int, Record]] = {}
        self._extra: dict[TopicPartition, deque[Record]] = {}

    def add(self, said: Record) -> None:
        """Let an event wait that is on the log now."""
        topic = self._home.get(said.topic)
        if topic is None:
            return
        place = topic, said.partition
        offset = recorded_offset(said)
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
            offset = 0
            while records := await self._log.port.read(said_on, partition, offset, _CHUNK):
                offset = records[-1].offset + 1
                for record in records:
                    place = recorded_offset(record)
                    heard_to = positions.next.get(said_on if place is None else topic, 0)
                    if (record.offset if place is None else place) >= heard_to:
                        self.add(record)
