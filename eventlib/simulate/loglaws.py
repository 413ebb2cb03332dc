"""The laws of any log: what the runtime promises, whatever the application is."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from eventlib.choreography import Choreography
from eventlib.codec.port import Codec
from eventlib.laws import Breach, Fold, Law
from eventlib.log.port import Record, TopicPartition
from eventlib.runtime.records import POSITION_KEY, JournalEntry, Positions


@dataclass(frozen=True)
class Noted:
    """How a law of the log was broken."""

    what: str = ""

    def __str__(self) -> str:
        return self.what


_THE_LOG = Fold("the log", state=Noted, key="id")


def _law(name: str, sentence: str) -> Law:
    return Law(name, sentence, (_THE_LOG,), False, lambda noted: not noted.what)


IDS = _law("ids_are_unique", "Each fact has an id of its own: nothing is said twice.")
CAUSES = _law("causes_come_first", "What causes an event is on the log before it, and is no younger.")
NUMBERS = _law("facts_are_numbered", "A decider numbers what it says under a key: from 1, no gap and nothing twice.")
BARRIER = _law("deadlines_wait", "A deadline passes only after all that was there when it fell due was handled.")
REST = _law("all_comes_to_rest", "When faults stop, everything comes to rest: nothing goes on for ever.")
PARKED = _law("nothing_stays_parked", "When faults stop, what was parked goes on after a retry.")
FAILURES = _law("no_task_fails", "A task stops only with its process, or when another one has taken over.")


def broken(law: Law, key: str, what: str) -> Breach:
    """Return a breach of one of the laws above."""
    return Breach(law, key, (Noted(what),))


class LogLaws:
    """Checks facts and journals as they are appended. `clocks_are_right` as long as nobody's clock was set wrong.

    `given_up` are the ids of the inputs that somebody has discarded, as journals say.
    """

    def __init__(self, choreography: Choreography, codec: Codec, clock: Callable[[], int]) -> None:
        self.clocks_are_right = True
        self.given_up = set[str]()
        self._codec = codec
        self._clock = clock
        self._inputs = {s.journal.name: [topic.name for topic in s.inputs] for s in choreography.services}
        self._recorded: dict[str, int] = {}
        self._numbers = Counter[tuple[str, str]]()
        self._came: dict[TopicPartition, tuple[list[int], list[int]]] = {}

    def event(self, record: Record) -> Iterator[Breach]:
        """Take an event in, and return what it breaks."""
        times, offsets = self._came.setdefault(record[:2], ([], []))
        times.append(self._clock())
        offsets.append(record.offset)
        if record.source != _OUTSIDE:
            yield from self._fact(record)
        self._recorded.setdefault(record.event_id, record.timestamp_ms)

    def _fact(self, record: Record) -> Iterator[Breach]:
        what = f"{record.type} by {record.source} about {record.subject}"
        if record.event_id in self._recorded:
            yield broken(IDS, record.event_id, f"{what} is on the log already")
        caused_at = self._recorded.get(record.causation_id or "")
        if caused_at is None or caused_at > record.timestamp_ms:
            yield broken(CAUSES, record.event_id, f"{what} was caused by {record.causation_id}")
        speaker = (record.source or "", record.subject or "")
        self._numbers[speaker] += 1
        if record.sequence != self._numbers[speaker]:
            yield broken(NUMBERS, record.event_id, f"{what} has number {record.sequence}, not {self._numbers[speaker]}")

    def journal(self, record: Record, appended: Sequence[Record]) -> Iterator[Breach]:
        """Take a transaction's journal record in, with all of the transaction, and return what it breaks."""
        if b"discard" in (record.value or b""):
            steps = self._codec.decode(JournalEntry, record.value or b"").steps
            self.given_up |= {step.request for step in steps if step.kind == "discard"}
        if not (self.clocks_are_right and record.topic in self._inputs and b"deadline" in (record.value or b"")):
            return
        entry = self._codec.decode(JournalEntry, record.value or b"")
        position = next((each.value for each in appended if each.key == _POSITION), None)
        if position is None:
            return
        reached = self._codec.decode(Positions, position).next
        for step in entry.steps:
            for topic in self._inputs[record.topic] if step.kind == "deadline" else ():
                times, offsets = self._came.get((topic, record.partition), ([], []))
                there = bisect_left(times, step.first)
                if there and reached[topic] <= offsets[there - 1]:
                    what = f"{step.detail} passed for {step.decider} {step.key}, and {topic} was not read up to then"
                    yield broken(BARRIER, step.key, what)


_OUTSIDE = "outside"
_POSITION = POSITION_KEY.encode()
