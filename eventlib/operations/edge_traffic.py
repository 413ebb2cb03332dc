"""Counts how often each arrow of a choreography's diagram occurs on a log, and how long it takes: in one pass.

Memory is bounded: for each arrow a histogram (exact to a second, to 1% beyond), for events that may have consequences
the newest few hundred thousand. An event whose cause is older is counted without its duration.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappush, heapreplace

from eventlib.analysis.diagram.building import ExplainedArrows
from eventlib.analysis.diagram.model import Traffic
from eventlib.analysis.event_graph import EventGraph
from eventlib.eventlog import EventLog
from eventlib.ground.histogram import Histogram
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.queries.decoding import event_topics_there
from eventlib.queries.stream import tail

MOST_CAUSES = 250_000
_P95, _P99 = 0.95, 0.99


@dataclass(frozen=True)
class Counted:
    """The result: events by type, and each arrow's traffic.

    `unexplained` events have a cause from which these services do not emit them: older code's, or published by force.
    `without_cause` are events whose cause is not on the log, or too old; they are in `counts` only.
    """

    counts: Mapping[str, int]
    arrows: Mapping[tuple[str, str], Traffic]
    unexplained: int
    without_cause: int

    @property
    def total(self) -> int:
        """How many events there are."""
        return sum(self.counts.values())


async def count_traffic(log: EventLog, most_causes: int = MOST_CAUSES) -> Counted:
    """Return the traffic of each arrow on a log."""
    counting = TrafficCounter(log.choreography, most_causes)
    async for records in tail(log.port, [topic.name for topic in await event_topics_there(log)]):
        for record in records:
            counting.take(record, log.external.type_of(record))
    return counting.done()


@dataclass(frozen=True, slots=True, order=True)
class Passage:
    """An event that was emitted along an arrow: how long after its cause (ms), when, where it is, and of which saga."""

    took_ms: int
    at_ms: int
    place: tuple[str, int, int]
    correlation_id: str


class Passages:
    """The newest and the slowest events along an arrow, up to `most` of each."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.newest = deque[Passage](maxlen=most)
        self._slowest = list[Passage]()

    def add(self, passage: Passage) -> None:
        """Add the next event, in time order."""
        self.newest.append(passage)
        if len(self._slowest) < self.most:
            heappush(self._slowest, passage)
        elif passage > self._slowest[0]:
            heapreplace(self._slowest, passage)

    @property
    def slowest(self) -> Sequence[Passage]:
        """The slowest, the slowest first."""
        return sorted(self._slowest, reverse=True)


def _timed(times: Histogram) -> Traffic:
    return Traffic(times.count, times.percentile(_P95), times.percentile(_P99))


class _Causes:
    """The newest events that may have consequences, by id: their type and time."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._newer: dict[int, tuple[str, int]] = {}
        self._older: dict[int, tuple[str, int]] = {}

    def add(self, event_id: str, cause: tuple[str, int]) -> None:
        if len(self._newer) >= self._half:
            self._older, self._newer = self._newer, {}
        self._newer.setdefault(hash(event_id), cause)

    def get(self, event_id: str) -> tuple[str, int] | None:
        key = hash(event_id)
        return self._newer.get(key) or self._older.get(key)


@dataclass
class TrafficCounter:
    """Counts events one after the other, and gives the counts at any time: events of one millisecond are processed together, since a cause and its consequences may share it."""

    choreography: Choreography
    most_causes: int = MOST_CAUSES
    most_passages: int = 0
    """How many events are kept of each arrow, of the newest and of the slowest each."""
    counts: dict[str, int] = field(default_factory=dict)
    unexplained: int = 0
    without_cause: int = 0

    def __post_init__(self) -> None:
        flow = EventGraph(self.choreography)
        self._entries = {contract_of(event).type for event in flow.entries}
        self._arrows = ExplainedArrows(flow)
        self._causes = _Causes(self.most_causes)
        self._asked = Counter[tuple[str, str]]()
        self._times: dict[tuple[str, str], Histogram] = {}
        self.passages = dict[tuple[str, str], Passages]()
        self._now: list[Record] = []
        self._now_ms = 0

    def take(self, record: Record, event_type: str | None) -> None:
        """Process the next event, in time order."""
        if event_type is None:
            return
        if record.timestamp_ms != self._now_ms:
            self._attribute()
            self._now_ms = record.timestamp_ms
        self.counts[event_type] = self.counts.get(event_type, 0) + 1
        self._causes.add(record.event_id, (event_type, record.timestamp_ms))
        if event_type not in self._entries:
            self._now.append(record)

    def done(self) -> Counted:
        """Return the counts."""
        self._attribute()
        timed = {arrow: _timed(times) for arrow, times in self._times.items()}
        asked = {arrow: Traffic(count) for arrow, count in self._asked.items()}
        return Counted(self.counts, {**asked, **timed}, self.unexplained, self.without_cause)

    def _attribute(self) -> None:
        for record in self._now:
            cause = None if record.causation_id is None else self._causes.get(record.causation_id)
            if cause is None:
                self.without_cause += 1
                continue
            arrows = self._arrows.of(cause[0], record.type or "", record.source or "")
            if not arrows:
                self.unexplained += 1
                continue
            took_ms = record.timestamp_ms - cause[1]
            self._asked.update(arrows[:-1])
            self._times.setdefault(arrows[-1], Histogram()).add(took_ms)
            if self.most_passages:
                place = record.topic, record.partition, record.offset
                passage = Passage(took_ms, record.timestamp_ms, place, record.correlation_id or record.event_id)
                for arrow in arrows:
                    self.passages.setdefault(arrow, Passages(self.most_passages)).add(passage)
        self._now.clear()
